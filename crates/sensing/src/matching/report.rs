//! How much was matched, and why the rest was not.

use std::fmt;
use std::ops::AddAssign;

use serde::Serialize;
use traffic::{Metres, Seconds};

/// Why a piece of a track has no position on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmatched {
    /// No link lies within the radius.
    NoLinkNearby,
    /// No record for too long, or time does not advance.
    TimeGap,
    /// A jump faster than any vehicle.
    Jump,
    /// Links lie near, but no way leads from one to the next as the vehicle went.
    NoRoute,
    /// It went against the direction of the links near it.
    AgainstDirection,
    /// It hardly moved for a long time: parked.
    Standing,
    /// Too little of it is there to tell.
    TooShort,
}

impl Unmatched {
    /// All reasons, in the order of reports.
    pub(crate) const ALL: [Self; 7] = [
        Self::NoLinkNearby,
        Self::TimeGap,
        Self::Jump,
        Self::NoRoute,
        Self::AgainstDirection,
        Self::Standing,
        Self::TooShort,
    ];

    fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoLinkNearby => "no link nearby",
            Self::TimeGap => "gap in time",
            Self::Jump => "jump",
            Self::NoRoute => "no route",
            Self::AgainstDirection => "against the direction",
            Self::Standing => "standing",
            Self::TooShort => "too short",
        })
    }
}

/// How far and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Extent {
    /// Metres, along the places that were decided upon: noise while standing does not count.
    pub metres: Metres,
    /// Seconds from first to last.
    pub seconds: Seconds,
}

impl AddAssign for Extent {
    fn add_assign(&mut self, other: Self) {
        self.metres += other.metres;
        self.seconds += other.seconds;
    }
}

/// What became of one track.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrackReport {
    /// Points that came in.
    pub points: usize,
    /// Points that went out as samples.
    pub matched_points: usize,
    /// What has positions on links.
    pub matched: Extent,
    unmatched: [Option<Extent>; 7],
}

impl TrackReport {
    /// How much is missing for a reason; `None` if nothing is.
    pub(crate) fn unmatched(&self, why: Unmatched) -> Option<Extent> {
        self.unmatched[why.index()]
    }

    /// All of the track.
    pub(crate) fn total(&self) -> Extent {
        let mut total = self.matched;
        self.unmatched.iter().flatten().for_each(|&extent| total += extent);
        total
    }

    pub(super) fn add(&mut self, why: Option<Unmatched>, extent: Extent) {
        match why {
            None => self.matched += extent,
            Some(why) => *self.unmatched[why.index()].get_or_insert_default() += extent,
        }
    }
}

/// What became of all tracks of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MatchReport {
    /// Tracks that came in.
    pub tracks: usize,
    /// Tracks matched from end to end.
    pub whole_tracks: usize,
    /// Tracks of which some part was matched.
    pub partly_tracks: usize,
    /// Points that came in.
    pub points: usize,
    /// Points that went out as samples.
    pub matched_points: usize,
    /// All of the tracks.
    pub total: Extent,
    /// What has positions on links.
    pub matched: Extent,
    /// The rest, by reason; reasons that did not occur are left out.
    pub unmatched: Vec<UnmatchedTotal>,
}

/// What is missing for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnmatchedTotal {
    /// The reason.
    pub why: Unmatched,
    /// Tracks in which it occurs.
    pub tracks: usize,
    /// How much they lack.
    #[serde(flatten)]
    pub extent: Extent,
}

impl MatchReport {
    /// Adds a track.
    pub fn add(&mut self, track: &TrackReport) {
        self.tracks += 1;
        self.points += track.points;
        self.matched_points += track.matched_points;
        self.total += track.total();
        self.matched += track.matched;
        if track.matched_points > 0 {
            let whole =
                track.matched_points == track.points && track.unmatched.iter().all(Option::is_none);
            *(if whole { &mut self.whole_tracks } else { &mut self.partly_tracks }) += 1;
        }
        for why in Unmatched::ALL {
            let Some(extent) = track.unmatched(why) else { continue };
            self.add_unmatched(UnmatchedTotal { why, tracks: 1, extent });
        }
    }

    fn add_unmatched(&mut self, missing: UnmatchedTotal) {
        match self.unmatched.binary_search_by_key(&missing.why.index(), |known| known.why.index()) {
            Ok(at) => {
                self.unmatched[at].tracks += missing.tracks;
                self.unmatched[at].extent += missing.extent;
            }
            Err(at) => self.unmatched.insert(at, missing),
        }
    }
}

impl fmt::Display for MatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 0.0 };
        let row = |f: &mut fmt::Formatter<'_>, title: &str, tracks: usize, extent: Extent| {
            writeln!(
                f,
                "{title:<24}{tracks:>9}{:>12.1} km{:>7.1} %{:>10.1} min",
                extent.metres.get() / 1000.0,
                share(extent.metres.get(), self.total.metres.get()),
                extent.seconds.get() / 60.0,
            )
        };
        row(f, "tracks", self.tracks, self.total)?;
        row(f, "matched", self.whole_tracks + self.partly_tracks, self.matched)?;
        for missing in &self.unmatched {
            row(f, &format!("  {}", missing.why), missing.tracks, missing.extent)?;
        }
        Ok(())
    }
}
