//! SUMO's additional files: loops from induction loops, and programs of traffic lights.

use std::path::Path;

use traffic::{Link, LinkId, LoopDetector, Metres};

use super::super::SumoFileError;
use super::super::config::beside;
use super::super::lights::Lights;
use super::super::loops::LoopMap;
use super::super::net::SumoNet;
use super::super::xml::{Element, XmlFile};
use super::{ImportReport, Kept};

/// Detectors on neighbouring lanes within this distance along the road are one loop.
const TOGETHER: f64 = 5.0;

/// Files that name each other in a circle end here; SUMO's own nest once or twice.
const MOST_INCLUDES: usize = 16;

/// Loops, and which of SUMO's detectors they are made of.
pub(super) struct Additional<'a> {
    net: &'a SumoNet,
    kept: &'a Kept<'a>,
    links: &'a [Link],
    pub(super) loops: Vec<LoopDetector>,
    pub(super) map: LoopMap,
    /// By loop: the lanes that already have a detector.
    taken: Vec<Vec<u8>>,
    pub(super) lights: Lights,
}

impl<'a> Additional<'a> {
    /// Nothing but the programs of the net.
    pub(super) fn of(net: &'a SumoNet, kept: &'a Kept<'a>, links: &'a [Link]) -> Self {
        let lights = net.lights.clone();
        let (loops, map, taken) = (Vec::new(), LoopMap::default(), Vec::new());
        Self { net, kept, links, loops, map, taken, lights }
    }

    /// Reads a file, and those that it includes.
    pub(super) fn read(
        &mut self,
        file: &Path,
        report: &mut ImportReport,
    ) -> Result<(), SumoFileError> {
        self.read_nested(file, 0, report)
    }

    fn read_nested(
        &mut self,
        file: &Path,
        depth: usize,
        report: &mut ImportReport,
    ) -> Result<(), SumoFileError> {
        let mut xml = XmlFile::open_any(file, "additional")?;
        while let Some(element) = xml.next_element()? {
            match element.name() {
                b"e1Detector" | b"inductionLoop" | b"instantInductionLoop" => {
                    self.detector(&element, report)?;
                }
                b"e2Detector" | b"laneAreaDetector" | b"e3Detector" | b"entryExitDetector" => {
                    report.detectors_not_loops += 1;
                }
                b"include" if depth == MOST_INCLUDES => {
                    let expected = format!("at most {MOST_INCLUDES} files within each other");
                    return Err(element.wrong("href", "another file", &expected));
                }
                b"include" => {
                    let inner = beside(file, element.text("href")?);
                    self.read_nested(&inner, depth + 1, report)?;
                }
                _ => self.lights.take(&element)?,
            }
        }
        Ok(())
    }

    fn detector(
        &mut self,
        element: &Element<'_>,
        report: &mut ImportReport,
    ) -> Result<(), SumoFileError> {
        let lane_id = element.text("lane")?;
        let Some(sumo_lane) = self.net.lane(lane_id) else {
            return Err(element.wrong("lane", &format!("`{lane_id}`"), "a lane of the net"));
        };
        let at = lane_id.rsplit_once('_').and_then(|(edge, index)| {
            let link = self.kept.link(edge)?;
            self.kept.lane(edge, index.parse().ok()?).map(|(_, lane)| (link, lane))
        });
        let Some((link, lane)) = at else {
            report.detectors_apart += 1;
            return Ok(());
        };
        // Negative positions count from the lane's end.
        let on_lane = element.signed("pos")?;
        let on_lane = if on_lane < 0.0 { sumo_lane.length + on_lane } else { on_lane };
        let friendly = matches!(element.find("friendlyPos")?, Some("true" | "1" | "t" | "yes"));
        if !friendly && !(0.0..=sumo_lane.length).contains(&on_lane) {
            let expected = format!("0 to {} m", sumo_lane.length);
            return Err(element.wrong("pos", element.text("pos")?, &expected));
        }
        let on_lane = on_lane.clamp(0.0, sumo_lane.length);
        let position = on_link(&self.links[link.index()], on_lane, sumo_lane.length);
        let id = element.text("id")?.to_owned();
        let index = match joinable(&self.loops, &self.taken, link, lane, position) {
            Some(index) => index,
            None => {
                let position = Metres::new(position);
                self.loops.push(LoopDetector { name: id.clone(), link, position });
                self.taken.push(Vec::new());
                self.loops.len() - 1
            }
        };
        self.taken[index].push(lane);
        self.map.add(id, index);
        Ok(())
    }
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
