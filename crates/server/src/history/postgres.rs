//! Estimates in PostgreSQL, in plain tables that others may query too.
//!
//! ```text
//! fedtse.about           one row: network, step length, guests
//! fedtse.estimate        step · made_s · latency_s · participants (jsonb)
//! fedtse.link_estimate   step · link · density, flow · the bounds of their intervals
//! ```
//!
//! `postgres://user@host/city#centre` puts them into the schema `centre` instead of `fedtse`. The connection is not
//! encrypted: a socket of the machine, or a tunnel.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::postgres::types::Json;
use ::postgres::{Client, Config, NoTls, Row};
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use super::{History, HistoryError, LinkStep, StepRange, StoredInfo, join_ranges};
use crate::estimate::{Estimate, LinkEstimate, LinkInterval, SeriesInfo};

type Result<T> = std::result::Result<T, HistoryError>;

const SCHEMA: &str = "fedtse";
/// Longer names are cut off by the server.
const MAX_NAME_LEN: usize = 63;
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a server may say nothing on a connection in use.
const SILENT: Duration = Duration::from_secs(10);
/// No statement takes longer, or the connection is given up.
const SETTINGS: &str = "SET statement_timeout = '20s'; SET lock_timeout = '10s'; SET synchronous_commit = on; \
                        SET extra_float_digits = 3";
/// Steps that are read at once, and their links.
const STEPS_AT_ONCE: usize = 64;
const ROWS_AT_ONCE: usize = 50_000;

/// See the module's text.
pub struct PostgresHistory {
    config: Config,
    schema: String,
    links: Vec<String>,
    /// One connection to write, one to read: neither waits for the other.
    writer: Mutex<Option<Client>>,
    reader: Mutex<Option<Client>>,
}

impl PostgresHistory {
    /// Opens a database, and creates its tables where there are none.
    pub fn open(url: &str, info: &SeriesInfo) -> Result<Self> {
        let store = Self::new(url)?.with_links(info);
        store.with(&store.writer, |client| {
            client.batch_execute(&store.sql(TABLES))?;
            let mut write = client.transaction()?;
            let found =
                write.query_opt(&store.sql("SELECT content FROM @about FOR UPDATE"), &[])?;
            if let Some(row) = found {
                StoredInfo::parse(row.try_get(0)?)?.check(&store.schema, info)?;
            }
            let text = serde_json::to_string(&StoredInfo::new(info))?;
            let insert = "INSERT INTO @about (only_row, content) VALUES (true, $1) \
                          ON CONFLICT (only_row) DO UPDATE SET content = excluded.content";
            write.execute(&store.sql(insert), &[&text])?;
            Ok(write.commit()?)
        })?;
        Ok(store)
    }

    /// Opens a database that a host fills.
    pub(crate) fn open_existing(url: &str) -> Result<(Self, SeriesInfo)> {
        let store = Self::new(url)?;
        let text: String = store.with(&store.reader, |client| {
            let row = client.query_one(&store.sql("SELECT content FROM @about"), &[])?;
            Ok(row.try_get(0)?)
        })?;
        let info = StoredInfo::parse(&text)?.info()?;
        Ok((store.with_links(&info), info))
    }

    fn new(url: &str) -> Result<Self> {
        let (url, schema) = url.split_once('#').unwrap_or((url, SCHEMA));
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=MAX_NAME_LEN).contains(&schema.len()) || !schema.bytes().all(plain) {
            return Err(HistoryError::Schema(schema.to_owned()));
        }
        let mut config: Config = url.parse().map_err(HistoryError::Url)?;
        config.connect_timeout(CONNECTING).application_name("fedtse");
        // A server that stops answering is given up, and connected to again.
        config.tcp_user_timeout(SILENT).keepalives_idle(SILENT);
        let (writer, reader) = Default::default();
        Ok(PostgresHistory { config, schema: schema.into(), links: Vec::new(), writer, reader })
    }

    fn with_links(mut self, info: &SeriesInfo) -> Self {
        self.links = info.network.links().iter().map(|link| link.name.clone()).collect();
        self
    }

    /// A statement with the tables' names.
    fn sql(&self, text: &str) -> String {
        text.replace('@', &format!("{}.", self.schema)).replace('%', &self.schema)
    }

    /// Runs a query over a connection, which is opened if there is none, and reopened after an error.
    fn with<T>(
        &self,
        connection: &Mutex<Option<Client>>,
        act: impl FnOnce(&mut Client) -> Result<T>,
    ) -> Result<T> {
        let mut held: MutexGuard<'_, _> = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match held.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect()?,
        };
        let done = act(&mut client)?;
        *held = Some(client);
        Ok(done)
    }

    fn connect(&self) -> Result<Client> {
        let mut client = self.config.connect(NoTls)?;
        client.batch_execute(SETTINGS)?;
        Ok(client)
    }

    /// Writes an estimate in the place of those from one step to another.
    fn write(&self, from: Step, to: Step, estimate: &Estimate) -> Result<()> {
        let links: Vec<LinkEstimate> = estimate.links().collect();
        if links.len() != self.links.len() {
            let text = format!("found {} links, expected {}", links.len(), self.links.len());
            return Err(HistoryError::Record(text));
        }
        let numbers: Vec<i32> = (0..links.len() as i32).collect();
        let density: Vec<f64> = links.iter().map(|link| link.state.density.get()).collect();
        let flow: Vec<f64> = links.iter().map(|link| link.state.flow.get()).collect();
        let bounds = |bound: fn(&LinkInterval) -> f64| -> Vec<Option<f64>> {
            links.iter().map(|link| link.interval.as_ref().map(bound)).collect()
        };
        let (density_low, density_high) = (bounds(|i| i.density[0]), bounds(|i| i.density[1]));
        let (flow_low, flow_high) = (bounds(|i| i.flow[0]), bounds(|i| i.flow[1]));
        self.with(&self.writer, |client| {
            let mut write = client.transaction()?;
            let delete = "DELETE FROM @estimate WHERE step BETWEEN $1 AND $2 OR step = $3";
            write.execute(&self.sql(delete), &[&from.0, &to.0, &estimate.step.0])?;
            let head = "INSERT INTO @estimate (step, made_s, latency_s, participants) VALUES ($1, $2, $3, $4)";
            let participants = Json(&estimate.participants);
            let step = estimate.step.0;
            write.execute(
                &self.sql(head),
                &[&step, &estimate.made_s, &estimate.latency_s, &participants],
            )?;
            let rows = "INSERT INTO @link_estimate (step, number, link, density, flow, density_low, density_high, flow_low, flow_high) \
                        SELECT $1, * FROM unnest($2::int[], $3::text[], $4::float8[], $5::float8[], $6::float8[], $7::float8[], $8::float8[], $9::float8[])";
            write.execute(
                &self.sql(rows),
                &[
                    &step,
                    &numbers,
                    &self.links,
                    &density,
                    &flow,
                    &density_low,
                    &density_high,
                    &flow_low,
                    &flow_high,
                ],
            )?;
            Ok(write.commit()?)
        })
    }

    /// All of some steps, in order.
    fn estimates(&self, from: Step, to: Step) -> Result<Vec<Estimate>> {
        let (heads, rows) = self.with(&self.reader, |client| {
            // Both of one moment, whatever is written meanwhile.
            let mut read = client
                .build_transaction()
                .isolation_level(::postgres::IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()?;
            let heads = "SELECT step, made_s, latency_s, participants FROM @estimate \
                         WHERE step BETWEEN $1 AND $2 ORDER BY step";
            let heads = read.query(&self.sql(heads), &[&from.0, &to.0])?;
            let rows = "SELECT density, flow, density_low, density_high, flow_low, flow_high \
                        FROM @link_estimate WHERE step BETWEEN $1 AND $2 ORDER BY step, number";
            let rows = read.query(&self.sql(rows), &[&from.0, &to.0])?;
            read.commit()?;
            Ok((heads, rows))
        })?;
        let links = self.links.len();
        if rows.len() != heads.len() * links {
            let (rows, steps) = (rows.len(), heads.len());
            let text = format!("found {rows} rows of {steps} steps, expected {links} each");
            return Err(HistoryError::Record(text));
        }
        let estimate = |(head, rows): (&Row, &[Row])| {
            let all: Vec<LinkEstimate> = rows.iter().map(link).collect::<Result<_>>()?;
            Ok(Estimate {
                step: Step(head.try_get(0)?),
                made_s: head.try_get(1)?,
                latency_s: head.try_get(2)?,
                participants: head.try_get::<_, Json<_>>(3)?.0,
                states: all.iter().map(|link| link.state).collect(),
                intervals: all.iter().map(|link| link.interval).collect(),
            })
        };
        heads.iter().zip(rows.chunks(links)).map(estimate).collect()
    }
}

const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS %;
    CREATE TABLE IF NOT EXISTS @about (
        only_row boolean PRIMARY KEY CHECK (only_row),
        content text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS @estimate (
        step bigint PRIMARY KEY,
        made_s double precision NOT NULL,
        latency_s double precision NOT NULL,
        participants jsonb NOT NULL
    );
    CREATE TABLE IF NOT EXISTS @link_estimate (
        step bigint NOT NULL REFERENCES @estimate (step) ON DELETE CASCADE,
        number integer NOT NULL,
        link text NOT NULL,
        density double precision NOT NULL,
        flow double precision NOT NULL,
        density_low double precision,
        density_high double precision,
        flow_low double precision,
        flow_high double precision,
        PRIMARY KEY (step, number)
    );
    CREATE INDEX IF NOT EXISTS link_estimate_by_link ON @link_estimate (number, step);
";

fn number_of(link: usize) -> Result<i32> {
    i32::try_from(link)
        .map_err(|_| HistoryError::Record(format!("found link {link}, expected fewer")))
}

fn link(row: &Row) -> Result<LinkEstimate> {
    let number = |column: usize| -> Result<f64> { Ok(row.try_get(column)?) };
    let state =
        LinkState { density: VehPerKmLane::new(number(0)?), flow: VehPerMinLane::new(number(1)?) };
    let low: Option<f64> = row.try_get(2)?;
    let interval = match low {
        Some(low) => {
            Some(LinkInterval { density: [low, number(3)?], flow: [number(4)?, number(5)?] })
        }
        None => None,
    };
    Ok(LinkEstimate { state, interval })
}

impl History for PostgresHistory {
    fn store(&self, estimate: &Estimate) -> Result<()> {
        self.write(estimate.step, estimate.step, estimate)
    }

    fn replace(&self, from: Step, to: Step, by: &Estimate) -> Result<()> {
        self.write(from, to, by)
    }

    fn ranges(&self) -> Result<Vec<StepRange>> {
        // A step minus its rank is constant within a range.
        let islands = "SELECT min(step), max(step) FROM \
                       (SELECT step, step - row_number() OVER (ORDER BY step) AS island FROM @estimate) AS numbered \
                       GROUP BY island ORDER BY 1";
        let rows = self.with(&self.reader, |client| Ok(client.query(&self.sql(islands), &[])?))?;
        let range = |row: &Row| {
            Ok(StepRange { first: Step(row.try_get(0)?), last: Step(row.try_get(1)?), every: 1 })
        };
        Ok(join_ranges(rows.iter().map(range).collect::<Result<Vec<_>>>()?))
    }

    fn get(&self, step: Step) -> Result<Option<Estimate>> {
        Ok(self.estimates(step, step)?.pop())
    }

    fn for_each(
        &self,
        from: Step,
        to: Step,
        visit: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<()> {
        let at_once = (ROWS_AT_ONCE / self.links.len().max(1)).clamp(1, STEPS_AT_ONCE) as i64;
        for range in self.ranges()? {
            let last = range.last.0.min(to.0);
            let mut first = range.first.0.max(from.0);
            while first <= last {
                let next = last.min(first + at_once - 1);
                if !self.estimates(Step(first), Step(next))?.into_iter().all(&mut *visit) {
                    return Ok(());
                }
                first = next + 1;
            }
        }
        Ok(())
    }

    fn link_series(&self, link: usize, from: Step, to: Step) -> Result<Vec<LinkStep>> {
        let query = "SELECT density, flow, density_low, density_high, flow_low, flow_high, step, participants \
                     FROM @link_estimate JOIN @estimate USING (step) \
                     WHERE number = $1 AND step BETWEEN $2 AND $3 ORDER BY step";
        let number = number_of(link)?;
        let rows = self.with(&self.reader, |client| {
            Ok(client.query(&self.sql(query), &[&number, &from.0, &to.0])?)
        })?;
        let step = |row: &Row| {
            Ok(LinkStep {
                step: Step(row.try_get(6)?),
                link: self::link(row)?,
                participants: row.try_get::<_, Json<_>>(7)?.0,
            })
        };
        rows.iter().map(step).collect()
    }

    fn route_series(
        &self,
        links: &[usize],
        from: Step,
        to: Step,
    ) -> Result<Vec<(Step, Vec<LinkEstimate>)>> {
        // A route may pass a link twice.
        let mut numbers = links.iter().map(|&link| number_of(link)).collect::<Result<Vec<_>>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        let query = "SELECT density, flow, density_low, density_high, flow_low, flow_high, step \
                     FROM @link_estimate WHERE number = ANY($1) AND step BETWEEN $2 AND $3 \
                     ORDER BY step, number";
        let rows = self.with(&self.reader, |client| {
            Ok(client.query(&self.sql(query), &[&numbers, &from.0, &to.0])?)
        })?;
        let of_step = |rows: &[Row]| -> Result<(Step, Vec<LinkEstimate>)> {
            let first = rows.first().ok_or_else(|| HistoryError::Record("found no rows".into()))?;
            let all = rows.iter().map(link).collect::<Result<Vec<_>>>()?;
            let placed = links.iter().map(|&link| {
                let place = numbers.binary_search(&number_of(link)?).ok();
                let found = place.and_then(|place| all.get(place)).copied();
                found.ok_or_else(|| HistoryError::Record(format!("found no link {link}")))
            });
            Ok((Step(first.try_get(6)?), placed.collect::<Result<_>>()?))
        };
        rows.chunks(numbers.len().max(1)).map(of_step).collect()
    }

    fn delete_before(&self, step: Step) -> Result<u64> {
        self.with(&self.writer, |client| {
            Ok(client.execute(&self.sql("DELETE FROM @estimate WHERE step < $1"), &[&step.0])?)
        })
    }
}
