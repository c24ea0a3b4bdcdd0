//! Questions about the stored past, and their answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use traffic::Step;

use super::feed;
use super::history::{History, LinkMoment, Stretch};
use super::query::Query;
use super::record::{About, Record, speed_km_h, units};
use super::site::{Problem, missing};

/// How old an answer about all that is stored may be.
const FRESH: Duration = Duration::from_secs(1);
/// Times further from 1970, in seconds, are none: thirty million years.
const MOST_TIME_S: f64 = 1e15;
/// Steps of one link in an answer.
const MOST_STEPS: i64 = 20_000;
const HOUR_S: f64 = 3600.0;

/// The stored past.
pub struct Past {
    history: Arc<dyn History>,
    about: Arc<About>,
    keep_s: Option<f64>,
    stretches: Mutex<Option<(Instant, Vec<Stretch>)>>,
}

impl Past {
    pub fn new(history: Arc<dyn History>, about: Arc<About>, keep_s: Option<f64>) -> Self {
        Past { history, about, keep_s, stretches: Mutex::default() }
    }

    pub fn at(&self, step: Step) -> Result<Option<Record>> {
        self.history.at(step)
    }

    pub fn each(&self, from: Step, to: Step, visit: &mut dyn FnMut(Record) -> bool) -> Result<()> {
        self.history.each(from, to, visit)
    }

    pub fn document(&self, record: &Record) -> String {
        feed::past(&self.about, record)
    }

    /// What is stored, at most a second ago.
    pub fn stretches(&self) -> Result<Vec<Stretch>> {
        let mut held = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = held.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(found.clone());
        }
        let found = self.history.stretches()?;
        *held = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    /// All that is stored.
    pub fn overview(&self) -> Result<String> {
        let stretches = self.stretches()?;
        let steps: i64 = stretches.iter().map(|found| found.last.0 - found.first.0 + 1).sum();
        let overview = json!({
            "step_s": self.about.step_s,
            "keep_s": self.keep_s,
            "steps": steps,
            "stretches": stretches,
        });
        Ok(overview.to_string())
    }

    /// The steps that a query names by `from_s` and `to_s`: those that end after the one and begin before the
    /// other. Without them, the last so many seconds that are stored.
    pub fn span(&self, query: &Query, default_s: f64) -> Result<(Step, Step), Problem> {
        let number = |name| {
            let refused = |text| Problem::new(StatusCode::BAD_REQUEST, text);
            let found = query.number(name).map_err(refused)?;
            match found.filter(|found| found.abs() > MOST_TIME_S) {
                Some(far) => {
                    Err(refused(format!("{name}: found {far:e}, expected seconds since 1970")))
                }
                None => Ok(found),
            }
        };
        let step_s = self.about.step_s;
        let newest = self.stretches()?.last().map(|stretch| stretch.last.0);
        let (from_s, to_s) = (number("from_s")?, number("to_s")?);
        if from_s.zip(to_s).is_some_and(|(from_s, to_s)| from_s > to_s) {
            let text = "from_s: found a time after to_s, expected one before";
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        }
        let to = match to_s {
            Some(to_s) => (to_s / step_s).ceil() as i64 - 1,
            None => newest.ok_or_else(|| missing("nothing is stored yet"))?,
        };
        let from = match from_s {
            Some(from_s) => (from_s / step_s).floor() as i64,
            None => to.saturating_sub((default_s / step_s) as i64 - 1),
        };
        Ok((Step(from), Step(to.max(from))))
    }

    /// One link's last hour, or what the query names.
    pub fn link(&self, name: &str, query: &Query) -> Result<String, Problem> {
        let unknown = || missing(format!("link {name:?}: not found"));
        let link = self.about.network.link_named(name).ok_or_else(unknown)?;
        let (from, to) = self.span(query, HOUR_S)?;
        if to.0.saturating_sub(from.0) >= MOST_STEPS {
            let text = format!("found more than {MOST_STEPS} steps, expected fewer");
            return Err(Problem::new(StatusCode::BAD_REQUEST, text));
        }
        let moments = self.history.link(link.index(), from, to)?;
        let moments: Vec<Value> = moments.iter().map(|moment| self.moment(moment)).collect();
        let document = json!({
            "link": name,
            "step_s": self.about.step_s,
            "interval_percent": self.about.interval,
            "units": units(),
            "moments": moments,
        });
        Ok(document.to_string())
    }

    fn moment(&self, moment: &LinkMoment) -> Value {
        let state = moment.link.state;
        let mut fields = Map::from_iter([
            ("step".to_owned(), json!(moment.step)),
            ("end_s".to_owned(), json!((moment.step.0 + 1) as f64 * self.about.step_s)),
            ("density".to_owned(), json!(state.density.get())),
            ("flow".to_owned(), json!(state.flow.get())),
            ("speed".to_owned(), json!(speed_km_h(state))),
            ("participants".to_owned(), json!(moment.participants)),
        ]);
        if let Some(interval) = moment.link.interval {
            fields.insert("density_interval".into(), json!(interval.density));
            fields.insert("flow_interval".into(), json!(interval.flow));
        }
        Value::Object(fields)
    }

    /// Forgets all before the time in `before_s`.
    pub fn forget(&self, query: &Query) -> Result<String, Problem> {
        let wrong = |text: String| Problem::new(StatusCode::BAD_REQUEST, text);
        let before = query.number("before_s").map_err(wrong)?;
        let before = before.ok_or_else(|| wrong("before_s: not found, expected a time".into()))?;
        let step = Step((before / self.about.step_s).floor() as i64);
        let forgotten = self.history.forget(step)?;
        *self.stretches.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tracing::info!(before = step.0, forgotten, "the past was cut by someone with the token");
        Ok(json!({"forgotten_steps": forgotten}).to_string())
    }
}
