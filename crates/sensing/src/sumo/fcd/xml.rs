//! FCD as XML: `<timestep time="…"><vehicle id="…" lane="…" pos="…" speed="…"/>…</timestep>`.

use traffic::VehiclePosition;

use super::super::source::Source;
use super::super::xml::{Element, Tag, XmlFile};
use super::super::{Fault, SumoFileError};
use super::rows::{FcdRow, Placing};

pub(super) struct XmlRows {
    file: XmlFile,
}

impl XmlRows {
    pub(super) fn new(source: Source) -> Result<Self, SumoFileError> {
        Ok(Self { file: XmlFile::new(source, "fcd-export")? })
    }

    pub(super) fn next_moment(
        &mut self,
        placing: &mut Placing,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<f64>, SumoFileError> {
        let mut time = None;
        loop {
            let (element, is_empty) = match self.file.next_tag()? {
                None | Some(Tag::End(b"timestep")) => return Ok(time),
                Some(Tag::End(_)) => continue,
                Some(Tag::Start(element)) => (element, false),
                Some(Tag::Empty(element)) => (element, true),
            };
            let placed = match element.name() {
                b"vehicle" => match vehicle(placing, element, time.is_some()) {
                    Ok(Some(sample)) => {
                        out.push(sample);
                        continue;
                    }
                    Ok(None) => continue,
                    Err(fault) => Err(fault),
                },
                b"timestep" => begin(placing, element).map(|begun| time = Some(begun)),
                b"person" | b"container" => {
                    placing.skipped.not_vehicles += 1;
                    Ok(())
                }
                _ => Ok(()),
            };
            let ends_moment = is_empty && element.name() == b"timestep";
            if let Err(fault) = placed {
                return Err(self.file.locate(fault));
            }
            if ends_moment {
                return Ok(time);
            }
        }
    }
}

fn begin(placing: &mut Placing, element: Element<'_>) -> Result<f64, Fault> {
    let time = element.attributes().find(|(name, _)| *name == b"time");
    placing.begin(time.map(|(_, value)| value))
}

#[inline]
fn vehicle(
    placing: &mut Placing,
    element: Element<'_>,
    in_step: bool,
) -> Result<Option<VehiclePosition>, Fault> {
    if !in_step {
        return Err(Fault::new("vehicle", "one outside a timestep", "all within timesteps"));
    }
    let mut row = FcdRow::default();
    for (name, value) in element.attributes() {
        // Byte by byte: comparing such short names by a call costs more than reading them.
        match name {
            [b'i', b'd'] => row.id = Some(value),
            [b'l', b'a', b'n', b'e'] => row.lane = Some(value),
            [b'p', b'o', b's'] => row.pos = Some(value),
            [b's', b'p', b'e', b'e', b'd'] => row.speed = Some(value),
            [b't', b'y', b'p', b'e'] => row.kind = Some(value),
            _ => {}
        }
    }
    placing.place(row)
}
