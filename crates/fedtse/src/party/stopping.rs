//! Ending on a signal: the party says goodbye and can go on later from its last checkpoint.

use anyhow::{Context, Result};
use protocol::message::parts::Text;
use tokio::sync::watch;
use tracing::info;

/// Whether someone wants the party to stop: a signal, or a front end that watches.
pub(crate) struct StopRequest {
    pub reason: watch::Receiver<Option<Text>>,
    front_end: Option<watch::Sender<Option<Text>>>,
}

impl StopRequest {
    /// Looks whether the front end wants it.
    pub(crate) fn look(&self) {
        if let (Some(sender), Err(stopped)) = (&self.front_end, progress::check_stop()) {
            let _ = sender.send(Some(Text::of(stopped)));
        }
    }
}

/// Begins to listen. Signals are a front end's own affair, if there is one.
pub(crate) async fn asked() -> Result<StopRequest> {
    if progress::observer().is_none() {
        return Ok(StopRequest { reason: on_signal().await?, front_end: None });
    }
    let (sender, reason) = watch::channel(None);
    Ok(StopRequest { reason, front_end: Some(sender) })
}

/// Holds a reason as soon as someone wants the party to stop.
pub(crate) async fn on_signal() -> Result<watch::Receiver<Option<Text>>> {
    let (sender, receiver) = watch::channel(None);
    let mut signals = Signals::new().context("signals")?;
    tokio::spawn(async move {
        let name = signals.next().await;
        info!("{name}: stopping");
        let _ = sender.send(Some(Text::of(name)));
        // A second one means: at once.
        signals.next().await;
        std::process::exit(130);
    });
    Ok(receiver)
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "asked to end (SIGTERM)",
            _ = self.interrupt.recv() => "interrupted (Ctrl-C)",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "interrupted (Ctrl-C)"
    }
}
