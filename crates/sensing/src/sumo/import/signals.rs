//! Signals from the traffic lights of a net.

use rustc_hash::FxHashMap;
use traffic::{Movement, Phase, Seconds, Signal, Turn};

use super::super::lights::{ActivePrograms, SumoLight};
use super::super::names::OUTSIDE;
use super::super::net::SumoNet;
use super::super::{Fault, SumoFileError};
use super::{ImportReport, Kept};

/// The lights that govern at least one movement of the network.
pub(super) fn signals(
    net: &SumoNet,
    (active, begin): (ActivePrograms, Seconds),
    kept: &Kept<'_>,
    turns: &[Turn],
    report: &mut ImportReport,
) -> Result<Vec<Signal>, SumoFileError> {
    let mut heads: FxHashMap<&str, Vec<(Movement, usize)>> = FxHashMap::default();
    let mut light_of: FxHashMap<Movement, &str> = FxHashMap::default();
    for connection in &net.connections {
        let Some((light, head)) = &connection.light else { continue };
        let Some((from, _)) = kept.lane(&connection.from, connection.from_lane) else { continue };
        let to = match kept.lane(&connection.to, connection.to_lane) {
            Some((to, _)) if to != from => Some(to),
            // Behind an exit with a signal we write a stub that is on no link.
            None if connection.to.ends_with(OUTSIDE)
                && turns.iter().all(|turn| turn.from != from) =>
            {
                None
            }
            _ => continue,
        };
        let movement = Movement { from, to };
        if *light_of.entry(movement).or_insert(light) == light.as_str() {
            heads.entry(light.as_str()).or_default().push((movement, *head));
        } else {
            report.movements_of_two_lights += 1;
        }
    }
    report.unused_programs = active.unused_programs;
    report.lights_switched_by_clock = active.lights_switched;
    report.lights_off = active.lights_off;
    let mut signals = Vec::new();
    for light in &active.lights {
        let Some(heads) = heads.get(light.id.as_str()) else {
            report.lights_without_movements += 1;
            continue;
        };
        check_states(net, light, heads)?;
        // A light that never turns, or has no time to, governs nothing.
        let phases: Vec<Phase> = light
            .phases
            .iter()
            .filter(|(duration, _)| *duration > 0.0)
            .map(|(duration, state)| phase(*duration, state, heads, report))
            .collect();
        let governs =
            phases.iter().any(|phase| !phase.green.is_empty() || !phase.yellow.is_empty());
        report.lights_made_fixed += usize::from(governs && !light.fixed_time);
        // A phase names who may go; who never may is named nowhere, and so counts as ungoverned.
        let named = |movement: &Movement| {
            phases
                .iter()
                .any(|phase| phase.green.contains(movement) || phase.yellow.contains(movement))
        };
        let mut never: Vec<Movement> = heads
            .iter()
            .map(|&(movement, _)| movement)
            .filter(|movement| !named(movement))
            .collect();
        never.sort_unstable();
        never.dedup();
        report.movements_never_green += never.len();
        if governs {
            signals.push(signal(light, begin, phases));
        }
    }
    Ok(signals)
}

/// A phase shows all heads, as SUMO has it.
fn check_states(
    net: &SumoNet,
    light: &SumoLight,
    heads: &[(Movement, usize)],
) -> Result<(), SumoFileError> {
    let needed = heads.iter().map(|&(_, head)| head + 1).max().unwrap_or(0);
    match light.phases.iter().find(|(_, state)| state.len() < needed) {
        None => Ok(()),
        Some((_, state)) => {
            let field = format!("state of light {}", light.id);
            let expected = format!("{needed} or more, one for each of its heads");
            Err(Fault::new(&field, state.len().to_string(), expected).at(&net.file, 1))
        }
    }
}

fn signal(light: &SumoLight, begin: Seconds, phases: Vec<Phase>) -> Signal {
    Signal { name: light.id.clone(), offset: Seconds::new(light.offset(begin.get())), phases }
}

/// A movement has green in a phase if any of its heads has, else yellow if any has.
fn phase(
    duration: f64,
    state: &[u8],
    heads: &[(Movement, usize)],
    report: &mut ImportReport,
) -> Phase {
    let mut phase =
        Phase { duration: Seconds::new(duration), green: Vec::new(), yellow: Vec::new() };
    let mut mixed = false;
    for &(movement, _) in heads {
        if phase.green.contains(&movement) || phase.yellow.contains(&movement) {
            continue;
        }
        let mut shown = heads
            .iter()
            .filter(|(other, _)| *other == movement)
            .map(|&(_, head)| state.get(head).copied().unwrap_or(b'r'));
        // `s` is green after a stop; `O` and `o` are a light that is off: drivers look and go.
        let is_green = |head: u8| matches!(head, b'G' | b'g' | b's' | b'O' | b'o');
        let is_yellow = |head: u8| matches!(head, b'y' | b'Y');
        mixed |= {
            let all: Vec<u8> = shown.clone().collect();
            all.iter().any(|&head| is_green(head)) && !all.iter().all(|&head| is_green(head))
        };
        if shown.clone().any(is_green) {
            phase.green.push(movement);
        } else if shown.any(is_yellow) {
            phase.yellow.push(movement);
        }
    }
    report.mixed_phases += usize::from(mixed);
    phase
}
