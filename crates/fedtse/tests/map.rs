//! The map's API of a real host: what it answers is what it describes; what was published as stored survives a kill;
//! strangers and slow readers hold nothing up.

mod common;
mod live_parties;
#[path = "../../server/tests/openapi/mod.rs"]
mod openapi;
mod parties;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use live_parties::{LiveWorld, Sender};
use openapi::Description;
use parties::{Party, wait_for};
use serde_json::Value;

const TOKEN: &str = "a-token-for-this-test";

/// The status, the headers in small letters, and the body of an answer.
fn ask(
    port: u16,
    method: &str,
    path: &str,
    more: &str,
) -> (u16, BTreeMap<String, String>, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    write!(
        stream,
        // By version 1.0 the body is sent as it is, without chunks.
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\n{more}\r\n"
    )
    .expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers");
    let head = String::from_utf8(answer[..end].to_vec()).expect("text");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    (status.expect("a status"), headers, answer[end + 4..].to_vec())
}

fn get(port: u16, path: &str) -> (u16, Value) {
    let (status, _, body) = ask(port, "GET", path, "");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

/// Steps on, until the host has told so many estimates.
fn estimate(world: &LiveWorld, city: &mut Sender, events: &live_parties::Events, count: usize) {
    while events.all().len() < count {
        city.step();
        world.wait_for_settled(city, events);
    }
}

#[test]
fn the_host_answers_as_it_says_and_forgets_nothing_that_it_has_stored() {
    let world = LiveWorld::new();
    let folder = world.path("city");
    fs::write(folder.join("token"), format!("{TOKEN}\n")).unwrap();
    let config = fs::read_to_string(folder.join("live.toml")).unwrap();
    let readers = "[readers]\ntoken = \"token\"\nrequests_per_s = 50\nper_address = 40\n";
    fs::write(folder.join("live.toml"), format!("{config}{readers}")).unwrap();
    // Alone: guests that are not there are not waited for.
    let mut host = world.start("city");
    let mut city = world.sender("city");
    let port = world.publish_port();
    wait_for(&mut [], || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let (status, none) = get(port, "/v1/estimates");
    assert_eq!((status, &none["error"]), (503, &"no estimate yet".into()));
    let events = world.events();
    estimate(&world, &mut city, &events, 12);
    described(port);
    slow_readers(&world, port, &mut city);
    let stored = killed_and_started_again(&world, &mut host, city, events);
    forgotten(port, &stored);
    // Last, for it leaves no requests to others of this address.
    refusals(port);
    host.terminate();
    assert!(host.wait().success(), "{}", host.log());
}

#[test]
fn another_map_follows_what_a_host_writes_to_postgresql() {
    let Ok(url) = std::env::var("FEDTSE_TEST_POSTGRES") else {
        assert!(std::env::var("FEDTSE_REQUIRE_POSTGRES").is_err(), "no FEDTSE_TEST_POSTGRES");
        eprintln!("no FEDTSE_TEST_POSTGRES: nothing is tested; see scripts/with_postgres.sh");
        return;
    };
    let url = format!("{url}#followed_{}", std::process::id());
    let world = LiveWorld::new();
    let config = fs::read_to_string(world.path("city").join("live.toml")).unwrap();
    let config = format!("{config}[history]\nstore = \"{url}\"\n");
    fs::write(world.path("city").join("live.toml"), config).unwrap();
    let _host = world.start("city");
    let mut city = world.sender("city");
    let events = world.events();
    estimate(&world, &mut city, &events, 3);
    let (port, log) = (parties::free_port(), world.path("serve.log"));
    let http = format!("127.0.0.1:{port}");
    let arguments = ["serve", "--history", &url, "--http", &http];
    let mut reader = Party::run("reader", &arguments, &log);
    for more in 0..3 {
        estimate(&world, &mut city, &events, 3 + more);
        let told = events.all().pop().expect("an estimate");
        wait_for(&mut [], || {
            let open = TcpStream::connect(("127.0.0.1", port)).is_ok();
            open && get(port, "/v1/estimates").1["step"] == told["step"]
        });
        let (_, mut found) = get(port, "/v1/estimates");
        assert_eq!(found["age_s"], Value::Null);
        found["age_s"] = told["age_s"].clone();
        assert_eq!(found, told);
    }
    reader.terminate();
    assert!(reader.wait().success(), "{}", reader.log());
}

/// Each path, as the host's own description has it.
fn described(port: u16) {
    let (_, description) = get(port, "/v1/openapi.json");
    let description = Description(description);
    let (_, history) = get(port, "/v1/history");
    let newest = history["stretches"][0]["last"].as_i64().expect("a step");
    let (from, to) = ((newest - 3) * 10, (newest + 1) * 10);
    let step = newest.to_string();
    let mut checked = 0;
    for path in description.paths("get") {
        let (status, headers, body) = match path.as_str() {
            "/v1/estimates/stream" | "/v1/estimates/changes" | "/v1/alarms/stream" => continue,
            // The one that needs a parameter.
            "/v1/route" => ask(port, "GET", "/v1/route?link=E1&link=E2", ""),
            _ => ask(port, "GET", &path.replace("{step}", &step).replace("{link}", "E1"), ""),
        };
        let kind = headers["content-type"].split(';').next().expect("a type");
        description.check(&path, "get", status, kind, &body);
        assert_eq!(status, 200, "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert!(headers["content-security-policy"].contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        checked += 1;
    }
    assert_eq!(checked, 14);
    // What is wrong is told, in the form that is described.
    for (path, of, expected) in [
        ("/v1/history/-999", "/v1/history/{step}", 404),
        ("/v1/links/nowhere", "/v1/links/{link}", 404),
        ("/v1/links/E1?from_s=x", "/v1/links/{link}", 400),
        ("/v1/links/E1?from_s=9&to_s=1", "/v1/links/{link}", 400),
        ("/v1/links/E1?until=9", "/v1/links/{link}", 400),
        ("/v1/links/E1?from_s=-1e300&to_s=1e300", "/v1/links/{link}", 400),
        ("/v1/links/E1?from_s=-1e15&to_s=1e15", "/v1/links/{link}", 400),
        ("/v1/exports/estimates.geojson?step=-5", "/v1/exports/estimates.geojson", 404),
    ] {
        let (status, _, body) = ask(port, "GET", path, "");
        assert_eq!(status, expected, "{path}");
        description.check(of, "get", status, "application/json", &body);
    }
    // A span of time is that span.
    let (_, series) = get(port, &format!("/v1/links/E1?from_s={from}&to_s={to}"));
    let steps: Vec<i64> = series["moments"]
        .as_array()
        .expect("moments")
        .iter()
        .map(|m| m["step"].as_i64().expect("a step"))
        .collect();
    assert_eq!(steps, [newest - 3, newest - 2, newest - 1, newest]);
    let (_, _, csv) =
        ask(port, "GET", &format!("/v1/exports/estimates.csv?from_s={from}&to_s={to}"), "");
    let csv = String::from_utf8(csv).expect("text");
    assert_eq!(csv.lines().count(), 1 + 4 * 17);
    // The last row is the last link of the newest estimate, digit by digit.
    let (_, latest) = get(port, "/v1/estimates");
    let link = &latest["links"][16];
    let row: Vec<&str> = csv.lines().last().expect("a row").split(',').collect();
    assert_eq!(row[2], link["link"].as_str().expect("a name"));
    assert_eq!(row[3].parse::<f64>().ok(), link["density"].as_f64());
    assert_eq!(row[4].parse::<f64>().ok(), link["flow"].as_f64());
    assert!(row.last().expect("a field").contains("fleet-a:absent"), "{row:?}");
    // Without all guests there are no intervals.
    assert_eq!(latest["interval_percent"], Value::Null);
    assert!(link.get("density_interval").is_none());
    // The page, and nothing that is not part of it.
    let (status, headers, body) = ask(port, "GET", "/", "");
    assert_eq!((status, headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    assert!(String::from_utf8(body).expect("text").contains("<div id=\"map\""));
    let tag = &headers["etag"];
    assert_eq!(ask(port, "GET", "/", &format!("If-None-Match: {tag}\r\n")).0, 304);
    assert_eq!(ask(port, "GET", "/../Cargo.toml", "").0, 404);
    assert_eq!(ask(port, "POST", "/v1/estimates", "Content-Length: 0\r\n").0, 405);
}

/// Whoever asks too often waits; whoever has no token changes nothing.
fn refusals(port: u16) {
    for more in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic x\r\n"] {
        let (status, headers, _) = ask(port, "DELETE", "/v1/history?before_s=1e9", more);
        assert_eq!((status, headers["www-authenticate"].as_str()), (401, "Bearer"));
    }
    assert!(get(port, "/v1/history").1["steps"].as_i64() > Some(0));
    // 50 a second and 200 at once: for 3000 in one go that is a minute's worth.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut reader = stream.try_clone().expect("a connection");
    let asking = std::thread::spawn(move || {
        let one = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n";
        (0..3000).all(|_| stream.write_all(one).is_ok());
        stream
    });
    let (mut seen, mut buffer) = (String::new(), [0; 1 << 16]);
    while !seen.contains("HTTP/1.1 429") {
        let read = reader.read(&mut buffer).expect("an answer");
        assert!(read > 0, "3000 requests in one go, and none was refused");
        seen = seen.split_off(seen.len().saturating_sub(64));
        seen += &String::from_utf8_lossy(&buffer[..read]);
    }
    drop(reader);
    let _ = asking.join();
    // Its bucket fills again.
    wait_for(&mut [], || ask(port, "GET", "/v1/map", "").0 == 200);
}

/// Readers that say half a word, or read nothing, hold places; estimates come all the same.
fn slow_readers(world: &LiveWorld, port: u16, city: &mut Sender) {
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut held = Vec::new();
    for number in 0..30 {
        let mut stream = connect();
        let what: &[u8] = if number % 2 == 0 {
            b"GET /v1/estimates HTTP/1.1\r\nHost: loc"
        } else {
            b"GET /v1/estimates/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
        };
        stream.write_all(what).expect("some bytes");
        held.push(stream);
    }
    let events = world.events();
    wait_for(&mut [], || !events.all().is_empty());
    let before = events.all().len();
    for _ in 0..5 {
        city.step();
        world.wait_for_settled(city, &events);
    }
    assert_eq!(events.all().len(), before + 5);
    // Of one address there are forty places; with these it has more, and the last ones are turned away.
    held.extend((0..40).map(|_| connect()));
    let mut answer = String::new();
    let mut last = connect();
    last.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(held);
    wait_for(&mut [], || {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        let mut answer = String::new();
        let asked =
            write!(stream, "GET /v1/map HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        asked.is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
    });
}

/// Killed like by a power failure, and started again: all that was told as stored is there, number by number.
fn killed_and_started_again(
    world: &LiveWorld,
    host: &mut Party,
    mut city: Sender,
    events: live_parties::Events,
) -> Vec<i64> {
    let told = events.all();
    // In the middle of what comes next.
    for _ in 0..10 {
        city.step();
    }
    wait_for(&mut [], || events.all().len() > told.len());
    host.kill();
    let mut told = events.all();
    // One that a slow disk had not taken in time was told as not stored, and promises nothing.
    told.retain(|estimate| estimate["stored"] == true);
    assert!(told.len() > 5, "{} estimates told as stored", told.len());
    *host = world.start("city");
    let port = world.publish_port();
    wait_for(&mut [], || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mut steps = Vec::new();
    for estimate in &told {
        let step = estimate["step"].as_i64().expect("a step");
        let (status, mut found) = get(port, &format!("/v1/history/{step}"));
        assert_eq!(status, 200, "step {step} was told as stored");
        assert_eq!(found["age_s"], Value::Null);
        found["age_s"] = estimate["age_s"].clone();
        assert_eq!(&found, estimate);
        steps.push(step);
    }
    steps
}

/// With the token, the past can be cut.
fn forgotten(port: u16, stored: &[i64]) {
    let middle = stored[stored.len() / 2];
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let (status, _, _) = ask(port, "DELETE", "/v1/history", &token);
    assert_eq!(status, 400);
    let path = format!("/v1/history?before_s={}", middle * 10);
    let (status, _, body) = ask(port, "DELETE", &path, &token);
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let older = stored.iter().filter(|step| **step < middle).count();
    assert_eq!((status, body["forgotten_steps"].as_u64()), (200, Some(older as u64)));
    assert_eq!(get(port, &format!("/v1/history/{}", middle - 1)).0, 404);
    assert_eq!(get(port, &format!("/v1/history/{middle}")).0, 200);
}
