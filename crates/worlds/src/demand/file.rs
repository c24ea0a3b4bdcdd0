//! Reading the demand file; its form is described in the [module above](super).

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;
use traffic::{LinkId, Metres, Network, Seconds, VehPerHour, VehicleClass};

use super::{
    Blockages, Demand, Entry, Headways, LONGEST_ROUTE, Noise, ParkingPosition, Peaks, Routes,
    equal_shares,
};

/// The first line of every demand file.
pub(crate) const FORMAT: &str = "fedtse-demand/1";

/// Why a demand file was refused.
#[derive(Debug, Error)]
pub enum DemandError {
    /// It is not TOML of the expected form.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A field has a value that makes no sense for the network.
    #[error("line {line}: {field}: found {found}, expected {expected}")]
    Value {
        /// The line in the file.
        line: usize,
        /// The field at fault.
        field: &'static str,
        /// What the file says.
        found: String,
        /// What it should say.
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: Spanned<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    headways: Headways,
    #[serde(default)]
    routes: Routes,
    longest_route: Option<Spanned<usize>>,
    #[serde(rename = "entry")]
    entries: Vec<FileEntry>,
    #[serde(default, rename = "turning")]
    turnings: Vec<FileTurning>,
    peaks: Option<FilePeaks>,
    noise: Option<FileNoise>,
    classes: Option<Spanned<BTreeMap<VehicleClass, f64>>>,
    blockages: Option<FileBlockages>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    link: Spanned<String>,
    flow: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTurning {
    from: Spanned<String>,
    to: Spanned<BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePeaks {
    period: Spanned<f64>,
    height: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNoise {
    spread: Spanned<f64>,
    memory: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBlockages {
    per_hour: Spanned<f64>,
    mean_duration: Spanned<f64>,
    places: Spanned<Vec<FilePlace>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePlace {
    link: Spanned<String>,
    lane: Spanned<u8>,
    position: Spanned<f64>,
}

/// Shares may miss 1 by this much: decimals such as 0.333 are meant to be written by hand.
const SHARE_TOLERANCE: f64 = 1e-3;

impl Demand {
    /// Reads a demand file's text, for a network.
    pub fn parse(text: &str, network: &Network) -> Result<Self, DemandError> {
        let file: File = toml::from_str(text)?;
        let reader = Reader { text, network };
        reader.check(&file.format, "format", &format!("\"{FORMAT}\""), |found| found == FORMAT)?;
        let longest_route = match &file.longest_route {
            None => LONGEST_ROUTE,
            Some(links) => {
                *reader.check(links, "longest_route", "at least 1 link", |&links| links >= 1)?
            }
        };
        Ok(Self {
            entries: reader.entries(&file.entries)?,
            shares: reader.shares(&file.turnings)?,
            peaks: file.peaks.as_ref().map(|peaks| reader.peaks(peaks)).transpose()?,
            noise: file.noise.as_ref().map(|noise| reader.noise(noise)).transpose()?,
            classes: match &file.classes {
                None => vec![(VehicleClass::Car, 1.0)],
                Some(classes) => reader.classes(classes)?,
            },
            blockages: file.blockages.as_ref().map(|all| reader.blockages(all)).transpose()?,
            headways: file.headways,
            routes: file.routes,
            longest_route,
            name: file.name,
        })
    }
}

struct Reader<'a> {
    text: &'a str,
    network: &'a Network,
}

impl Reader<'_> {
    fn entries(&self, entries: &[FileEntry]) -> Result<Vec<Entry>, DemandError> {
        let mut read: Vec<Entry> = Vec::with_capacity(entries.len());
        for entry in entries {
            let link = self.link(&entry.link, "entry.link")?;
            if read.iter().any(|other| other.link == link) {
                return Err(self.wrong(&entry.link, "entry.link", "each link once"));
            }
            let flow = *self.check(&entry.flow, "entry.flow", "0 veh/h or more", |&flow| {
                flow >= 0.0 && flow.is_finite()
            })?;
            read.push(Entry { link, flow: VehPerHour::new(flow) });
        }
        Ok(read)
    }

    fn shares(&self, turnings: &[FileTurning]) -> Result<Vec<f64>, DemandError> {
        let mut shares = equal_shares(self.network);
        for turning in turnings {
            let from = self.link(&turning.from, "turning.from")?;
            for &turn in self.network.outgoing(from) {
                shares[turn.index()] = 0.0;
            }
            let mut sum = 0.0;
            for (name, &share) in turning.to.get_ref() {
                let turn = self
                    .network
                    .link_named(name)
                    .and_then(|to| self.network.turn_between(from, to))
                    .ok_or_else(|| {
                        let expected = format!("links that `{}` leads to", turning.from.get_ref());
                        self.wrong_value(&turning.to, "turning.to", format!("`{name}`"), expected)
                    })?;
                if !(share >= 0.0 && share.is_finite()) {
                    let found = format!("{name} = {share}");
                    return Err(self.wrong_value(&turning.to, "turning.to", found, "0 or more"));
                }
                shares[turn.index()] = share;
                sum += share;
            }
            if (sum - 1.0_f64).abs() > SHARE_TOLERANCE {
                let found = format!("shares that sum to {sum:.3}");
                return Err(self.wrong_value(&turning.to, "turning.to", found, "a sum of 1"));
            }
            for &turn in self.network.outgoing(from) {
                shares[turn.index()] /= sum;
            }
        }
        Ok(shares)
    }

    fn peaks(&self, peaks: &FilePeaks) -> Result<Peaks, DemandError> {
        let period = self.positive(&peaks.period, "peaks.period", "more than 0 s")?;
        // Above 8/3 the rate between peaks would be negative.
        let height = *self.check(&peaks.height, "peaks.height", "0 to 8/3", |&height| {
            (0.0..=8.0 / 3.0).contains(&height)
        })?;
        Ok(Peaks { period: Seconds::new(period), height })
    }

    fn noise(&self, noise: &FileNoise) -> Result<Noise, DemandError> {
        let spread =
            *self.check(&noise.spread, "noise.spread", "0 to 1", |s| (0.0..=1.0).contains(s))?;
        let memory = self.positive(&noise.memory, "noise.memory", "more than 0 s")?;
        Ok(Noise { spread, memory: Seconds::new(memory) })
    }

    fn classes(
        &self,
        classes: &Spanned<BTreeMap<VehicleClass, f64>>,
    ) -> Result<Vec<(VehicleClass, f64)>, DemandError> {
        let shares = classes.get_ref();
        let sum: f64 = shares.values().sum();
        // Not a number is not within the tolerance either.
        let sums_to_one = (sum - 1.0).abs() <= SHARE_TOLERANCE;
        if !sums_to_one || shares.values().any(|&share| share < 0.0) {
            let found = format!("shares that sum to {sum:.3}");
            return Err(self.wrong_value(classes, "classes", found, "0 or more each, sum 1"));
        }
        let present = shares.iter().filter(|&(_, &share)| share > 0.0);
        Ok(present.map(|(&class, &share)| (class, share / sum)).collect())
    }

    fn blockages(&self, blockages: &FileBlockages) -> Result<Blockages, DemandError> {
        let mut places = Vec::new();
        for place in blockages.places.get_ref() {
            let id = self.link(&place.link, "blockages.places.link")?;
            let link = self.network.link(id);
            let lane = *self.check(
                &place.lane,
                "blockages.places.lane",
                &format!("a lane of `{}`, below {}", link.name, link.lanes),
                |&lane| lane < link.lanes,
            )?;
            let position = *self.check(
                &place.position,
                "blockages.places.position",
                &format!("more than {} (the junction) and at most {}", link.junction, link.length),
                |&position| position > link.junction.get() && position <= link.length.get(),
            )?;
            places.push(ParkingPosition { link: id, lane, position: Metres::new(position) });
        }
        if places.is_empty() {
            let found = "no places".to_owned();
            return Err(self.wrong_value(
                &blockages.places,
                "blockages.places",
                found,
                "at least one",
            ));
        }
        let per_hour = self.positive(&blockages.per_hour, "blockages.per_hour", "more than 0")?;
        let mean_duration =
            self.positive(&blockages.mean_duration, "blockages.mean_duration", "more than 0 s")?;
        Ok(Blockages { per_hour, mean_duration: Seconds::new(mean_duration), places })
    }

    fn link(&self, name: &Spanned<String>, field: &'static str) -> Result<LinkId, DemandError> {
        self.network
            .link_named(name.get_ref())
            .ok_or_else(|| self.wrong(name, field, "the name of a link of the network"))
    }

    fn positive(
        &self,
        value: &Spanned<f64>,
        field: &'static str,
        expected: &str,
    ) -> Result<f64, DemandError> {
        self.check(value, field, expected, |&value| value > 0.0 && value.is_finite()).copied()
    }

    fn check<'v, T: std::fmt::Debug>(
        &self,
        value: &'v Spanned<T>,
        field: &'static str,
        expected: &str,
        good: impl Fn(&T) -> bool,
    ) -> Result<&'v T, DemandError> {
        if good(value.get_ref()) {
            Ok(value.get_ref())
        } else {
            Err(self.wrong(value, field, expected))
        }
    }

    fn wrong<T: std::fmt::Debug>(
        &self,
        value: &Spanned<T>,
        field: &'static str,
        expected: &str,
    ) -> DemandError {
        self.wrong_value(value, field, format!("{:?}", value.get_ref()), expected)
    }

    fn wrong_value<T>(
        &self,
        value: &Spanned<T>,
        field: &'static str,
        found: String,
        expected: impl Into<String>,
    ) -> DemandError {
        let before = self.text.bytes().take(value.span().start);
        let line = 1 + before.filter(|&byte| byte == b'\n').count();
        DemandError::Value { line, field, found, expected: expected.into() }
    }
}
