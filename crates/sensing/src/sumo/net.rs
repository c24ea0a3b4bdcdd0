//! A SUMO `.net.xml` as it is: edges with lanes, connections, traffic lights, projection.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use traffic::Point;

use super::SumoFileError;
use super::lights::Lights;
use super::xml::{Element, XmlFile};

/// The parts of a net file that we use.
#[derive(Debug, Default)]
pub(super) struct SumoNet {
    pub(super) file: PathBuf,
    pub(super) edges: Vec<SumoEdge>,
    pub(super) edge_by_id: FxHashMap<String, usize>,
    pub(super) connections: Vec<SumoConnection>,
    pub(super) lights: Lights,
    pub(super) location: Option<SumoLocation>,
}

#[derive(Debug)]
pub(super) struct SumoEdge {
    pub(super) id: String,
    /// A road, not the inside of a junction, a crossing or the like.
    pub(super) road: bool,
    pub(super) lanes: Vec<SumoLane>,
}

#[derive(Debug)]
pub(super) struct SumoLane {
    pub(super) id: String,
    /// Metres.
    pub(super) length: f64,
    /// Metres per second.
    pub(super) speed: f64,
    pub(super) shape: Vec<Point>,
    pub(super) for_cars: bool,
}

#[derive(Debug)]
pub(super) struct SumoConnection {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) from_lane: usize,
    pub(super) to_lane: usize,
    /// The internal lane that it leads over.
    pub(super) via: Option<String>,
    /// The traffic light, and which of its heads.
    pub(super) light: Option<(String, usize)>,
}

#[derive(Debug)]
pub(super) struct SumoLocation {
    /// What was added to projected coordinates.
    pub(super) offset: Point,
    pub(super) projection: String,
}

impl SumoNet {
    pub(super) fn read(path: &Path) -> Result<Self, SumoFileError> {
        let mut xml = XmlFile::open(path, "net")?;
        Self::from_xml(path, &mut xml)
    }

    pub(super) fn from_xml(path: &Path, xml: &mut XmlFile) -> Result<Self, SumoFileError> {
        let mut net = Self { file: path.into(), ..Self::default() };
        while let Some(element) = xml.next_element()? {
            match element.name() {
                b"edge" => net.add_edge(&element)?,
                b"lane" => net.add_lane(&element)?,
                b"connection" => net.connections.push(connection(&element)?),
                b"location" => net.location = location(&element)?,
                _ => net.lights.take(&element)?,
            }
        }
        Ok(net)
    }

    pub(super) fn lane(&self, id: &str) -> Option<&SumoLane> {
        let (edge, index) = id.rsplit_once('_')?;
        let edge = &self.edges[*self.edge_by_id.get(edge)?];
        edge.lanes.get(index.parse::<usize>().ok()?)
    }

    fn add_edge(&mut self, element: &Element<'_>) -> Result<(), SumoFileError> {
        let id = element.text("id")?.to_owned();
        let road = match element.find("function")? {
            None | Some("normal" | "connector") => !id.starts_with(':'),
            Some(_) => false,
        };
        if self.edge_by_id.insert(id.clone(), self.edges.len()).is_some() {
            return Err(element.wrong("id", &format!("`{id}` twice"), "each edge once"));
        }
        self.edges.push(SumoEdge { id, road, lanes: Vec::new() });
        Ok(())
    }

    fn add_lane(&mut self, element: &Element<'_>) -> Result<(), SumoFileError> {
        let Some(edge) = self.edges.last_mut() else {
            return Err(element.wrong("id", "a lane", "an edge before it"));
        };
        let expected = edge.lanes.len();
        // Inside junctions SUMO repeats numbers; there the order counts, as in the lanes' names.
        if edge.road && element.number("index")? != expected as f64 {
            let found = element.text("index")?;
            return Err(element.wrong("index", found, &format!("{expected}, the next lane")));
        }
        edge.lanes.push(SumoLane {
            id: element.text("id")?.to_owned(),
            length: element.number("length")?,
            speed: element.number("speed")?,
            shape: points(element, "shape")?,
            for_cars: for_cars(element.find("allow")?, element.find("disallow")?),
        });
        Ok(())
    }
}

fn connection(element: &Element<'_>) -> Result<SumoConnection, SumoFileError> {
    let light = match element.find("tl")? {
        None => None,
        // -1: this connection has no signal of its own, though its junction has.
        Some(_) if element.find("linkIndex")? == Some("-1") => None,
        Some(id) => Some((id.to_owned(), index(element, "linkIndex")?)),
    };
    Ok(SumoConnection {
        from: element.text("from")?.to_owned(),
        to: element.text("to")?.to_owned(),
        from_lane: index(element, "fromLane")?,
        to_lane: index(element, "toLane")?,
        via: element.find("via")?.map(str::to_owned),
        light,
    })
}

/// More lanes or signal heads than this are taken for a damaged file.
const LARGEST_INDEX: f64 = 65_535.0;

fn index(element: &Element<'_>, name: &str) -> Result<usize, SumoFileError> {
    let number = element.number(name)?;
    if number.fract() == 0.0 && number <= LARGEST_INDEX {
        Ok(number as usize)
    } else {
        Err(element.wrong(name, &number.to_string(), "a small whole number"))
    }
}

fn location(element: &Element<'_>) -> Result<Option<SumoLocation>, SumoFileError> {
    let Some(projection) = element.find("projParameter")? else { return Ok(None) };
    let Some(&offset) = points(element, "netOffset")?.first() else { return Ok(None) };
    Ok(Some(SumoLocation { offset, projection: projection.to_owned() }))
}

/// `x,y x,y …`; a third coordinate is the height, which we drop.
fn points(element: &Element<'_>, name: &str) -> Result<Vec<Point>, SumoFileError> {
    let text = element.text(name)?;
    let mut points = Vec::new();
    for pair in text.split_ascii_whitespace() {
        let mut numbers = pair.split(',').map(|number| number.parse::<f64>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(x), Some(y)) if x.is_finite() && y.is_finite() => points.push(Point { x, y }),
            _ => return Err(element.wrong(name, pair, "two numbers `x,y`")),
        }
    }
    Ok(points)
}

/// Whether a lane's permissions let passenger cars in.
fn for_cars(allow: Option<&str>, disallow: Option<&str>) -> bool {
    let lists = |text: &str| {
        text.split_ascii_whitespace().any(|class| matches!(class, "passenger" | "all"))
    };
    match (allow, disallow) {
        (Some(allow), _) if !allow.is_empty() => lists(allow),
        (_, Some(disallow)) => !lists(disallow),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_decide_whether_cars_may_drive() {
        assert!(for_cars(None, None));
        assert!(for_cars(Some("passenger bus"), None));
        assert!(for_cars(Some("all"), None));
        assert!(!for_cars(Some("bus tram"), None));
        assert!(!for_cars(None, Some("passenger truck")));
        assert!(!for_cars(None, Some("all")));
        assert!(for_cars(None, Some("pedestrian")));
    }
}
