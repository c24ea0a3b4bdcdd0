//! Reads the XML.

use std::cell::Cell;
use std::io::BufRead;
use std::rc::Rc;
use std::str::FromStr;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use traffic::LatLon;

use super::OsmError;
use super::line_reader::LineReader;
use super::raw_map::{
    MAX_MEMBERS, MAX_WAY_NODES, Member, Node, RELATION_KEYS, RawMap, is_signal, place,
    too_many_nodes,
};
use super::tags::{KEYS, Tags};

/// The element that is being read.
enum Open {
    Node { id: i64, place: Option<LatLon>, signal: bool },
    Way { id: i64, nodes: Vec<i64>, tags: Tags },
    Relation { members: Vec<Member>, tags: Tags },
}

pub(super) fn parse(reader: impl BufRead, file: &str) -> Result<RawMap, OsmError> {
    let (reader, line) = LineReader::new(reader);
    let mut xml = Reader::from_reader(reader);
    let mut parser = Parser { file, line, map: RawMap::default(), open: None };
    let mut buffer = Vec::new();
    let mut depth = 0usize;
    let mut root_seen = false;
    loop {
        buffer.clear();
        let event =
            xml.read_event_into(&mut buffer).map_err(|error| parser.xml(error.to_string()))?;
        match event {
            Event::Start(element) => {
                if depth == 0 {
                    parser.check_root(&element, root_seen)?;
                    root_seen = true;
                }
                depth += 1;
                parser.start(&element)?;
            }
            Event::Empty(element) => {
                if depth == 0 {
                    parser.check_root(&element, root_seen)?;
                    root_seen = true;
                }
                parser.start(&element)?;
                parser.end(element.name().as_ref())?;
            }
            Event::End(element) => {
                depth = depth.saturating_sub(1);
                parser.end(element.name().as_ref())?;
            }
            Event::Eof if depth > 0 => {
                return Err(parser.xml("found the end of the file, expected `</osm>`".into()));
            }
            Event::Eof if !root_seen => {
                return Err(parser.xml("found no element, expected `<osm>`".into()));
            }
            Event::Eof => return Ok(parser.map),
            _ => {}
        }
    }
}

struct Parser<'f> {
    file: &'f str,
    line: Rc<Cell<u64>>,
    map: RawMap,
    open: Option<Open>,
}

impl Parser<'_> {
    fn check_root(&self, element: &BytesStart<'_>, root_seen: bool) -> Result<(), OsmError> {
        let name = element.name();
        if name.as_ref() == "osm" && !root_seen {
            return Ok(());
        }
        let expected = if root_seen { "nothing after `</osm>`" } else { "`<osm>` first" };
        Err(self.xml(format!("found `<{}>`, expected {expected}", name.as_ref())))
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), OsmError> {
        match element.name().as_ref() {
            "node" => {
                let id = self.number(element, "node", "id")?;
                // Deleted nodes have no place.
                let deleted = self.text(element, "visible")?.as_deref() == Some("false");
                let place = if deleted { None } else { Some(self.place(element)?) };
                self.open = Some(Open::Node { id, place, signal: false });
            }
            "way" => {
                let id = self.number(element, "way", "id")?;
                self.open = Some(Open::Way { id, nodes: Vec::new(), tags: Tags::new() });
            }
            "relation" => {
                self.open = Some(Open::Relation { members: Vec::new(), tags: Tags::new() });
            }
            "nd" if matches!(self.open, Some(Open::Way { .. })) => {
                let node = self.number(element, "nd", "ref")?;
                if let Some(Open::Way { nodes, .. }) = &mut self.open {
                    if nodes.len() == MAX_WAY_NODES {
                        return Err(self.xml(too_many_nodes()));
                    }
                    nodes.push(node);
                }
            }
            "member" if matches!(self.open, Some(Open::Relation { .. })) => self.member(element)?,
            "tag" => self.tag(element)?,
            _ => {}
        }
        Ok(())
    }

    fn member(&mut self, element: &BytesStart<'_>) -> Result<(), OsmError> {
        let kind = self.text(element, "type")?.unwrap_or_default();
        if kind != "way" && kind != "node" {
            return Ok(());
        }
        let id = self.number(element, "member", "ref")?;
        let role = self.text(element, "role")?.unwrap_or_default();
        if let Some(Open::Relation { members, .. }) = &mut self.open
            && members.len() < MAX_MEMBERS
        {
            members.push(Member { way: kind == "way", id, role });
        }
        Ok(())
    }

    fn tag(&mut self, element: &BytesStart<'_>) -> Result<(), OsmError> {
        let key = self.text(element, "k")?.unwrap_or_default();
        let value = self.text(element, "v")?.unwrap_or_default();
        match &mut self.open {
            Some(Open::Node { signal, .. }) => *signal |= is_signal(&key, &value),
            Some(Open::Way { tags, .. }) if KEYS.contains(&key.as_str()) => {
                tags.push((key, value));
            }
            Some(Open::Relation { tags, .. }) if RELATION_KEYS.contains(&key.as_str()) => {
                tags.push((key, value));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), OsmError> {
        if !matches!(name, "node" | "way" | "relation") {
            return Ok(());
        }
        let taken = match self.open.take() {
            Some(Open::Node { id, place: Some(place), signal }) => {
                self.map.add_node(id, Node { place, signal })
            }
            Some(Open::Way { id, nodes, tags }) => self.map.add_way(id, nodes, &tags),
            Some(Open::Relation { members, tags }) => {
                self.map.add_relation(&members, &tags);
                Ok(())
            }
            _ => Ok(()),
        };
        taken.map_err(|problem| self.xml(problem))
    }

    fn place(&self, element: &BytesStart<'_>) -> Result<LatLon, OsmError> {
        let lat: f64 = self.number(element, "node", "lat")?;
        let lon: f64 = self.number(element, "node", "lon")?;
        place(lat, lon).map_err(|problem| self.xml(format!("node {problem}")))
    }

    fn number<T: FromStr>(
        &self,
        element: &BytesStart<'_>,
        name: &str,
        attribute: &str,
    ) -> Result<T, OsmError> {
        let field = || format!("{name} {attribute}");
        let Some(text) = self.text(element, attribute)? else {
            return Err(self.field(field(), "nothing".into(), "a number"));
        };
        text.trim().parse().map_err(|_| self.field(field(), format!("`{text}`"), "a number"))
    }

    fn text(&self, element: &BytesStart<'_>, name: &str) -> Result<Option<String>, OsmError> {
        let attribute = element.try_get_attribute(name).map_err(|e| self.xml(e.to_string()))?;
        let Some(attribute) = attribute else { return Ok(None) };
        let text = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| self.xml(error.to_string()))?;
        Ok(Some(text.into_owned()))
    }

    fn xml(&self, problem: String) -> OsmError {
        OsmError::Xml { file: self.file.into(), line: self.line.get(), problem }
    }

    fn field(&self, field: String, found: String, expected: &'static str) -> OsmError {
        OsmError::Field { file: self.file.into(), line: self.line.get(), field, found, expected }
    }
}
