//! Reads the binary form (PBF), in which OpenStreetMap is distributed, with the crate osmpbf.
//!
//! A file is a row of blocks, each compressed by itself, with a table of the texts in it. What the
//! crate passes over without a word is refused here: texts that are not in the table, blocks of a
//! kind that it does not know, files whose header asks for more than we read.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use osmpbf::{
    BlobDecode, BlobError, BlobReader, Element, ErrorKind, PrimitiveBlock, RelMember, RelMemberType,
};

use super::OsmError;
use super::raw_map::{MAX_MEMBERS, Member, Node, RELATION_KEYS, RawMap, is_signal, place};
use super::tags::{KEYS, Tags};

/// What a header may ask for.
const FEATURES: [&str; 2] = ["OsmSchema-V0.6", "DenseNodes"];

pub(super) fn parse(reader: impl Read + Send, file: &str) -> Result<RawMap, OsmError> {
    let mut map = RawMap::default();
    let mut any_header = false;
    for (block, blob) in (1..).zip(BlobReader::new(reader)) {
        let refuse = |problem| OsmError::Block { file: file.into(), block, problem };
        let blob = blob.map_err(|error| refuse(problem(error)))?;
        match blob.decode().map_err(|error| refuse(problem(error)))? {
            BlobDecode::OsmHeader(header) => {
                any_header = true;
                let unknown = |feature: &&String| !FEATURES.contains(&feature.as_str());
                if let Some(feature) = header.required_features().iter().find(unknown) {
                    let known = FEATURES.join(" and ");
                    return Err(refuse(format!(
                        "required features: found `{feature}`, expected no other than {known}"
                    )));
                }
            }
            BlobDecode::OsmData(_) if !any_header => {
                return Err(refuse("found data, expected an OSMHeader block first".into()));
            }
            BlobDecode::OsmData(data) => take(&mut map, &data).map_err(refuse)?,
            // The format asks to pass over them.
            BlobDecode::Unknown(_) => {}
        }
    }
    if !any_header {
        let problem = "found the end of the file, expected an OSMHeader block".into();
        return Err(OsmError::Block { file: file.into(), block: 1, problem });
    }
    Ok(map)
}

fn take(map: &mut RawMap, block: &PrimitiveBlock) -> Result<(), String> {
    let texts = Texts(block.raw_stringtable());
    for element in block.elements() {
        match element {
            Element::DenseNode(node) => {
                let tags = node.raw_tags().map(|(key, value)| (key.into(), value.into()));
                add_node(map, texts, node.id(), [node.lat(), node.lon()], tags)?;
            }
            Element::Node(node) => {
                let tags = node.raw_tags().map(|(key, value)| (key.into(), value.into()));
                add_node(map, texts, node.id(), [node.lat(), node.lon()], tags)?;
            }
            Element::Way(way) => {
                let tags = texts.kept(way.raw_tags(), &KEYS);
                let tags = tags.map_err(|problem| format!("way {}: {problem}", way.id()))?;
                map.add_way(way.id(), way.refs().collect(), &tags)?;
            }
            Element::Relation(relation) => {
                let fail = |problem| format!("relation {}: {problem}", relation.id());
                let tags = texts.kept(relation.raw_tags(), &RELATION_KEYS).map_err(fail)?;
                if tags.iter().all(|(key, _)| key != "restriction") {
                    continue;
                }
                // The crate panics at a member that is no node, way or relation.
                let read = || relation.members().take(MAX_MEMBERS).collect();
                let members = catch_unwind(AssertUnwindSafe(read));
                let members: Vec<RelMember<'_>> = members.map_err(|_| {
                    fail("found a member of no known type, expected node, way or relation".into())
                })?;
                let members = members
                    .iter()
                    .filter(|member| member.member_type != RelMemberType::Relation)
                    .map(|member| {
                        let role = texts.get(member.role_sid.into()).map_err(fail)?.to_owned();
                        let way = member.member_type == RelMemberType::Way;
                        Ok(Member { way, id: member.member_id, role })
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                map.add_relation(&members, &tags);
            }
        }
    }
    Ok(())
}

fn add_node(
    map: &mut RawMap,
    texts: Texts<'_>,
    id: i64,
    [lat, lon]: [f64; 2],
    tags: impl Iterator<Item = (i64, i64)>,
) -> Result<(), String> {
    let fail = |problem| format!("node {id}: {problem}");
    let mut signal = false;
    for (key, value) in tags {
        let (key, value) = (texts.get(key).map_err(fail)?, texts.get(value).map_err(fail)?);
        signal |= is_signal(key, value);
    }
    // Nine digits are more than OpenStreetMap has: what the product of two floats adds is cut off,
    // so that a place is the same as in the text form.
    let [lat, lon] = [lat, lon].map(|degrees| (degrees * 1e9).round() / 1e9);
    map.add_node(id, Node { place: place(lat, lon).map_err(fail)?, signal })
}

/// The texts of a block, by number.
#[derive(Clone, Copy)]
struct Texts<'a>(&'a [Vec<u8>]);

impl<'a> Texts<'a> {
    fn get(self, index: i64) -> Result<&'a str, String> {
        let text = usize::try_from(index).ok().and_then(|index| self.0.get(index));
        let Some(text) = text else {
            return Err(format!(
                "found text {index}, expected one of the block's {}",
                self.0.len()
            ));
        };
        std::str::from_utf8(text).map_err(|_| {
            format!("found `{}`, expected text in UTF-8", String::from_utf8_lossy(text))
        })
    }

    /// The tags of these keys.
    fn kept(self, tags: impl Iterator<Item = (u32, u32)>, keys: &[&str]) -> Result<Tags, String> {
        let mut kept = Tags::new();
        for (key, value) in tags {
            let (key, value) = (self.get(key.into())?, self.get(value.into())?);
            if keys.contains(&key) {
                kept.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(kept)
    }
}

/// An error of the crate in our words.
fn problem(error: osmpbf::Error) -> String {
    const WHOLE: &str = "expected a whole block";
    match error.into_kind() {
        ErrorKind::Blob(BlobError::Empty) => {
            "found a compression other than zlib, expected zlib or none: convert the file, for example with `osmium cat FILE -o map.osm.pbf`".into()
        }
        ErrorKind::Blob(BlobError::HeaderTooBig { size }) => {
            format!("found a header of {size} bytes, expected at most {}", osmpbf::MAX_BLOB_HEADER_SIZE)
        }
        ErrorKind::Blob(BlobError::MessageTooBig { size }) => {
            format!("found {size} bytes, expected at most {}", osmpbf::MAX_BLOB_MESSAGE_SIZE)
        }
        ErrorKind::Protobuf { err, location } => format!("found {err} in the {location}, {WHOLE}"),
        ErrorKind::Io(error) => format!("found {error}, {WHOLE}"),
        other => format!("found {other:?}, {WHOLE}"),
    }
}
