//! The network file: TOML that people can read and edit.
//!
//! ```
//! let text = r#"
//! format = "fedtse-network/1"
//! name = "two links"
//! targets = ["b"]                         # links whose estimates are scored; all if absent
//! origin = { lat = 37.98, lon = 23.73 }   # of x = y = 0; may be absent
//!
//! [[link]]
//! name = "a"
//! length = 120.0              # m, from stop line to stop line
//! lanes = 2                   # lane 0 is the right-most
//! speed = 12.5                # m/s
//! shape = [[0, 0], [120, 0]]  # m east and north of the origin
//!
//! [[link]]
//! name = "b"
//! length = 100.0
//! junction = 15.0             # m of the length that cross the upstream junction; 0 if absent
//! lanes = 1
//! speed = 12.5
//! shape = [[120, 0], [220, 0]]
//!
//! [[turn]]
//! from = "a"
//! to = "b"
//! lanes = [[1, 0]]            # pairs [lane of from, lane of to]; if absent, spread evenly
//!
//! [[signal]]
//! name = "J"
//! offset = 0.0                # s, start of the first phase
//! [[signal.phase]]
//! duration = 42.0             # s
//! green = ["a>b"]             # `from>to`, or `from>` for leaving the network
//! [[signal.phase]]
//! duration = 3.0
//! yellow = ["a>b"]
//! [[signal.phase]]
//! duration = 45.0             # what is not named has red
//!
//! [[loop]]
//! name = "L1"
//! link = "a"
//! position = 100.0            # m from the start of the link
//! "#;
//! let network = traffic::parse_network(text)?;
//! assert_eq!(network.links().len(), 2);
//! # Ok::<(), traffic::NetworkFileError>(())
//! ```
//!
//! **The hash** ([`network_hash`](crate::network_hash)) covers what all parties must agree on: the links with their
//! lengths, lanes, speeds and shapes, and the turns. Comments, layout and the title do not change
//! it. Signals, loops and targets are the host's own and may stay with it, so they do not either.

use std::fmt::Write as _;

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use crate::geometry::{LatLon, Point};
use crate::network::{
    LanePair, Link, LinkId, LoopDetector, Movement, Network, NetworkError, NetworkPart,
    NetworkParts, Turn,
};
use crate::signal::{Phase, Signal};
use crate::units::{Metres, MetresPerSecond, Seconds};

/// The first line of every network file.
pub(crate) const FORMAT: &str = "fedtse-network/1";

/// Why a network file was refused.
#[derive(Debug, Error)]
pub enum NetworkFileError {
    /// It is not TOML of the expected form.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// Its `format` is not ours.
    #[error("line {line}: format: found \"{found}\", expected \"{FORMAT}\"")]
    Format {
        /// The line in the file.
        line: usize,
        /// The text found.
        found: String,
    },
    /// A link is named that is not there.
    #[error("line {line}: {field}: found `{found}`, expected the name of a link of this file")]
    UnknownLink {
        /// The line in the file.
        line: usize,
        /// The field that names it.
        field: &'static str,
        /// The name found.
        found: String,
    },
    /// The parts do not make a network.
    #[error("line {line}: {error}")]
    Invalid {
        /// The line in the file where the part at fault begins.
        line: usize,
        /// What is wrong.
        error: NetworkError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: Spanned<String>,
    #[serde(default)]
    name: String,
    origin: Option<LatLon>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
    #[serde(default, rename = "link")]
    links: Vec<FileLink>,
    #[serde(default, rename = "turn")]
    turns: Vec<FileTurn>,
    #[serde(default, rename = "signal")]
    signals: Vec<FileSignal>,
    #[serde(default, rename = "loop")]
    loops: Vec<FileLoop>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    name: Spanned<String>,
    length: Metres,
    #[serde(default)]
    junction: Metres,
    lanes: u8,
    speed: MetresPerSecond,
    shape: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTurn {
    from: Spanned<String>,
    to: Spanned<String>,
    lanes: Option<Vec<LanePair>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSignal {
    name: Spanned<String>,
    #[serde(default)]
    offset: Seconds,
    #[serde(rename = "phase", default)]
    phases: Vec<FilePhase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePhase {
    duration: Seconds,
    #[serde(default)]
    green: Vec<Spanned<String>>,
    #[serde(default)]
    yellow: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLoop {
    name: Spanned<String>,
    link: Spanned<String>,
    position: Metres,
}

/// Reads a network file's text.
pub fn parse_network(text: &str) -> Result<Network, NetworkFileError> {
    let file: File = toml::from_str(text)?;
    let line = |at: &Spanned<String>| line_of(text, at.span().start);
    if file.format.get_ref() != FORMAT {
        return Err(NetworkFileError::Format {
            line: line(&file.format),
            found: file.format.into_inner(),
        });
    }
    let links: Vec<Link> = file
        .links
        .iter()
        .map(|link| Link {
            name: link.name.get_ref().clone(),
            length: link.length,
            junction: link.junction,
            lanes: link.lanes,
            speed: link.speed,
            shape: link.shape.clone(),
        })
        .collect();
    let names: std::collections::HashMap<&str, LinkId> = links
        .iter()
        .enumerate()
        .map(|(index, link)| (link.name.as_str(), LinkId(index as u32)))
        .collect();
    let find = |name: &str, at: &Spanned<String>, field| {
        names.get(name).copied().ok_or_else(|| NetworkFileError::UnknownLink {
            line: line(at),
            field,
            found: name.into(),
        })
    };
    let resolve = |name: &Spanned<String>, field| find(name.get_ref(), name, field);
    let movement = |text: &Spanned<String>, field| {
        let (from, to) = text.get_ref().split_once('>').unwrap_or((text.get_ref(), ""));
        Ok::<_, NetworkFileError>(Movement {
            from: find(from, text, field)?,
            to: if to.is_empty() { None } else { Some(find(to, text, field)?) },
        })
    };

    let mut turns = Vec::with_capacity(file.turns.len());
    for turn in &file.turns {
        let (from, to) = (resolve(&turn.from, "turn.from")?, resolve(&turn.to, "turn.to")?);
        let lanes = turn
            .lanes
            .clone()
            .unwrap_or_else(|| spread_lanes(links[from.index()].lanes, links[to.index()].lanes));
        turns.push(Turn { from, to, lanes });
    }
    let mut signals = Vec::with_capacity(file.signals.len());
    for signal in &file.signals {
        let mut phases = Vec::with_capacity(signal.phases.len());
        for phase in &signal.phases {
            let green = phase.green.iter().map(|text| movement(text, "signal.phase.green"));
            let yellow = phase.yellow.iter().map(|text| movement(text, "signal.phase.yellow"));
            phases.push(Phase {
                duration: phase.duration,
                green: green.collect::<Result<_, _>>()?,
                yellow: yellow.collect::<Result<_, _>>()?,
            });
        }
        let name = signal.name.get_ref().clone();
        signals.push(Signal { name, offset: signal.offset, phases });
    }
    let mut loops = Vec::with_capacity(file.loops.len());
    for detector in &file.loops {
        loops.push(LoopDetector {
            name: detector.name.get_ref().clone(),
            link: resolve(&detector.link, "loop.link")?,
            position: detector.position,
        });
    }
    let targets = file.targets.iter().map(|name| resolve(name, "targets"));
    let parts = NetworkParts {
        targets: targets.collect::<Result<_, _>>()?,
        name: file.name,
        origin: file.origin,
        links,
        turns,
        signals,
        loops,
    };
    Network::new(parts).map_err(|error| NetworkFileError::Invalid {
        line: match &error.part {
            NetworkPart::Whole => 1,
            NetworkPart::Link(index, _) => line(&file.links[*index].name),
            NetworkPart::Turn(index, _) => line(&file.turns[*index].from),
            NetworkPart::Signal(index, _) => line(&file.signals[*index].name),
            NetworkPart::Loop(index, _) => line(&file.loops[*index].name),
            NetworkPart::Target(index) => line(&file.targets[*index]),
        },
        error,
    })
}

/// Pairs the lanes of a turn when a file does not: right-most to right-most, and any lanes left
/// over on the wider side join the last one.
pub fn spread_lanes(from: u8, to: u8) -> Vec<LanePair> {
    (0..from.max(to))
        .map(|lane| LanePair {
            from: lane.min(from.saturating_sub(1)),
            to: lane.min(to.saturating_sub(1)),
        })
        .collect()
}

/// Writes a network as a file that [`parse_network`] reads back to an equal network.
pub fn write_network(network: &Network) -> String {
    let parts = network.parts();
    let mut text = format!("format = \"{FORMAT}\"\nname = {}\n", quoted(&parts.name));
    // Writing into a String cannot fail, so the results below carry no information.
    if let Some(origin) = parts.origin {
        let _ = writeln!(text, "origin = {{ lat = {:?}, lon = {:?} }}", origin.lat, origin.lon);
    }
    if !parts.targets.is_empty() {
        let names = parts.targets.iter().map(|&id| quoted(&network.link(id).name));
        let _ = writeln!(text, "targets = [{}]", names.collect::<Vec<_>>().join(", "));
    }
    for link in &parts.links {
        let shape: Vec<String> =
            link.shape.iter().map(|point| format!("[{:?}, {:?}]", point.x, point.y)).collect();
        let _ = write!(
            text,
            "\n[[link]]\nname = {}\nlength = {:?}\njunction = {:?}\nlanes = {}\nspeed = {:?}\nshape = [{}]\n",
            quoted(&link.name),
            link.length.get(),
            link.junction.get(),
            link.lanes,
            link.speed.get(),
            shape.join(", ")
        );
    }
    for turn in &parts.turns {
        let lanes: Vec<String> =
            turn.lanes.iter().map(|pair| format!("[{}, {}]", pair.from, pair.to)).collect();
        let _ = write!(
            text,
            "\n[[turn]]\nfrom = {}\nto = {}\nlanes = [{}]\n",
            quoted(&network.link(turn.from).name),
            quoted(&network.link(turn.to).name),
            lanes.join(", ")
        );
    }
    for signal in &parts.signals {
        let _ = write!(
            text,
            "\n[[signal]]\nname = {}\noffset = {:?}\n",
            quoted(&signal.name),
            signal.offset.get()
        );
        for phase in &signal.phases {
            let _ = writeln!(text, "[[signal.phase]]\nduration = {:?}", phase.duration.get());
            for (field, movements) in [("green", &phase.green), ("yellow", &phase.yellow)] {
                if !movements.is_empty() {
                    let names =
                        movements.iter().map(|&movement| quoted(&network.movement_name(movement)));
                    let _ = writeln!(text, "{field} = [{}]", names.collect::<Vec<_>>().join(", "));
                }
            }
        }
    }
    for detector in &parts.loops {
        let _ = write!(
            text,
            "\n[[loop]]\nname = {}\nlink = {}\nposition = {:?}\n",
            quoted(&detector.name),
            quoted(&network.link(detector.link).name),
            detector.position.get()
        );
    }
    text
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests;
