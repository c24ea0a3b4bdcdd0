//! Estimates as DATEX II version 3: an `ElaboratedDataPublication` of speed, flow and density of every link.
//!
//! Locations are linear, by the link's line (`gmlLineString`, WGS 84) and its name (`externalReferencing`). Names and order
//! of elements are those of the published schema's types (`d2Payload`, `common`, `roadTrafficData`, `locationReferencing`).

use std::fmt::Write;

use time::OffsetDateTime;

use crate::estimate::{Estimate, SeriesInfo};

/// ISO 3166 keeps this code for users: the country is not known.
const NO_COUNTRY: &str = "zz";
const MINUTES_PER_HOUR: f64 = 60.0;

/// None if the network has no origin.
pub(crate) fn publication(info: &SeriesInfo, estimate: &Estimate) -> Option<String> {
    let plane = info.network.plane()?;
    let end_s = (estimate.step.0 + 1) as f64 * info.step_s;
    let mut xml = String::with_capacity(1500 * estimate.states.len());
    let _ = write!(
        xml,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <d2:payload xmlns:d2=\"http://datex2.eu/schema/3/d2Payload\" \
         xmlns:com=\"http://datex2.eu/schema/3/common\" \
         xmlns:loc=\"http://datex2.eu/schema/3/locationReferencing\" \
         xmlns:roa=\"http://datex2.eu/schema/3/roadTrafficData\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:type=\"roa:ElaboratedDataPublication\" lang=\"en\" modelBaseVersion=\"3\">\n\
         <com:publicationTime>{}</com:publicationTime>\n\
         <com:publicationCreator><com:country>{NO_COUNTRY}</com:country>\
         <com:nationalIdentifier>{}</com:nationalIdentifier></com:publicationCreator>\n\
         <roa:forecastDefault>false</roa:forecastDefault>\
         <roa:periodDefault>{}</roa:periodDefault>\
         <roa:timeDefault>{}</roa:timeDefault>\
         <roa:headerInformation><com:informationStatus>real</com:informationStatus></roa:headerInformation>\n",
        date_time(estimate.made_s),
        escaped(info.network.name()),
        info.step_s,
        date_time(end_s),
    );
    let system = escaped(&info.network_hash);
    for (link, state) in info.network.links().iter().zip(estimate.links()) {
        let mut line = String::new();
        for point in &link.shape {
            let place = plane.place(*point);
            let gap = if line.is_empty() { "" } else { " " };
            let _ = write!(line, "{gap}{:.6} {:.6}", place.lat, place.lon);
        }
        let name = escaped(&link.name);
        let location = format!(
            "<roa:pertinentLocation xsi:type=\"loc:LinearLocation\">\
             <loc:externalReferencing><loc:externalLocationCode>{name}</loc:externalLocationCode>\
             <loc:externalReferencingSystem>{system}</loc:externalReferencingSystem></loc:externalReferencing>\
             <loc:gmlLineString srsName=\"http://www.opengis.net/def/crs/EPSG/0/4326\" srsDimension=\"2\">\
             <loc:posList>{line}</loc:posList></loc:gmlLineString></roa:pertinentLocation>"
        );
        let mut quantity = |data: std::fmt::Arguments<'_>| {
            let _ = writeln!(
                xml,
                "<roa:physicalQuantity xsi:type=\"roa:SinglePhysicalQuantity\">{location}{data}</roa:physicalQuantity>"
            );
        };
        let lanes = f64::from(link.lanes);
        if let Some(speed) = state.speed_km_h() {
            quantity(format_args!(
                "<roa:basicData xsi:type=\"roa:TrafficSpeed\"><roa:averageVehicleSpeed>\
                 <com:speed>{speed:.1}</com:speed></roa:averageVehicleSpeed></roa:basicData>"
            ));
        }
        // Of the road, where estimates are of a lane.
        let flow = (state.state.flow.get() * lanes * MINUTES_PER_HOUR).round();
        quantity(format_args!(
            "<roa:basicData xsi:type=\"roa:TrafficFlow\"><roa:vehicleFlow>\
             <com:vehicleFlowRate>{flow:.0}</com:vehicleFlowRate></roa:vehicleFlow></roa:basicData>"
        ));
        let density = (state.state.density.get() * lanes).round();
        quantity(format_args!(
            "<roa:basicData xsi:type=\"roa:TrafficConcentration\"><roa:density>\
             <roa:densityOfVehicles>{density:.0}</roa:densityOfVehicles></roa:density></roa:basicData>"
        ));
    }
    xml.push_str("</d2:payload>\n");
    Some(xml)
}

/// As `2026-03-01T08:30:00Z`; times outside of the calendar as its beginning.
fn date_time(seconds: f64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds.round() as i64);
    let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, clock) = (time.date(), time.time());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    let (hour, minute, second) = clock.as_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// As the content of an element; characters that XML does not have are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' | '\r' => out.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use quick_xml::Reader;
    use quick_xml::events::Event;
    use traffic::{LinkState, Network, Step, VehPerKmLane, VehPerMinLane, network_hash};

    use super::*;
    use crate::estimate::Target;

    fn info(network: Network) -> SeriesInfo {
        SeriesInfo {
            network_hash: network_hash(&network),
            network: Arc::new(network),
            step_s: 10.0,
            target: Target::Raw,
            guests: Vec::new(),
            interval: None,
        }
    }

    fn estimate(info: &SeriesInfo) -> Estimate {
        let state = |link: usize| LinkState {
            density: VehPerKmLane::new(10.0 * link as f64),
            flow: VehPerMinLane::new(3.0 * f64::from(u8::from(link > 0))),
        };
        Estimate {
            step: Step(4319),
            made_s: 1_772_353_800.4,
            latency_s: 5.0,
            participants: BTreeMap::new(),
            states: (0..info.network.links().len()).map(state).collect(),
            intervals: None,
        }
    }

    /// Each element's path with its `xsi:type`, and its text.
    fn elements(xml: &str) -> Vec<(String, String)> {
        let mut reader = Reader::from_str(xml);
        let (mut path, mut found): (Vec<String>, Vec<(String, String)>) = Default::default();
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    let mut name = start.name().as_ref().to_owned();
                    for attribute in start.attributes() {
                        let attribute = attribute.unwrap();
                        if attribute.key.as_ref() == "xsi:type" {
                            name += &format!("[{}]", attribute.value);
                        }
                    }
                    path.push(name);
                    found.push((path.join("/"), String::new()));
                }
                Event::Text(text) if !text.trim().is_empty() => {
                    found.last_mut().unwrap().1 += &text;
                }
                Event::End(_) => {
                    path.pop();
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    /// The order of the schema's sequences: PayloadPublication, then ElaboratedDataPublication; of a quantity its location,
    /// then its data; of a location what identifies it, then its line.
    #[test]
    fn elements_stand_as_the_documented_structure_has_them() {
        let info = info(traffic::corridor().unwrap());
        let xml = publication(&info, &estimate(&info)).unwrap();
        let all = elements(&xml);
        let root = "d2:payload[roa:ElaboratedDataPublication]";
        assert_eq!(all[0].0, root);
        let children: Vec<&str> = all
            .iter()
            .filter_map(|(path, _)| path.strip_prefix(root)?.strip_prefix('/'))
            .filter(|path| !path.contains('/'))
            .collect();
        let head = [
            "com:publicationTime",
            "com:publicationCreator",
            "roa:forecastDefault",
            "roa:periodDefault",
            "roa:timeDefault",
            "roa:headerInformation",
        ];
        assert_eq!(children[..6], head);
        // The first link is empty and has no speed; all others have three quantities.
        let links = info.network.links().len();
        assert_eq!(children.len(), 6 + 2 + 3 * (links - 1));
        let quantity = "roa:physicalQuantity[roa:SinglePhysicalQuantity]";
        assert!(children[6..].iter().all(|child| *child == quantity));
        let at = |path: &str| -> Vec<&str> {
            let path = format!("{root}/{path}");
            all.iter().filter(|(found, _)| *found == path).map(|(_, text)| text.as_str()).collect()
        };
        assert_eq!(at("com:publicationTime"), ["2026-03-01T08:30:00Z"]);
        assert_eq!(at("roa:timeDefault"), ["1970-01-01T12:00:00Z"]);
        assert_eq!(at("roa:headerInformation/com:informationStatus"), ["real"]);
        // 3 veh/min/lane at 10 veh/km/lane are 18 km/h; flow and density are those of all lanes.
        let lanes = f64::from(info.network.links()[1].lanes);
        let data = format!("{quantity}/roa:basicData");
        let speed = format!("{data}[roa:TrafficSpeed]/roa:averageVehicleSpeed/com:speed");
        assert_eq!(at(&speed)[0], "18.0");
        let flow = format!("{data}[roa:TrafficFlow]/roa:vehicleFlow/com:vehicleFlowRate");
        assert_eq!(at(&flow)[..2], ["0".to_owned(), (180.0 * lanes).to_string()]);
        let density = format!("{data}[roa:TrafficConcentration]/roa:density/roa:densityOfVehicles");
        assert_eq!(at(&density)[1], (10.0 * lanes).to_string());
        let location = format!("{quantity}/roa:pertinentLocation[loc:LinearLocation]");
        let names = at(&format!("{location}/loc:externalReferencing/loc:externalLocationCode"));
        assert_eq!(names[..3], ["E1", "E1", info.network.links()[1].name.as_str()]);
        // Latitude before longitude; the corridor begins at its origin, in Athens.
        let lines = at(&format!("{location}/loc:gmlLineString/loc:posList"));
        assert!(lines[0].starts_with("37.975700 23.734100 "), "{}", lines[0]);
    }

    #[test]
    fn names_are_escaped_and_a_network_without_an_origin_has_no_publication() {
        assert_eq!(escaped("a<b & \"c\">\u{1}\n"), "a&lt;b &amp; \"c\"&gt; ");
        let mut parts = traffic::corridor().unwrap().into_parts();
        parts.origin = None;
        let info = info(Network::new(parts).unwrap());
        assert_eq!(publication(&info, &estimate(&info)), None);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(date_time(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(date_time(951_782_399.6), "2000-02-29T00:00:00Z");
        assert_eq!(date_time(1e300), "1970-01-01T00:00:00Z");
    }
}
