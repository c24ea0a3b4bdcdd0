//! Alarms: links beyond a threshold, and guests that are silent.
//!
//! A rule is a line of text, `density > 70 for 3 steps on E1, E2`. An alarm of a link is raised when its rule has held for so
//! many estimates in a row, and cleared when it has not for as many. What changes with an estimate is one event: for pages as
//! server-sent events, and as JSON to a webhook.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::broadcast;
use traffic::Network;
use utoipa::ToSchema;

use crate::estimate::{Estimate, LinkEstimate, Participation, SeriesInfo};
use crate::feed::Event;
use crate::webhook::{Webhook, WebhookError};

const MAX_RULES: usize = 32;
/// Estimates in a row.
const MAX_STEPS: u32 = 10_000;
/// Alarms that one event or document lists; their number is told as well.
const MAX_LISTED: usize = 200;
/// A guest that is not connected, or silent, for so many estimates in a row is told.
const SILENT_STEPS: u32 = 3;
/// Events that a slow reader may be behind.
const RING: usize = 16;

/// What is wrong with alarms.
#[derive(Debug, Error)]
pub enum AlarmError {
    /// A rule cannot be read.
    #[error(
        "alarms.rules: found {0:?}, expected QUANTITY > NUMBER or QUANTITY < NUMBER, then perhaps `for N steps` and `on LINK, LINK`; a quantity is density, flow or speed"
    )]
    Rule(String),
    /// A rule's link is not in the network.
    #[error("alarms.rules: {rule:?}: found link {link:?}, which is not in the network")]
    Link {
        /// The rule.
        rule: String,
        /// The link.
        link: String,
    },
    /// Too many rules.
    #[error("alarms.rules: found {0} rules, expected at most {MAX_RULES}")]
    Rules(usize),
    /// Where alarms are posted.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

/// Thresholds and where alarms are posted: `[alarms]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlarmsSection {
    /// Rules, as `density > 70 for 3 steps on E1, E2`.
    pub rules: Vec<String>,
    /// `http://HOST:PORT/PATH` that gets each event.
    pub webhook: Option<String>,
}

impl AlarmsSection {
    /// Checks everything that does not need the network to be live.
    pub fn check(&self, network: &Network) -> Result<(), AlarmError> {
        self.watched(network)?;
        if let Some(url) = &self.webhook {
            Webhook::check(url)?;
        }
        Ok(())
    }

    fn watched(&self, network: &Network) -> Result<Vec<Watched>, AlarmError> {
        if self.rules.len() > MAX_RULES {
            return Err(AlarmError::Rules(self.rules.len()));
        }
        let watch = |text: &String| -> Result<Watched, AlarmError> {
            let rule: Rule = text.parse()?;
            let named = |link: &String| {
                let unknown = || AlarmError::Link { rule: rule.text.clone(), link: link.clone() };
                Ok(network.link_named(link).ok_or_else(unknown)?.index())
            };
            let links: Vec<usize> = match rule.links.is_empty() {
                true => (0..network.links().len()).collect(),
                false => rule.links.iter().map(named).collect::<Result<_, AlarmError>>()?,
            };
            let links = links.into_iter().map(|link| (link, LinkAlarm::default())).collect();
            Ok(Watched { rule, links })
        };
        self.rules.iter().map(watch).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Density,
    Flow,
    Speed,
}

impl Quantity {
    fn of(self, link: &LinkEstimate) -> Option<f64> {
        match self {
            Quantity::Density => Some(link.state.density.get()),
            Quantity::Flow => Some(link.state.flow.get()),
            Quantity::Speed => link.speed_km_h(),
        }
    }
}

/// A threshold.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    text: String,
    quantity: Quantity,
    above: bool,
    threshold: f64,
    /// Estimates in a row.
    steps: u32,
    /// All if there are none.
    links: Vec<String>,
}

impl FromStr for Rule {
    type Err = AlarmError;

    fn from_str(text: &str) -> Result<Self, AlarmError> {
        let wrong = || AlarmError::Rule(text.to_owned());
        let (rest, links) = match text.split_once(" on ") {
            Some((rest, links)) => {
                (rest, links.split(',').map(|link| link.trim().to_owned()).collect())
            }
            None => (text, Vec::new()),
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (quantity, sign, number, steps) = match words[..] {
            [quantity, sign, number] => (quantity, sign, number, "1"),
            [quantity, sign, number, "for", steps, "steps" | "step"] => {
                (quantity, sign, number, steps)
            }
            _ => return Err(wrong()),
        };
        let quantity = match quantity {
            "density" => Quantity::Density,
            "flow" => Quantity::Flow,
            "speed" => Quantity::Speed,
            _ => return Err(wrong()),
        };
        let above = match sign {
            ">" => true,
            "<" => false,
            _ => return Err(wrong()),
        };
        let threshold: f64 = number.parse().map_err(|_| wrong())?;
        let steps: u32 = steps.parse().map_err(|_| wrong())?;
        if !threshold.is_finite()
            || !(1..=MAX_STEPS).contains(&steps)
            || links.iter().any(String::is_empty)
        {
            return Err(wrong());
        }
        Ok(Rule { text: text.trim().to_owned(), quantity, above, threshold, steps, links })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A rule and the links that it is about.
struct Watched {
    rule: Rule,
    /// Of each link its number, and how it stands.
    links: Vec<(usize, LinkAlarm)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LinkAlarm {
    /// When it was raised.
    since_s: Option<f64>,
    value: Option<f64>,
    /// Estimates in a row that say otherwise.
    contrary: u32,
}

/// Watches estimates.
pub(crate) struct Alarms {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
    webhook: Option<Webhook>,
}

#[derive(Default)]
struct State {
    watched: Vec<Watched>,
    /// Of each guest: estimates in a row without a sign of it.
    absent: BTreeMap<String, u32>,
}

impl Default for Alarms {
    fn default() -> Self {
        Alarms { state: Mutex::default(), events: broadcast::channel(RING).0, webhook: None }
    }
}

impl Alarms {
    /// Checks the rules against the network, and begins to post to the webhook.
    pub(crate) fn new(section: &AlarmsSection, info: &SeriesInfo) -> Result<Self, AlarmError> {
        let state = State { watched: section.watched(&info.network)?, absent: BTreeMap::new() };
        let webhook = section.webhook.as_deref().map(Webhook::start).transpose()?;
        Ok(Alarms { state: Mutex::new(state), webhook, ..Alarms::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares an estimate with the thresholds, and tells what has changed.
    pub(crate) fn observe(&self, info: &SeriesInfo, estimate: &Estimate) {
        let document = self.state().observe(info, estimate);
        if document.is_empty() {
            return;
        }
        // Cannot fail: the document has no maps with keys other than strings.
        let text = serde_json::to_string(&document).unwrap_or_default();
        let event = format!("id: {}\nevent: alarm\ndata: {text}\n\n", estimate.step.0);
        if let Some(webhook) = &self.webhook {
            webhook.post(text);
        }
        // There may be no subscribers.
        let _ = self.events.send(Event { step: estimate.step, bytes: event.into() });
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// How many alarms there are.
    pub(crate) fn active(&self) -> usize {
        let raised = |watched: &Watched| {
            watched.links.iter().filter(|(_, alarm)| alarm.since_s.is_some()).count()
        };
        self.state().watched.iter().map(raised).sum()
    }

    /// How things stand.
    pub(crate) fn document(&self, info: &SeriesInfo) -> AlarmsDocument {
        let state = self.state();
        let active = state.watched.iter().flat_map(|watched| {
            watched.links.iter().filter_map(|(link, alarm)| {
                let since_s = alarm.since_s?;
                Some(ActiveAlarm { since_s, ..watched.alarm(info, *link, alarm) })
            })
        });
        let mut active: Vec<ActiveAlarm> = active.collect();
        let active_count = active.len();
        active.sort_by(|one, other| other.since_s.total_cmp(&one.since_s));
        active.truncate(MAX_LISTED);
        AlarmsDocument {
            rules: state.watched.iter().map(|watched| watched.rule.to_string()).collect(),
            active,
            active_count,
            silent: state.silent().map(str::to_owned).collect(),
        }
    }
}

impl Watched {
    fn alarm(&self, info: &SeriesInfo, link: usize, alarm: &LinkAlarm) -> ActiveAlarm {
        let name = info.network.links().get(link).map(|link| link.name.clone());
        ActiveAlarm {
            rule: self.rule.to_string(),
            link: name.unwrap_or_default(),
            value: alarm.value,
            since_s: alarm.since_s.unwrap_or_default(),
        }
    }
}

impl State {
    fn silent(&self) -> impl Iterator<Item = &str> {
        let silent = self.absent.iter().filter(|(_, steps)| **steps >= SILENT_STEPS);
        silent.map(|(guest, _)| guest.as_str())
    }

    fn observe(&mut self, info: &SeriesInfo, estimate: &Estimate) -> AlarmEvent {
        let step = estimate.step;
        let end_s = (step.0 + 1) as f64 * info.step_s;
        let states: Vec<LinkEstimate> = match self.watched.is_empty() {
            true => Vec::new(),
            false => estimate.links().collect(),
        };
        let (mut raised, mut cleared) = (Vec::new(), Vec::new());
        for watched in &mut self.watched {
            let mut changed = Vec::new();
            let Watched { rule, links } = &mut *watched;
            for (place, (link, alarm)) in links.iter_mut().enumerate() {
                let Some(state) = states.get(*link) else { continue };
                alarm.value = rule.quantity.of(state);
                let holds = alarm.value.is_some_and(|value| match rule.above {
                    true => value > rule.threshold,
                    false => value < rule.threshold,
                });
                if holds == alarm.since_s.is_some() {
                    alarm.contrary = 0;
                    continue;
                }
                alarm.contrary += 1;
                if alarm.contrary >= rule.steps {
                    alarm.contrary = 0;
                    let since_s = if holds { None } else { alarm.since_s };
                    alarm.since_s = holds.then_some(end_s);
                    changed.push((place, since_s));
                }
            }
            for (place, before) in changed {
                let Some((link, alarm)) = watched.links.get(place) else { continue };
                let told = watched.alarm(info, *link, alarm);
                match before {
                    None => raised.push(told),
                    Some(since_s) => cleared.push(ActiveAlarm { since_s, ..told }),
                }
            }
        }
        let before: BTreeSet<String> = self.silent().map(str::to_owned).collect();
        for (guest, how) in &estimate.participants {
            let steps = self.absent.entry(guest.clone()).or_default();
            *steps = if *how == Participation::Absent { steps.saturating_add(1) } else { 0 };
        }
        let now: BTreeSet<String> = self.silent().map(str::to_owned).collect();
        let (raised_count, cleared_count) = (raised.len(), cleared.len());
        raised.truncate(MAX_LISTED);
        cleared.truncate(MAX_LISTED);
        AlarmEvent {
            step: step.0,
            end_s,
            raised,
            raised_count,
            cleared,
            cleared_count,
            silent: now.difference(&before).cloned().collect(),
            back: before.difference(&now).cloned().collect(),
        }
    }
}

/// Alarms as they stand.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Alarms)]
pub(crate) struct AlarmsDocument {
    rules: Vec<String>,
    /// The newest first; 200 at most.
    active: Vec<ActiveAlarm>,
    active_count: usize,
    /// Guests without a sign of life in three estimates or more.
    silent: Vec<String>,
}

/// A link that is beyond a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Alarm)]
pub(crate) struct ActiveAlarm {
    rule: String,
    link: String,
    /// Of the newest estimate; null for a speed where there are no vehicles.
    #[schema(required)]
    value: Option<f64>,
    /// End of the step with which it was raised.
    since_s: f64,
}

/// What has changed with an estimate.
#[derive(Debug, PartialEq, Serialize)]
struct AlarmEvent {
    step: i64,
    end_s: f64,
    raised: Vec<ActiveAlarm>,
    raised_count: usize,
    cleared: Vec<ActiveAlarm>,
    cleared_count: usize,
    silent: Vec<String>,
    back: Vec<String>,
}

impl AlarmEvent {
    fn is_empty(&self) -> bool {
        self.raised_count + self.cleared_count + self.silent.len() + self.back.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane, network_hash};

    use super::*;
    use crate::estimate::Target;

    fn info() -> SeriesInfo {
        let network = traffic::corridor().unwrap();
        SeriesInfo {
            network_hash: network_hash(&network),
            network: Arc::new(network),
            step_s: 10.0,
            target: Target::Raw,
            guests: vec!["a".into(), "b".into()],
            interval: None,
        }
    }

    /// The first link has a density, all others none; guest b takes part or not.
    fn estimate(info: &SeriesInfo, step: i64, density: f64, b: Participation) -> Estimate {
        let state = |density| LinkState {
            density: VehPerKmLane::new(density),
            flow: VehPerMinLane::new(5.0 * f64::from(u8::from(density > 0.0))),
        };
        let mut states = vec![state(0.0); info.network.links().len()];
        states[0] = state(density);
        let participants = [("a".to_owned(), Participation::In), ("b".to_owned(), b)];
        Estimate {
            step: Step(step),
            made_s: 0.0,
            latency_s: 0.0,
            participants: participants.into(),
            states,
            intervals: None,
        }
    }

    fn alarms(info: &SeriesInfo, rules: &[&str]) -> Result<Alarms, AlarmError> {
        let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
        Alarms::new(&AlarmsSection { rules, webhook: None }, info)
    }

    #[test]
    fn rules_are_read_whole_or_refused() {
        let rule: Rule = "speed < 12.5 for 3 steps on E1, west 2/3".parse().unwrap();
        assert_eq!((rule.quantity, rule.above, rule.threshold), (Quantity::Speed, false, 12.5));
        assert_eq!((rule.steps, rule.links), (3, vec!["E1".to_owned(), "west 2/3".to_owned()]));
        let rule: Rule = "density > 70".parse().unwrap();
        assert_eq!((rule.steps, rule.links.len()), (1, 0));
        for text in [
            "",
            "density",
            "density 70",
            "density >= 70",
            "queue > 3",
            "flow > x",
            "flow > NaN",
            "flow > 1 for 0 steps",
            "flow > 1 for 3",
            "flow > 1 for 10001 steps",
            "flow > 1 on ",
            "flow > 1 on E1,,E2",
            "flow > 1 2",
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("alarms.rules: found {text:?}")), "{error}");
        }
        let info = info();
        let error = alarms(&info, &["flow > 1 on nowhere"]).err().unwrap().to_string();
        assert!(error.contains("found link \"nowhere\", which is not in the network"), "{error}");
        assert!(alarms(&info, &["flow > 1"; 33]).is_err());
    }

    #[test]
    fn an_alarm_is_raised_and_cleared_after_so_many_estimates_in_a_row() {
        let info = info();
        let alarms = alarms(&info, &["density > 70 for 2 steps"]).unwrap();
        let mut events = Vec::new();
        for (step, density) in
            [80.0, 60.0, 80.0, 70.5, 60.0, 80.0, 10.0, 20.0].into_iter().enumerate()
        {
            let estimate = estimate(&info, step as i64, density, Participation::In);
            events.push(alarms.state().observe(&info, &estimate));
        }
        // Two in a row at steps 2 and 3; one below, at step 4, does not clear it; two do.
        let changes: Vec<(usize, usize)> =
            events.iter().map(|event| (event.raised_count, event.cleared_count)).collect();
        let none = (0, 0);
        assert_eq!(changes, [none, none, none, (1, 0), none, none, none, (0, 1)]);
        let raised = &events[3].raised[0];
        assert_eq!((raised.link.as_str(), raised.value, raised.since_s), ("E1", Some(70.5), 40.0));
        // Cleared is the same alarm, with when it began and how it is now.
        let cleared = &events[7].cleared[0];
        assert_eq!((cleared.value, cleared.since_s), (Some(20.0), 40.0));
        assert_eq!(alarms.document(&info).active_count, 0);
    }

    #[test]
    fn a_link_without_vehicles_has_no_speed_and_is_not_slow() {
        let info = info();
        let alarms = alarms(&info, &["speed < 30"]).unwrap();
        // 5 veh/min at 20 veh/km are 15 km/h; all other links are empty.
        let event = alarms.state().observe(&info, &estimate(&info, 0, 20.0, Participation::In));
        assert_eq!((event.raised_count, event.raised[0].link.as_str()), (1, "E1"));
        let active = alarms.document(&info).active;
        assert!(active[0].value.is_some_and(|speed| (speed - 15.0).abs() < 1e-9));
    }

    #[test]
    fn a_guest_is_silent_after_three_estimates_without_it_and_back_with_the_first() {
        let info = info();
        let alarms = alarms(&info, &[]).unwrap();
        let mut told = Vec::new();
        let how = [Participation::Absent, Participation::Late, Participation::Absent];
        let how = how.into_iter().chain([Participation::Absent; 3]).chain([Participation::In]);
        for (step, how) in how.enumerate() {
            let estimate = estimate(&info, step as i64, 0.0, how);
            let event = alarms.state().observe(&info, &estimate);
            told.push((event.silent.len(), event.back.len()));
        }
        assert_eq!(told, [(0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (0, 0), (0, 1)]);
    }

    #[test]
    fn an_event_lists_only_so_many_and_tells_how_many_there_are() {
        let info = info();
        let rules = ["flow < 100"; 32];
        let alarms = alarms(&info, &rules).unwrap();
        let event = alarms.state().observe(&info, &estimate(&info, 0, 0.0, Participation::In));
        let all = 32 * info.network.links().len();
        assert_eq!((event.raised.len(), event.raised_count), (MAX_LISTED, all));
        let document = alarms.document(&info);
        assert_eq!((document.active.len(), document.active_count), (MAX_LISTED, all));
    }
}
