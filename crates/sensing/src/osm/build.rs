//! From pieces of road to links and turns.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use traffic::{
    Groups, Link, LinkId, Metres, Network, NetworkParts, Turn, polyline_length, spread_lanes,
};

use super::pieces::Pieces;
use super::raw_map::{RawMap, Restriction, Rule};
use super::tags::Carriageway;
use super::{OsmError, OsmImport, OsmOptions, OsmReport};

/// A link is given at most this share to the junction that it begins at.
const JUNCTION_SHARE: f64 = 0.25;

/// A link with where it came from.
struct Draft {
    link: Link,
    piece: usize,
    /// The junction it begins at, and the one it ends at.
    junctions: [i64; 2],
    /// The way at its start, and the one at its end.
    ways: [i64; 2],
    street: Option<String>,
}

/// The links at a junction.
#[derive(Default)]
struct Junction {
    arriving: Vec<usize>,
    leaving: Vec<usize>,
    /// Ends of pieces: three or more make a real junction.
    arms: usize,
}

pub(super) fn build(
    map: &RawMap,
    pieces: &Pieces,
    options: &OsmOptions,
    mut report: OsmReport,
    file: &str,
) -> Result<OsmImport, OsmError> {
    let mut drafts = draft_links(pieces);
    let mut junctions: BTreeMap<i64, Junction> = BTreeMap::new();
    for piece in &pieces.pieces {
        for end in [piece.first(), piece.last()] {
            junctions.entry(pieces.junction(end)).or_default().arms += 1;
        }
    }
    for (index, draft) in drafts.iter().enumerate() {
        junctions.entry(draft.junctions[0]).or_default().leaving.push(index);
        junctions.entry(draft.junctions[1]).or_default().arriving.push(index);
    }
    let turns = turns(map, pieces, options, &drafts, &junctions, &mut report);
    let entered: FxHashSet<usize> = turns.iter().map(|&(_, to)| to).collect();
    for (index, draft) in drafts.iter_mut().enumerate() {
        let real = junctions.get(&draft.junctions[0]).is_some_and(|junction| junction.arms > 2);
        if real && entered.contains(&index) {
            draft.link.junction = options.junction.min(draft.link.length * JUNCTION_SHARE);
        }
    }
    keep_largest(pieces, options, drafts, turns, report, file)
}

/// A link for each piece and direction, named by its way and its junctions.
fn draft_links(pieces: &Pieces) -> Vec<Draft> {
    let mut drafts = Vec::with_capacity(2 * pieces.pieces.len());
    let mut names: FxHashMap<String, u32> = FxHashMap::default();
    for (number, piece) in pieces.pieces.iter().enumerate() {
        let ends = [piece.first(), piece.last()];
        for (road, back) in [(piece.road.along, false), (piece.road.against, true)] {
            let Some(Carriageway { lanes, speed }) = road else { continue };
            let (mut ends, mut ways, mut shape) = (ends, piece.ways, piece.shape.clone());
            if back {
                ends.reverse();
                ways.reverse();
                shape.reverse();
            }
            let mut name = format!("{}_{}_{}", ways[0], ends[0], ends[1]);
            let times = names.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                name = format!("{name}_{times}");
            }
            let length = Metres::new(polyline_length(&shape));
            drafts.push(Draft {
                link: Link { name, length, junction: Metres::ZERO, lanes, speed, shape },
                piece: number,
                junctions: ends.map(|end| pieces.junction(end)),
                ways,
                street: piece.road.street.clone(),
            });
        }
    }
    drafts
}

/// All passages from a link to another that are not forbidden, as pairs of indices.
fn turns(
    map: &RawMap,
    pieces: &Pieces,
    options: &OsmOptions,
    drafts: &[Draft],
    junctions: &BTreeMap<i64, Junction>,
    report: &mut OsmReport,
) -> Vec<(usize, usize)> {
    let mut rules: FxHashMap<i64, Vec<&Restriction>> = FxHashMap::default();
    for rule in &map.restrictions {
        let place = pieces.junction(rule.via);
        if junctions.contains_key(&place) {
            rules.entry(place).or_default().push(rule);
        } else {
            report.ignored_restrictions += 1;
        }
    }
    let mut turns = Vec::new();
    for (place, junction) in junctions {
        let mut here: Vec<(usize, usize)> = Vec::new();
        for &from in &junction.arriving {
            for &to in &junction.leaving {
                let round = drafts[from].piece == drafts[to].piece;
                let dead_end = junction.arms == 1 && options.turn_round_at_dead_ends;
                if from != to && (!round || dead_end) {
                    here.push((from, to));
                }
            }
        }
        for rule in rules.get(place).into_iter().flatten() {
            if obey(rule, drafts, &mut here) {
                report.restrictions += 1;
            } else {
                report.ignored_restrictions += 1;
            }
        }
        turns.extend(here);
    }
    turns
}

/// Takes away the turns that a restriction forbids; false if it concerns none.
fn obey(rule: &Restriction, drafts: &[Draft], turns: &mut Vec<(usize, usize)>) -> bool {
    let from_it = |&(from, _): &(usize, usize)| rule.from.contains(&drafts[from].ways[1]);
    let to_it = |&(_, to): &(usize, usize)| rule.to.contains(&drafts[to].ways[0]);
    let round = |&(from, to): &(usize, usize)| drafts[from].piece == drafts[to].piece;
    match rule.rule {
        // Links do not turn round anyway, except where the options say so.
        Rule::NoTurningRound => {
            turns.retain(|turn| !(round(turn) && from_it(turn)));
            true
        }
        Rule::No => {
            let before = turns.len();
            turns.retain(|turn| !(from_it(turn) && to_it(turn)));
            turns.len() < before
        }
        Rule::Only => {
            let possible = turns.iter().any(|turn| from_it(turn) && to_it(turn));
            if possible {
                turns.retain(|turn| !from_it(turn) || to_it(turn));
            }
            possible
        }
    }
}

/// Drops all links that do not hang together with the most.
fn keep_largest(
    pieces: &Pieces,
    options: &OsmOptions,
    drafts: Vec<Draft>,
    turns: Vec<(usize, usize)>,
    mut report: OsmReport,
    file: &str,
) -> Result<OsmImport, OsmError> {
    let mut groups = Groups::new(drafts.len());
    for &(from, to) in &turns {
        groups.join(from, to);
    }
    let largest = groups.largest();
    let mut new_index: Vec<Option<u32>> = vec![None; drafts.len()];
    let (mut links, mut streets) = (Vec::new(), Vec::new());
    for (index, draft) in drafts.into_iter().enumerate() {
        if Some(groups.of(index)) == largest {
            new_index[index] = Some(links.len() as u32);
            links.push(draft.link);
            streets.push(draft.street);
        } else {
            report.dropped_links += 1;
            report.dropped += draft.link.length;
        }
    }
    let turns = turns
        .into_iter()
        .filter_map(|(from, to)| Some((LinkId(new_index[from]?), LinkId(new_index[to]?))))
        .map(|(from, to)| {
            let lanes = |link: LinkId| links[link.index()].lanes;
            Turn { from, to, lanes: spread_lanes(lanes(from), lanes(to)) }
        })
        .collect();
    report.links = links.len();
    let parts = NetworkParts {
        name: options.name.clone(),
        origin: Some(pieces.origin),
        links,
        turns,
        ..NetworkParts::default()
    };
    let network =
        Network::new(parts).map_err(|error| OsmError::Network { file: file.into(), error })?;
    Ok(OsmImport { network, streets, report })
}
