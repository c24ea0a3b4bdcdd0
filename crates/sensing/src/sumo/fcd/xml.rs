//! FCD as XML: `<timestep time="…"><vehicle id="…" lane="…" pos="…" speed="…"/>…</timestep>`.

use traffic::VehicleSample;

use super::super::source::Source;
use super::super::xml::{Element, Tag, XmlFile};
use super::super::{Fault, SumoFileError};
use super::rows::{Placing, Row};

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
        out: &mut Vec<VehicleSample>,
    ) -> Result<Option<f64>, SumoFileError> {
        let mut time = None;
        loop {
            let fault = match self.file.next_tag()? {
                None => return Ok(time),
                Some(Tag::End(b"timestep")) => return Ok(time),
                Some(Tag::End(_)) => continue,
                Some(Tag::Empty(element)) if element.name() == b"timestep" => {
                    match begin(placing, element) {
                        Ok(time) => return Ok(Some(time)),
                        Err(fault) => fault,
                    }
                }
                Some(Tag::Start(element) | Tag::Empty(element)) => match element.name() {
                    b"vehicle" => match vehicle(placing, element, time.is_some()) {
                        Ok(None) => continue,
                        Ok(Some(sample)) => {
                            out.push(sample);
                            continue;
                        }
                        Err(fault) => fault,
                    },
                    b"timestep" => match begin(placing, element) {
                        Ok(begun) => {
                            time = Some(begun);
                            continue;
                        }
                        Err(fault) => fault,
                    },
                    b"person" | b"container" => {
                        placing.skipped.not_vehicles += 1;
                        continue;
                    }
                    _ => continue,
                },
            };
            return Err(self.file.locate(fault));
        }
    }
}

fn begin(placing: &mut Placing, element: Element<'_>) -> Result<f64, Fault> {
    let mut time = None;
    for attribute in element.attributes() {
        let (name, value) = attribute?;
        if name == b"time" {
            time = Some(value);
        }
    }
    placing.begin(time)
}

#[inline]
fn vehicle(
    placing: &mut Placing,
    element: Element<'_>,
    in_step: bool,
) -> Result<Option<VehicleSample>, Fault> {
    if !in_step {
        return Err(Fault::new("vehicle", "one outside a timestep", "all within timesteps"));
    }
    let mut row = Row { escaped: true, ..Row::default() };
    for attribute in element.attributes() {
        let (name, value) = attribute?;
        match name {
            b"id" => row.id = Some(value),
            b"lane" => row.lane = Some(value),
            b"pos" => row.pos = Some(value),
            b"speed" => row.speed = Some(value),
            b"type" => row.kind = Some(value),
            _ => {}
        }
    }
    placing.place(row)
}
