//! Logs on the standard error, for people or for machines.

use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

use super::config::{LogFormat, LogLevel, ObserveSection};

/// What the command line says of logs; a party's file says the rest.
static CHOSEN: OnceLock<LevelFilter> = OnceLock::new();

/// Takes note of `--verbose` and `--quiet`.
pub(crate) fn choose(verbose: bool, quiet: bool) {
    let level = match (verbose, quiet) {
        (true, _) => LevelFilter::DEBUG,
        (_, true) => LevelFilter::WARN,
        _ => return,
    };
    let _ = CHOSEN.set(level);
}

/// Begins to log.
pub(crate) fn start(section: &ObserveSection) -> Result<()> {
    let level = match section.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let level = CHOSEN.get().copied().unwrap_or(level);
    let logs = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    match section.log_format {
        LogFormat::Text => logs.with_ansi(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow!("logs: {error}"))
}

/// Begins to log, for a front end: in a process that has logs already they stay as they are.
pub(crate) fn start_if_none(section: &ObserveSection) {
    let _ = start(section);
}
