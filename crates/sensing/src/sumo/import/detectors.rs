//! Loops from the induction loops of SUMO's additional files.

use std::path::PathBuf;

use traffic::{Link, LinkId, LoopDetector, Metres};

use super::super::SumoFileError;
use super::super::loops::LoopMap;
use super::super::net::SumoNet;
use super::super::xml::XmlFile;
use super::{ImportReport, Kept};

/// Detectors on neighbouring lanes within this distance along the road are one loop.
const TOGETHER: f64 = 5.0;

pub(super) fn read(
    files: &[PathBuf],
    net: &SumoNet,
    kept: &Kept<'_>,
    links: &[Link],
    report: &mut ImportReport,
) -> Result<(Vec<LoopDetector>, LoopMap), SumoFileError> {
    let mut loops: Vec<LoopDetector> = Vec::new();
    let mut map = LoopMap::default();
    // By loop: the lanes that already have a detector.
    let mut taken: Vec<Vec<u8>> = Vec::new();
    for file in files {
        let mut xml = XmlFile::open(file, "additional")?;
        while let Some(element) = xml.next_element()? {
            if !matches!(element.name(), b"e1Detector" | b"inductionLoop") {
                continue;
            }
            let lane_id = element.text("lane")?;
            let Some(sumo_lane) = net.lane(lane_id) else {
                return Err(element.wrong("lane", &format!("`{lane_id}`"), "a lane of the net"));
            };
            let at = lane_id.rsplit_once('_').and_then(|(edge, index)| {
                let link = kept.link(edge)?;
                kept.lane(edge, index.parse().ok()?).map(|(_, lane)| (link, lane))
            });
            let Some((link, lane)) = at else {
                report.detectors_apart += 1;
                continue;
            };
            // Negative positions count from the lane's end.
            let on_lane = element.signed("pos")?;
            let on_lane = if on_lane < 0.0 { sumo_lane.length + on_lane } else { on_lane };
            if !(0.0..=sumo_lane.length).contains(&on_lane) {
                let expected = format!("0 to {} m", sumo_lane.length);
                return Err(element.wrong("pos", element.text("pos")?, &expected));
            }
            let position = on_link(&links[link.index()], on_lane, sumo_lane.length);
            let id = element.text("id")?.to_owned();
            let index = match joinable(&loops, &taken, link, lane, position) {
                Some(index) => index,
                None => {
                    loops.push(LoopDetector {
                        name: id.clone(),
                        link,
                        position: Metres::new(position),
                    });
                    taken.push(Vec::new());
                    loops.len() - 1
                }
            };
            taken[index].push(lane);
            map.add(id, index);
        }
    }
    Ok((loops, map))
}

fn on_link(link: &Link, on_lane: f64, lane_length: f64) -> f64 {
    let on_edge = (link.length - link.junction).get();
    let position = link.junction.get() + on_lane * on_edge / lane_length.max(f64::MIN_POSITIVE);
    // A loop lies behind the start of its link, never on it.
    position.clamp(0.001, link.length.get())
}

fn joinable(
    loops: &[LoopDetector],
    taken: &[Vec<u8>],
    link: LinkId,
    lane: u8,
    position: f64,
) -> Option<usize> {
    (0..loops.len()).rev().find(|&index| {
        loops[index].link == link
            && (loops[index].position.get() - position).abs() <= TOGETHER
            && !taken[index].contains(&lane)
    })
}
