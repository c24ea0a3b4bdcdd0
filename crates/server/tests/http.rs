//! The HTTP server over real sockets: routes, limits, and clients that misbehave.

mod client;
mod openapi;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use client::{Options, PATIENCE, Server, TOKEN};
use flate2::read::GzDecoder;
use openapi::Description;
use server::ReadersSection;

/// The description with a value for each parameter of a path.
fn example(path: &str) -> String {
    let path = path.replace("{step}", "7").replace("{link}", "E1");
    // The one that needs a parameter.
    if path == "/v1/route" { format!("{path}?link=E1&link=E2") } else { path }
}

const STREAMS: [&str; 3] = ["/v1/estimates/stream", "/v1/estimates/changes", "/v1/alarms/stream"];

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn description(server: &Server) -> Description {
    Description(server.get("/v1/openapi.json").json())
}

/// `cargo run -p server --example openapi > crates/server/openapi.json` writes the file again.
#[test]
fn the_served_description_is_the_generated_one_and_the_checked_in_one() {
    let server = Server::start(Options::default());
    let response = server.get("/v1/openapi.json");
    assert!(response.text() == server::openapi_json(), "the served one is not the generated one");
    assert!(response.text() == include_str!("../openapi.json"), "openapi.json is out of date");
}

#[test]
fn every_described_operation_answers_as_described() {
    let server = Server::start(Options::default());
    server.publish(20);
    let description = description(&server);
    let paths = description.paths("get");
    assert_eq!(paths.len(), 17);
    for path in paths.iter().filter(|path| !STREAMS.contains(&path.as_str())) {
        let response = server.get(&example(path));
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        description.check(path, "get", 200, response.content_type(), &response.body);
        assert!(!response.headers.contains_key("access-control-allow-origin"), "{path}");
        assert_eq!(response.headers["cache-control"], "no-store", "{path}");
        assert_eq!(response.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(response.headers["x-frame-options"], "DENY", "{path}");
        assert_eq!(response.headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(response.headers["cross-origin-opener-policy"], "same-origin", "{path}");
        let policy = &response.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    }
    let deleted = server.request("DELETE", "/v1/history?before_s=50", &bearer(TOKEN));
    description.check("/v1/history", "delete", 200, "application/json", &deleted.body);
    assert_eq!(deleted.json()["forgotten_steps"], 5);
}

#[test]
fn other_methods_are_refused_and_the_allowed_ones_are_those_of_the_description() {
    let server = Server::start(Options::default());
    let description = description(&server);
    for path in description.paths("get") {
        let mut expected: BTreeSet<&str> = BTreeSet::from(["GET", "HEAD"]);
        if description.paths("delete").contains(&path) {
            expected.insert("DELETE");
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "TRACE"] {
            if expected.contains(method) {
                continue;
            }
            let response = server.request(method, &example(&path), "Content-Length: 0\r\n");
            assert_eq!(response.status, 405, "{method} {path}");
            let allow: BTreeSet<&str> = response.headers["allow"].split(',').collect();
            assert_eq!(allow, expected, "{path}");
            assert!(response.error().starts_with("expected GET"), "{}", response.error());
        }
    }
    let page = server.request("POST", "/app.js", "Content-Length: 0\r\n");
    assert_eq!((page.status, page.headers["allow"].as_str()), (405, "GET,HEAD"));
}

/// Without the token nothing is changed, whatever else a request says; reading needs none.
#[test]
fn operations_with_security_need_the_token_and_others_do_not() {
    let server = Server::start(Options::default());
    server.publish(20);
    let description = description(&server);
    let steps = server.get("/v1/history").json()["steps"].as_i64();
    let mut secured = Vec::new();
    for method in ["get", "delete", "post", "put", "patch"] {
        for path in description.paths(method) {
            if description.0["paths"][&path][method].get("security").is_some() {
                secured.push((method.to_uppercase(), path));
            }
        }
    }
    assert_eq!(secured, [("DELETE".to_owned(), "/v1/history".to_owned())]);
    let basic = format!("Authorization: Basic {TOKEN}\r\n");
    let short = bearer(&TOKEN[..TOKEN.len() - 1]);
    for headers in ["", &bearer("wrong"), &bearer(""), &short, &basic] {
        for path in ["/v1/history?before_s=1e9", "/v1/history", "/v1/history?other=1"] {
            let response = server.request("DELETE", path, headers);
            assert_eq!(response.status, 401, "{path} {headers}");
            assert_eq!(response.headers["www-authenticate"], "Bearer");
            description.check("/v1/history", "delete", 401, "application/json", &response.body);
        }
    }
    assert_eq!(server.get("/v1/history").json()["steps"].as_i64(), steps);

    let without = Server::start(Options { token: false, ..Options::default() });
    let response = without.request("DELETE", "/v1/history?before_s=1e9", &bearer(TOKEN));
    assert_eq!(
        (response.status, response.error().as_str()),
        (403, "read-only: this host has no token")
    );
}

#[test]
fn errors_have_a_status_and_a_text() {
    let server = Server::start(Options::default());
    let description = description(&server);
    for (path, described, status, text) in [
        ("/v1/estimates", "/v1/estimates", 503, "no estimate yet"),
        ("/v1/history/-999", "/v1/history/{step}", 404, "step -999 is not stored"),
        (
            "/v1/history/x",
            "/v1/history/{step}",
            404,
            "/v1/history/x: not found; see /v1/openapi.json",
        ),
        ("/v1/links/nowhere", "/v1/links/{link}", 404, "link \"nowhere\": not found"),
        (
            "/v1/links/%ff",
            "/v1/links/{link}",
            404,
            "/v1/links/%ff: not found; see /v1/openapi.json",
        ),
        ("/v1/links/west%202%2F3", "/v1/links/{link}", 404, "link \"west 2/3\": not found"),
        (
            "/v1/links/E1?from_s=x",
            "/v1/links/{link}",
            400,
            "from_s: found \"x\", expected a number",
        ),
        (
            "/v1/links/E1?from_s=NaN",
            "/v1/links/{link}",
            400,
            "from_s: found \"NaN\", expected a number",
        ),
        ("/v1/links/E1?to_s=", "/v1/links/{link}", 400, "to_s: found \"\", expected a number"),
        (
            "/v1/links/E1?from_s=9&to_s=1",
            "/v1/links/{link}",
            400,
            "from_s: found a time after to_s, expected one before",
        ),
        (
            "/v1/links/E1?from_s=1e300",
            "/v1/links/{link}",
            400,
            "from_s: found 1e300, expected seconds since 1970",
        ),
        (
            "/v1/links/E1?from_s=-1e15&to_s=1e15",
            "/v1/links/{link}",
            400,
            "found more than 20000 steps, expected fewer",
        ),
        ("/v1/history/-999/packed", "/v1/history/{step}/packed", 404, "step -999 is not stored"),
        ("/v1/feeds/estimates.geojson", "/v1/feeds/estimates.geojson", 503, "no estimate yet"),
        ("/v1/feeds/datex2.xml", "/v1/feeds/datex2.xml", 503, "no estimate yet"),
        ("/v1/route", "/v1/route", 400, "link: found 0 links, expected 1 to 200"),
        ("/v1/route?link=nowhere", "/v1/route", 404, "link \"nowhere\": not found"),
        ("/v1/route?link=E1&to_s=x", "/v1/route", 400, "to_s: found \"x\", expected a number"),
        ("/v1/route?link=E1&to_s=1&to_s=2", "/v1/route", 400, "duplicate field `to_s`"),
        (
            "/v1/route?link=E1&link=E2&from_s=0&to_s=1000010",
            "/v1/route",
            400,
            "found 100001 steps of 2 links, expected at most 100000",
        ),
        (
            "/v1/exports/estimates.geojson?step=-5",
            "/v1/exports/estimates.geojson",
            404,
            "step -5 is not stored",
        ),
        (
            "/v1/exports/estimates.geojson?step=1.5",
            "/v1/exports/estimates.geojson",
            400,
            "step: found \"1.5\", expected a whole number",
        ),
    ] {
        let response = server.get(path);
        assert_eq!((response.status, response.error().as_str()), (status, text), "{path}");
        description.check(described, "get", status, "application/json", &response.body);
    }
    // Unknown and repeated parameters, of every path.
    for path in description.paths("get") {
        let path_of = example(&path);
        let sign = if path_of.contains('?') { '&' } else { '?' };
        let response = server.get(&format!("{path_of}{sign}other=1"));
        assert_eq!(response.status, 400, "{path}");
        assert!(response.error().contains("unknown field `other`"), "{}", response.error());
        description.check(&path, "get", 400, "application/json", &response.body);
    }
    let response = server.get("/v1/links/E1?from_s=1&from_s=2");
    assert_eq!(
        (response.status, response.error().contains("duplicate field `from_s`")),
        (400, true)
    );
    assert_eq!(server.get("/?page=1").status, 400);
    for path in ["/v1", "/v1/", "/v1/other", "/other", "/../Cargo.toml", "/v1/links/", "/v2/map"] {
        let response = server.get(path);
        let expected = format!("{path}: not found; see /v1/openapi.json");
        assert_eq!((response.status, response.error()), (404, expected));
    }
    let response = server.request("DELETE", "/v1/history", &bearer(TOKEN));
    assert_eq!((response.status, response.error().contains("before_s")), (400, true));
}

#[test]
fn a_host_without_a_history_or_an_origin_says_so() {
    let server = Server::start(Options { steps: None, ..Options::default() });
    for path in ["/v1/history", "/v1/history/1", "/v1/links/E1", "/v1/exports/estimates.csv"] {
        let response = server.get(path);
        assert_eq!(
            (response.status, response.error().as_str()),
            (404, "this host stores no history")
        );
    }
    let server = Server::start(Options { steps: Some(0), ..Options::default() });
    for path in ["/v1/links/E1", "/v1/exports/estimates.parquet", "/v1/exports/estimates.geojson"] {
        let response = server.get(path);
        assert_eq!((response.status, response.error().as_str()), (404, "nothing is stored yet"));
    }
    let server = Server::start(Options { origin: false, ..Options::default() });
    let response = server.get("/v1/exports/estimates.geojson");
    let text = "the network file has no origin, so its place on Earth is unknown";
    assert_eq!((response.status, response.error().as_str()), (409, text));
}

#[test]
fn a_span_of_time_is_that_span_in_every_form() {
    let server = Server::start(Options::default());
    let links = server.info.network.links().len();
    let series = server.get("/v1/links/E1?from_s=40&to_s=80").json();
    let moments = series["moments"].as_array().unwrap();
    let steps: Vec<i64> = moments.iter().map(|moment| moment["step"].as_i64().unwrap()).collect();
    assert_eq!(steps, [4, 5, 6, 7]);
    // Step 7 was estimated without a guest, so that it has no interval.
    assert!(
        moments[2].get("density_interval").is_some()
            && moments[3].get("density_interval").is_none()
    );

    let csv = server.get("/v1/exports/estimates.csv?from_s=40&to_s=80");
    assert_eq!(csv.headers["content-disposition"], "attachment; filename=\"estimates.csv\"");
    let mut reader = csv::Reader::from_reader(csv.body.as_slice());
    let names: Vec<&str> = reader.headers().unwrap().iter().collect();
    assert_eq!(names[..4], ["step", "begin_s", "link", "density_veh_km_lane"]);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4 * links);
    let estimate = client::estimate(&server.info, 7);
    for (row, state) in rows[3 * links..].iter().zip(&estimate.states) {
        assert_eq!((&row[0], &row[1], &row[10]), ("7", "70", "fleet-a:in fleet-b:late"));
        assert_eq!(row[3].parse(), Ok(state.density.get()));
        assert_eq!(row[4].parse(), Ok(state.flow.get()));
        assert_eq!(&row[6], "");
    }

    let parquet = server.get("/v1/exports/estimates.parquet?from_s=40&to_s=80");
    assert_eq!(
        (&parquet.body[..4], &parquet.body[parquet.body.len() - 4..]),
        (b"PAR1".as_slice(), b"PAR1".as_slice())
    );

    let geojson = server.get("/v1/exports/estimates.geojson").json();
    let features = geojson["features"].as_array().unwrap();
    assert_eq!((features.len(), &features[0]["properties"]["step"]), (links, &19.into()));
}

#[test]
fn too_many_rows_are_refused_before_any_is_read() {
    // Seventeen links: 510,000 rows of 500,000.
    let server = Server::start(Options { steps: Some(30_000), ..Options::default() });
    let all = server.get("/v1/exports/estimates.csv?from_s=0&to_s=1e8");
    let text = "found more than 500000 rows, expected a shorter span of time";
    assert_eq!((all.status, all.error().as_str()), (413, text));
    assert_eq!(server.history.as_ref().unwrap().visited(), 0);
    // By default the last day: 8,640 steps.
    let day = server.get("/v1/exports/estimates.csv");
    assert_eq!((day.status, day.text().lines().count()), (200, 1 + 8640 * 17));
}

#[test]
fn pages_are_revalidated_and_compressed() {
    let server = Server::start(Options::default());
    let page = server.get("/");
    assert_eq!(
        (page.status, page.headers["content-type"].as_str()),
        (200, "text/html; charset=utf-8")
    );
    assert!(page.text().contains("<div id=\"map\""));
    assert!(!page.headers.contains_key("access-control-allow-origin"));
    let again = format!("If-None-Match: {}\r\n", page.headers["etag"]);
    let same = server.request("GET", "/", &again);
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(server.request("GET", "/app.js", &again).status, 200);

    let plain = server.get("/uplot.js");
    let gzip = server.request("GET", "/uplot.js", "Accept-Encoding: gzip\r\n");
    assert_eq!(gzip.headers["content-encoding"], "gzip");
    assert!(gzip.body.len() < plain.body.len() * 2 / 3 && gzip.body.starts_with(&[0x1f, 0x8b]));
    assert!(!plain.headers.contains_key("content-encoding"));
    // Of several chunks, compressed whole.
    let csv = server.get("/v1/exports/estimates.csv");
    let compressed =
        server.request("GET", "/v1/exports/estimates.csv", "Accept-Encoding: gzip\r\n");
    let mut text = Vec::new();
    GzDecoder::new(compressed.body.as_slice()).read_to_end(&mut text).unwrap();
    assert_eq!(text, csv.body);
    let parquet =
        server.request("GET", "/v1/exports/estimates.parquet", "Accept-Encoding: gzip\r\n");
    assert!(!parquet.headers.contains_key("content-encoding"));

    // A name with its version is not asked for again.
    let library = page.text().split('"').find(|part| part.starts_with("lib/")).unwrap();
    let library = server.get(&format!("/{library}"));
    assert_eq!(library.headers["cache-control"], "public, max-age=31536000, immutable");

    let head = server.request("HEAD", "/", "");
    assert_eq!((head.status, head.headers["content-length"].parse()), (200, Ok(page.body.len())));
}

#[test]
fn other_origins_read_nothing_unless_they_are_named() {
    let asking = |server: &Server, method: &str, origin: &str| {
        let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Method: DELETE\r\n");
        server.request(method, "/v1/history", &headers).headers
    };
    let allowed = "access-control-allow-origin";
    let server = Server::start(Options::default());
    for method in ["GET", "OPTIONS"] {
        let headers = asking(&server, method, "https://elsewhere.example");
        assert!(headers.keys().all(|name| !name.starts_with("access-control")), "{headers:?}");
    }
    let mut options = Options::default();
    options.readers.origins =
        vec!["https://named.example".into(), "http://other.example:8000".into()];
    let server = Server::start(options);
    let headers = asking(&server, "GET", "https://named.example");
    assert_eq!(headers[allowed], "https://named.example");
    // To read and nothing else, and for no page but theirs.
    let headers = asking(&server, "OPTIONS", "https://named.example");
    assert_eq!(headers["access-control-allow-methods"], "GET");
    assert!(!headers.contains_key("access-control-allow-headers"));
    assert!(!headers.contains_key("access-control-allow-credentials"));
    assert!(!asking(&server, "GET", "https://elsewhere.example").contains_key(allowed));
}

/// A page whose name leads to this server's address, and nobody else, asks for another host.
#[test]
fn requests_for_other_hosts_are_refused() {
    let mut options = Options::default();
    options.readers.hosts = vec!["traffic.city.example".into()];
    let server = Server::start(options);
    let asked = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        server.raw(request.as_bytes())
    };
    for host in
        ["127.0.0.1:8080", "[::1]", "LOCALHOST", "localhost:8080", "Traffic.City.example:443"]
    {
        let answer = asked(&format!("Host: {host}\r\n"), "/v1/map");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    for host in ["", "Host: evil.example\r\n", "Host: localhost.evil.example\r\n", "Host: @\r\n"] {
        for path in ["/", "/v1/map", "/v1/estimates/stream"] {
            let answer = asked(host, path);
            assert!(answer.starts_with("HTTP/1.1 421 "), "{host}: {answer}");
        }
    }
    let answer = asked("Host: localhost\r\n", "http://evil.example/v1/map");
    assert!(answer.contains("host: found \\\"evil.example\\\", expected an address"), "{answer}");
}

#[test]
fn large_requests_are_refused() {
    let server = Server::start(Options::default());
    let response = server.request("POST", "/v1/history", "Content-Length: 100000\r\n");
    assert_eq!(response.status, 413);
    assert_eq!(response.error(), "found a larger request body, expected at most 4096 bytes");
    let header = format!("GET /v1/map HTTP/1.1\r\nX-Padding: {}\r\n\r\n", "x".repeat(20_000));
    let path = format!("GET /v1/links/{} HTTP/1.1\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET /v1/map HTTP/1.1\r\n{}\r\n", "X-A: b\r\n".repeat(2_000));
    for request in [header, path, many] {
        // The connection may be reset before the response is read.
        let response = server.raw(request.as_bytes());
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    }
    // Not HTTP at all.
    let response = server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n");
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{response}");
    assert_eq!(server.get("/v1/map").status, 200);
}

#[test]
fn an_address_that_asks_too_often_waits() {
    let readers = ReadersSection { requests_per_s: 1.0, ..ReadersSection::default() };
    let server = Server::start(Options { readers, ..Options::default() });
    let began = Instant::now();
    let allowed = (0..50).take_while(|_| server.get("/v1/map").status == 200).count();
    // Four seconds at once, and one more for each second that passes.
    let passed = began.elapsed().as_secs() as usize;
    assert!((4..=5 + passed).contains(&allowed), "{allowed} in {passed} s");
    for path in ["/v1/map", "/", "/nowhere", "/v1/nowhere"] {
        let response = server.get(path);
        if response.status != 429 {
            // A busy machine may take a second for a request.
            continue;
        }
        assert!(response.error().starts_with("too many requests; wait "), "{}", response.error());
        assert_eq!(response.headers["retry-after"], "1");
    }
}

#[test]
fn connections_beyond_the_limit_are_refused_until_others_end() {
    let readers =
        ReadersSection { per_address: 3, requests_per_s: 1e5, ..ReadersSection::default() };
    let server = Server::start(Options { readers, ..Options::default() });
    server.publish(1);
    // A slow header, an idle connection and an event stream each take one.
    let mut slow = server.connect();
    slow.write_all(b"GET /v1/map HTTP/1.1\r\nHost: loc").unwrap();
    let idle = server.connect();
    let mut events = server.events(None);
    assert_eq!(events.take(1), [1]);
    // Without a request: it would be cut off unread.
    let refused = server.raw(b"");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("Retry-After: 5\r\n"), "{refused}");
    drop((slow, idle, events));
    let began = Instant::now();
    let request = b"GET /v1/map HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while !server.raw(request).starts_with("HTTP/1.1 200 ") {
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn a_header_that_does_not_end_is_given_up() {
    let server = Server::start(Options::default());
    let mut slow = server.connect();
    slow.write_all(b"GET /v1/map HTTP/1.1\r\nHost: loc").unwrap();
    let began = Instant::now();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(began.elapsed() > Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
}

#[test]
fn every_event_reaches_every_reader() {
    let server = Server::start(Options::default());
    server.publish(30);
    let mut readers: Vec<_> = (0..40).map(|_| server.events(None)).collect();
    for reader in &mut readers {
        // The latest, with its age.
        let (id, data) = reader.next().unwrap();
        assert_eq!((id, &data["step"]), (30, &30.into()));
        assert!(data["age_s"].as_f64().is_some());
    }
    for step in 31..41 {
        server.publish(step);
    }
    let expected: Vec<i64> = (31..41).collect();
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(|| assert_eq!(reader.take(10), expected));
        }
    });
}

#[test]
fn a_returning_reader_gets_what_it_missed_once() {
    let server = Server::start(Options::default());
    server.publish(19);
    // Steps 0 to 19 are stored.
    let mut events = server.events(Some(15));
    assert_eq!(events.take(4), [16, 17, 18, 19]);
    server.publish(18);
    server.publish(20);
    assert_eq!(events.take(1), [20], "18 was replayed already");
    // Nothing was missed.
    let mut events = server.events(Some(20));
    server.publish(21);
    assert_eq!(events.take(1), [21]);
    // The records have restarted: the id is of the time before.
    let mut events = server.events(Some(500));
    assert_eq!(events.take(1), [21]);
}

/// A reader of changes has the numbers of the whole estimate after each of them, rounded.
#[test]
fn changes_add_up_to_the_estimates() {
    let server = Server::start(Options::default());
    server.publish(3);
    let mut events = server.events_of("/v1/estimates/changes", None);
    let (id, whole) = events.next().unwrap();
    assert_eq!((id, &whole["base"], &whole["links"]), (3, &serde_json::Value::Null, &17.into()));
    assert!(whole["age_s"].as_f64().is_some());
    let mut numbers = client::unpack(&whole, &[]);
    for step in [4, 5, 3] {
        let before = id.max(step - 1);
        server.publish(step);
        let (id, change) = events.next().unwrap();
        // After the records have begun anew, too.
        let base = if step == 3 { 5 } else { before };
        assert_eq!((id, &change["base"]), (step, &base.into()));
        numbers = client::unpack(&change, &numbers);
        let estimate = client::estimate(&server.info, step);
        let expected = estimate.states.iter().map(|state| (10.0 * state.density.get()).round());
        assert_eq!(numbers[..17], expected.map(|tenths| tenths as u16).collect::<Vec<_>>());
        // The stored one, whole, is the same.
        let stored = server.get(&format!("/v1/history/{step}/packed")).json();
        assert_eq!(client::unpack(&stored, &[]), numbers);
        assert_eq!(stored["age_s"], serde_json::Value::Null);
    }
}

#[test]
fn alarms_are_told_as_they_stand_and_as_they_come() {
    let alarms = vec!["density > 100 on E1".to_owned()];
    let server = Server::start(Options { alarms, ..Options::default() });
    let mut events = server.events_of("/v1/alarms/stream", None);
    // The first link has a third of the step's number plus one.
    for step in [290, 298, 299, 300] {
        server.publish(step);
    }
    let (id, event) = events.next().unwrap();
    assert_eq!(
        (id, &event["raised_count"], &event["raised"][0]["link"]),
        (300, &1.into(), &"E1".into())
    );
    let now = server.get("/v1/alarms").json();
    assert_eq!(
        (&now["active_count"], &now["rules"][0]),
        (&1.into(), &"density > 100 on E1".into())
    );
    assert_eq!(now["active"][0]["since_s"], 3010.0);
    server.publish(10);
    let (_, event) = events.next().unwrap();
    assert_eq!((&event["cleared_count"], &event["raised_count"]), (&1.into(), &0.into()));
    assert_eq!(server.get("/v1/alarms").json()["active_count"], 0);
}

#[test]
fn a_route_has_the_speeds_of_its_links_in_driving_order() {
    let server = Server::start(Options::default());
    let route = server.get("/v1/route?link=E3&link=E1&from_s=40&to_s=80").json();
    assert_eq!(route["steps"], serde_json::json!([4, 5, 6, 7]));
    for (place, name) in ["E3", "E1"].into_iter().enumerate() {
        let link = &route["links"][place];
        assert_eq!(link["link"], name);
        let index = server.info.network.link_named(name).unwrap().index();
        for (at, step) in (4..8).enumerate() {
            let state = client::estimate(&server.info, step).states[index];
            let density = (10.0 * state.density.get()).round() / 10.0;
            assert_eq!(link["density"][at].as_f64(), Some(density), "{name} at {step}");
        }
    }
}

#[test]
fn feeds_have_the_latest_estimate_without_a_history() {
    let server = Server::start(Options { steps: None, ..Options::default() });
    server.publish(5);
    let geojson = server.get("/v1/feeds/estimates.geojson").json();
    assert_eq!(geojson["features"][0]["properties"]["step"], 5);
    let plain = server.get("/v1/feeds/datex2.xml");
    assert!(plain.text().contains("xsi:type=\"roa:ElaboratedDataPublication\""));
    let packed = server.request("GET", "/v1/feeds/datex2.xml", "Accept-Encoding: gzip\r\n");
    let mut text = Vec::new();
    GzDecoder::new(packed.body.as_slice()).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain.body);
    server.publish(6);
    let geojson = server.get("/v1/feeds/estimates.geojson").json();
    assert_eq!(geojson["features"][0]["properties"]["step"], 6);
    let nowhere = Server::start(Options { origin: false, ..Options::default() });
    nowhere.publish(5);
    for path in ["/v1/feeds/estimates.geojson", "/v1/feeds/datex2.xml"] {
        assert_eq!(nowhere.get(path).status, 409, "{path}");
    }
}

#[test]
fn a_basemap_is_served_by_ranges_of_bytes_and_never_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("town.pmtiles");
    let mut bytes = b"PMTiles\x03".to_vec();
    bytes.extend((0..9000).map(|at| (at % 251) as u8));
    std::fs::write(&file, &bytes).unwrap();
    let mut options = Options::default();
    options.readers.tiles = Some(file.to_str().unwrap().to_owned());
    let server = Server::start(options);
    assert_eq!(server.get("/v1/map").json()["tiles"]["kind"], "pmtiles");
    let headers = "Accept-Encoding: gzip\r\nRange: bytes=8-1007\r\n";
    let range = server.request("GET", "/basemap.pmtiles", headers);
    assert_eq!((range.status, range.body.as_slice()), (206, &bytes[8..1008]));
    assert_eq!(range.headers["content-range"], "bytes 8-1007/9008");
    // Compressed bytes would not be those of the range.
    assert!(!range.headers.contains_key("content-encoding"));
    for headers in ["", "Range: bytes=9008-\r\n", "Range: bytes=0-1,5-6\r\n"] {
        let refused = server.request("GET", "/basemap.pmtiles", headers);
        assert_eq!(
            (refused.status, refused.headers["content-range"].as_str()),
            (416, "bytes */9008")
        );
        assert!(refused.error().starts_with("Range: found"), "{}", refused.error());
    }
    let without = Server::start(Options::default());
    assert_eq!(without.get("/basemap.pmtiles").status, 404);
}

/// Readers that never read lose their stream; others miss nothing, and the publisher does not wait.
#[test]
fn a_reader_that_falls_behind_is_dropped_and_delays_nobody() {
    let server = Server::start(Options::default());
    server.publish(0);
    let mut slow = server.events(None);
    let mut fast = server.events(None);
    assert_eq!(fast.take(1), [0]);
    let began = Instant::now();
    // About 4 kB each: far more than the ring and the buffers of the system hold.
    for step in 1..=3000 {
        server.publish(step);
        assert_eq!(fast.take(1), [step]);
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    let mut received = Vec::new();
    while let Some((step, _)) = slow.next() {
        received.push(step);
    }
    assert!(received.len() < 3000, "{} events to a reader that did not read", received.len());
    // Without gaps up to where it was dropped.
    assert_eq!(received, (0..received.len() as i64).collect::<Vec<_>>());
}

/// A slow reader of a large file stops the writing of it, not the server.
#[test]
fn slow_readers_of_files_hold_little_memory_and_delay_no_small_requests() {
    const STEPS: usize = 8000;
    let server = Server::start(Options { steps: Some(STEPS as i64), ..Options::default() });
    let history = server.history.as_ref().unwrap();
    let links = server.info.network.links().len();
    let begin = || {
        let mut stream = server.connect();
        let request = "GET /v1/exports/estimates.csv HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut first = [0; 15];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.0 200 OK");
        stream
    };
    let stalled = begin();
    let mut slow = begin();
    // Fast enough not to be cut off, slow enough to last.
    let (ready, waiting) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let (mut text, mut buffer) = (Vec::new(), vec![0; 32 << 10]);
        while waiting.recv_timeout(Duration::from_millis(500)).is_err() {
            let read = slow.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..read]);
        }
        slow.read_to_end(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    });
    // Both permits for large responses are taken: a third waits, and is told to come back.
    let began = Instant::now();
    let third = server.get("/v1/exports/estimates.csv");
    assert_eq!((third.status, third.headers["retry-after"].as_str()), (503, "5"));
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    // 17 rows of about 120 bytes a step: what was read ahead is some megabytes of buffers at most, not 32 MB.
    assert!(history.visited() < STEPS, "{} of 2 × {STEPS} steps read", history.visited());
    // Others read, and delete.
    for _ in 0..10 {
        assert_eq!(server.get("/v1/history/7").status, 200);
    }
    let deleted = server.request("DELETE", "/v1/history?before_s=10", &bearer(TOKEN));
    assert_eq!(deleted.json()["forgotten_steps"], 1);
    // The reader that goes on gets the whole file; the other one leaves its permit when it goes.
    ready.send(()).unwrap();
    let text = reading.join().unwrap();
    let (_, csv) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(csv.lines().count(), 1 + STEPS * links);
    assert!(csv.ends_with('\n'));
    drop(stalled);
    let again = server.get("/v1/exports/estimates.csv");
    assert_eq!((again.status, again.text().lines().count()), (200, 1 + (STEPS - 1) * links));
}

/// The server gives a client up that does not read: its permit comes back.
#[test]
fn a_reader_that_stalls_is_disconnected() {
    let server = Server::start(Options { steps: Some(8000), ..Options::default() });
    let mut stalled = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect();
        let request = "GET /v1/exports/estimates.csv HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stalled.push(stream);
    }
    let began = Instant::now();
    while server.get("/v1/exports/estimates.csv").status != 200 {
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }
    // The one whose permit that was has not got a whole file.
    let whole = |stream: &mut TcpStream| {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        text.ends_with(b"0\r\n\r\n")
    };
    assert!(!stalled.iter_mut().all(whole));
}
