//! Traffic lights: their programs, and which of them SUMO runs.
//!
//! As sumo 1.28 does it (tried with the program, not only read about):
//! - The program that was loaded last is the active one, in the net and in additional files alike.
//! - A `tlLogic` without phases changes the offset of a program that is known; with the program
//!   `off` it switches the light off.
//! - A WAUT starts the lights that it governs with its `startProg`, and switches them later; the program `off` every
//!   light has.
//! - Times may be written with colons, and the offset `begin` is the time at which the run begins.

use rustc_hash::FxHashMap;

use super::SumoFileError;
use super::config::seconds;
use super::quoted;
use super::xml::Element;

/// A program of a traffic light.
#[derive(Clone, Debug)]
pub(super) struct SumoLight {
    pub(super) id: String,
    program: String,
    /// Seconds; none for the begin of the run.
    offset: Option<f64>,
    /// Durations in seconds, and the state of each head.
    pub(super) phases: Vec<(f64, Vec<u8>)>,
    pub(super) fixed_time: bool,
}

/// All programs of all lights, in the order in which they were loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct Lights {
    programs: Vec<SumoLight>,
    /// Programs that switch by the clock: their names and the ones they start with.
    schedules: FxHashMap<String, String>,
    /// Light and schedule.
    scheduled: Vec<(String, String)>,
}

/// The light that is switched off.
const OFF: &str = "off";

impl Lights {
    /// Takes an element of a net or an additional file, if it is about lights.
    pub(super) fn take(&mut self, element: &Element<'_>) -> Result<(), SumoFileError> {
        match element.name() {
            b"tlLogic" => self.programs.push(program(element)?),
            b"phase" => self.add_phase(element)?,
            b"WAUT" => {
                let start = element.text("startProg")?.to_owned();
                self.schedules.insert(element.text("id")?.to_owned(), start);
            }
            b"wautJunction" => {
                let light = element.text("junctionID")?.to_owned();
                self.scheduled.push((light, element.text("wautID")?.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn add_phase(&mut self, element: &Element<'_>) -> Result<(), SumoFileError> {
        let Some(light) = self.programs.last_mut() else {
            return Err(element.wrong("state", "a phase", "a tlLogic before it"));
        };
        let state = element.text("state")?.as_bytes().to_vec();
        // Phases that do not follow each other in order depend on traffic.
        light.fixed_time &= element.find("next")?.is_none();
        light.phases.push((duration(element)?, state));
        Ok(())
    }

    /// The active program of each light, in the order in which the lights are first named.
    pub(super) fn active(&self) -> ActivePrograms {
        let mut order: Vec<&str> = Vec::new();
        let mut loaded: FxHashMap<&str, Vec<SumoLight>> = FxHashMap::default();
        for light in &self.programs {
            let programs = loaded.entry(&light.id).or_insert_with(|| {
                order.push(&light.id);
                Vec::new()
            });
            let known = programs.iter().position(|known| known.program == light.program);
            match known {
                Some(known) if light.phases.is_empty() => programs[known].offset = light.offset,
                // SUMO refuses the same program twice; the later one is as good a guess as any.
                Some(known) => {
                    programs.remove(known);
                    programs.push(light.clone());
                }
                None => programs.push(light.clone()),
            }
        }
        let starts: FxHashMap<&str, &str> = (self.scheduled.iter())
            .filter_map(|(light, schedule)| {
                Some((light.as_str(), self.schedules.get(schedule)?.as_str()))
            })
            .collect();
        let mut active = ActivePrograms::default();
        for id in order {
            let Some(mut programs) = loaded.remove(id) else { continue };
            active.unused_programs += programs.len() - 1;
            let start = starts.get(id);
            active.lights_switched += usize::from(start.is_some());
            let started =
                start.and_then(|start| programs.iter().position(|light| light.program == *start));
            let switched_off = started.is_none() && start.is_some_and(|start| *start == OFF);
            let chosen = programs.swap_remove(started.unwrap_or(programs.len() - 1));
            if switched_off || (chosen.program == OFF && chosen.phases.is_empty()) {
                active.lights_off += 1;
            } else {
                active.lights.push(chosen);
            }
        }
        active
    }
}

/// What SUMO runs.
#[derive(Debug, Default)]
pub(super) struct ActivePrograms {
    pub(super) lights: Vec<SumoLight>,
    /// Programs that SUMO does not begin with.
    pub(super) unused_programs: usize,
    /// Lights that a WAUT switches to other programs later.
    pub(super) lights_switched: usize,
    /// Lights that are off.
    pub(super) lights_off: usize,
}

impl ActivePrograms {
    /// No light works.
    pub(super) fn switch_off(&mut self) {
        self.lights_off += self.lights.len();
        self.lights.clear();
    }
}

impl SumoLight {
    /// When its first phase starts, in a run that begins at a time; both in seconds.
    pub(super) fn offset(&self, begin: f64) -> f64 {
        self.offset.unwrap_or(begin)
    }
}

/// How long a phase takes, in seconds.
fn duration(element: &Element<'_>) -> Result<f64, SumoFileError> {
    let text = element.text("duration")?;
    seconds(text).filter(|duration| *duration >= 0.0).ok_or_else(|| {
        element.wrong("duration", &quoted(text.as_bytes()), "a number of 0 or more, in seconds")
    })
}

fn offset(element: &Element<'_>) -> Result<Option<f64>, SumoFileError> {
    match element.find("offset")? {
        None => Ok(Some(0.0)),
        Some("begin") => Ok(None),
        Some(text) => seconds(text).map(Some).ok_or_else(|| {
            element.wrong("offset", &quoted(text.as_bytes()), "a number of seconds, or `begin`")
        }),
    }
}

fn program(element: &Element<'_>) -> Result<SumoLight, SumoFileError> {
    let kind = element.find("type")?;
    Ok(SumoLight {
        id: element.text("id")?.to_owned(),
        program: element.find("programID")?.unwrap_or_default().to_owned(),
        offset: offset(element)?,
        phases: Vec::new(),
        fixed_time: kind.is_none_or(|kind| kind == "static"),
    })
}
