//! Logs on the standard error, for people or for machines.

use anyhow::{Result, anyhow};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

use super::config::{LogFormat, LogLevel, ObserveSection};

/// Begins to log.
pub(crate) fn start(section: &ObserveSection) -> Result<()> {
    let level = match section.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
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
