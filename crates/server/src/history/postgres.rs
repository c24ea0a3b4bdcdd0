//! The past in PostgreSQL, in plain tables that others may query too.
//!
//! ```text
//! fedtse.about           one row: what the past is of
//! fedtse.estimate        step · made_s · latency_s · participants (jsonb)
//! fedtse.link_estimate   step · link · density, flow · the borders of their intervals
//! ```
//!
//! `postgres://user@host/city#centre` puts them into the schema `centre` instead of `fedtse`. The connection is not
//! encrypted: a socket of the machine, or a tunnel.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::postgres::types::Json;
use ::postgres::{Client, Config, NoTls, Row};
use anyhow::{Context, Result, ensure};
use estimator::LinkInterval;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use super::{AboutFile, History, LinkMoment, Stretch};
use crate::serve::record::{About, LinkRecord, Record};

const SCHEMA: &str = "fedtse";
/// Longer names are cut off by the server.
const MOST_NAME: usize = 63;
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a server may say nothing on a connection in use.
const SILENT: Duration = Duration::from_secs(10);
/// No statement takes longer, or the connection is given up.
const SETTINGS: &str = "SET statement_timeout = '20s'; SET lock_timeout = '10s'; SET synchronous_commit = on; \
                        SET extra_float_digits = 3";
/// Steps that are read at once.
const STEPS_AT_ONCE: i64 = 64;

/// See the module's text.
pub struct Postgres {
    config: Config,
    schema: String,
    links: Vec<String>,
    /// One connection to write, one to read: neither waits for the other.
    writer: Mutex<Option<Client>>,
    reader: Mutex<Option<Client>>,
}

impl Postgres {
    /// Opens a database, and makes its tables where there are none.
    pub fn open(url: &str, about: &About) -> Result<Self> {
        let store = Self::new(url)?.with_links(about);
        store.with(&store.writer, |client| {
            client.batch_execute(&store.sql(TABLES))?;
            let mut write = client.transaction()?;
            let found =
                write.query_opt(&store.sql("SELECT content FROM @about FOR UPDATE"), &[])?;
            if let Some(row) = found {
                AboutFile::parse(row.try_get(0)?)?.check(about)?;
            }
            let text = serde_json::to_string(&AboutFile::of(about))?;
            let insert = "INSERT INTO @about (only_row, content) VALUES (true, $1) \
                          ON CONFLICT (only_row) DO UPDATE SET content = excluded.content";
            write.execute(&store.sql(insert), &[&text])?;
            Ok(write.commit()?)
        })?;
        Ok(store)
    }

    /// Opens a database that a host fills.
    pub fn open_alone(url: &str) -> Result<(Self, About)> {
        let store = Self::new(url)?;
        let text: String = store.with(&store.reader, |client| {
            let row = client.query_one(&store.sql("SELECT content FROM @about"), &[])?;
            Ok(row.try_get(0)?)
        })?;
        let about = AboutFile::parse(&text)?.about()?;
        Ok((store.with_links(&about), about))
    }

    fn new(url: &str) -> Result<Self> {
        let (url, schema) = url.split_once('#').unwrap_or((url, SCHEMA));
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        ensure!(
            (1..=MOST_NAME).contains(&schema.len()) && schema.bytes().all(plain),
            "history: schema: found {schema:?}, expected a to z, 0 to 9 and _"
        );
        // Says nothing of the URL itself, which may hold a password.
        let mut config: Config =
            url.parse().context("history: expected postgres://USER@HOST/DATABASE")?;
        config.connect_timeout(CONNECTING).application_name("fedtse");
        // A server that is gone without a word is given up, and asked anew.
        config.tcp_user_timeout(SILENT).keepalives_idle(SILENT);
        let (writer, reader) = Default::default();
        Ok(Postgres { config, schema: schema.into(), links: Vec::new(), writer, reader })
    }

    fn with_links(mut self, about: &About) -> Self {
        self.links = about.network.links().iter().map(|link| link.name.clone()).collect();
        self
    }

    /// A statement with the tables' names.
    fn sql(&self, text: &str) -> String {
        text.replace('@', &format!("{}.", self.schema)).replace('%', &self.schema)
    }

    /// Does something over a connection, which is made if there is none; after an error it is made anew.
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
        let done = act(&mut client).context("history: PostgreSQL")?;
        *held = Some(client);
        Ok(done)
    }

    fn connect(&self) -> Result<Client> {
        let mut client = self.config.connect(NoTls).context("history: PostgreSQL")?;
        client.batch_execute(SETTINGS).context("history: PostgreSQL")?;
        Ok(client)
    }

    /// All of some steps, in order.
    fn records(&self, from: Step, to: Step) -> Result<Vec<Record>> {
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
        ensure!(
            rows.len() == heads.len() * links,
            "history: found {} rows of {} steps, expected {links} each",
            rows.len(),
            heads.len()
        );
        let record = |(head, rows): (&Row, &[Row])| {
            let all: Vec<LinkRecord> = rows.iter().map(link).collect::<Result<_>>()?;
            Ok(Record {
                step: Step(head.try_get(0)?),
                made_s: head.try_get(1)?,
                latency_s: head.try_get(2)?,
                participants: head.try_get::<_, Json<_>>(3)?.0,
                states: all.iter().map(|link| link.state).collect(),
                intervals: all.iter().map(|link| link.interval).collect(),
            })
        };
        heads.iter().zip(rows.chunks(links)).map(record).collect()
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

fn link(row: &Row) -> Result<LinkRecord> {
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
    Ok(LinkRecord { state, interval })
}

impl History for Postgres {
    fn keep(&self, record: &Record) -> Result<()> {
        let links: Vec<LinkRecord> = record.links().collect();
        ensure!(
            links.len() == self.links.len(),
            "history: found {} links, expected {}",
            links.len(),
            self.links.len()
        );
        let numbers: Vec<i32> = (0..links.len() as i32).collect();
        let density: Vec<f64> = links.iter().map(|link| link.state.density.get()).collect();
        let flow: Vec<f64> = links.iter().map(|link| link.state.flow.get()).collect();
        let borders = |border: fn(&LinkInterval) -> f64| -> Vec<Option<f64>> {
            links.iter().map(|link| link.interval.as_ref().map(border)).collect()
        };
        let (density_low, density_high) = (borders(|i| i.density[0]), borders(|i| i.density[1]));
        let (flow_low, flow_high) = (borders(|i| i.flow[0]), borders(|i| i.flow[1]));
        self.with(&self.writer, |client| {
            let mut write = client.transaction()?;
            write.execute(&self.sql("DELETE FROM @estimate WHERE step = $1"), &[&record.step.0])?;
            let head = "INSERT INTO @estimate (step, made_s, latency_s, participants) VALUES ($1, $2, $3, $4)";
            let participants = Json(&record.participants);
            let step = record.step.0;
            write.execute(
                &self.sql(head),
                &[&step, &record.made_s, &record.latency_s, &participants],
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

    fn stretches(&self) -> Result<Vec<Stretch>> {
        // Steps less their rank are the same within a stretch.
        let islands = "SELECT min(step), max(step) FROM \
                       (SELECT step, step - row_number() OVER (ORDER BY step) AS island FROM @estimate) AS numbered \
                       GROUP BY island ORDER BY 1";
        let rows = self.with(&self.reader, |client| Ok(client.query(&self.sql(islands), &[])?))?;
        let stretch =
            |row: &Row| Ok(Stretch { first: Step(row.try_get(0)?), last: Step(row.try_get(1)?) });
        rows.iter().map(stretch).collect()
    }

    fn at(&self, step: Step) -> Result<Option<Record>> {
        Ok(self.records(step, step)?.pop())
    }

    fn each(&self, from: Step, to: Step, visit: &mut dyn FnMut(Record) -> bool) -> Result<()> {
        for stretch in self.stretches()? {
            let last = stretch.last.0.min(to.0);
            let mut first = stretch.first.0.max(from.0);
            while first <= last {
                let next = last.min(first + STEPS_AT_ONCE - 1);
                if !self.records(Step(first), Step(next))?.into_iter().all(&mut *visit) {
                    return Ok(());
                }
                first = next + 1;
            }
        }
        Ok(())
    }

    fn link(&self, link: usize, from: Step, to: Step) -> Result<Vec<LinkMoment>> {
        let query = "SELECT density, flow, density_low, density_high, flow_low, flow_high, step, participants \
                     FROM @link_estimate JOIN @estimate USING (step) \
                     WHERE number = $1 AND step BETWEEN $2 AND $3 ORDER BY step";
        let number = i32::try_from(link)?;
        let rows = self.with(&self.reader, |client| {
            Ok(client.query(&self.sql(query), &[&number, &from.0, &to.0])?)
        })?;
        let moment = |row: &Row| {
            Ok(LinkMoment {
                step: Step(row.try_get(6)?),
                link: self::link(row)?,
                participants: row.try_get::<_, Json<_>>(7)?.0,
            })
        };
        rows.iter().map(moment).collect()
    }

    fn forget(&self, before: Step) -> Result<u64> {
        self.with(&self.writer, |client| {
            Ok(client.execute(&self.sql("DELETE FROM @estimate WHERE step < $1"), &[&before.0])?)
        })
    }
}
