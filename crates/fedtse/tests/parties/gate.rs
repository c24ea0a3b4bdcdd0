//! A gate on a guest's way to the host. Shut, it keeps a run from going on for as long as a test
//! needs, however fast or slow the machine is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Lets a number of bytes from the guest to the host pass; the other way is always open.
pub(crate) struct Gate {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    left: u64,
    /// Bytes wait at the gate.
    holds: bool,
}

impl Gate {
    /// An open gate before a port.
    pub(crate) fn before(host: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new((Mutex::new(State { left: u64::MAX, holds: false }), Condvar::new()));
        let of_connections = state.clone();
        // Ends with the test program.
        std::thread::spawn(move || {
            for guest in listener.incoming().flatten() {
                // Without a host it hangs up, as the host's port would.
                let Ok(host) = TcpStream::connect(("127.0.0.1", host)) else { continue };
                let _ = relay(guest, host, &of_connections);
            }
        });
        Gate { port, state }
    }

    /// The port that the guest dials.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Lets so many bytes pass from now on.
    pub(crate) fn allow(&self, bytes: u64) {
        *lock(&self.state.0) = State { left: bytes, holds: false };
        self.state.1.notify_all();
    }

    pub(crate) fn open(&self) {
        self.allow(u64::MAX);
    }

    /// Whether something waits at the gate: the host does not hear it before more is allowed.
    pub(crate) fn holds(&self) -> bool {
        lock(&self.state.0).holds
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn relay(
    guest: TcpStream,
    host: TcpStream,
    state: &Arc<(Mutex<State>, Condvar)>,
) -> std::io::Result<()> {
    guest.set_nodelay(true)?;
    host.set_nodelay(true)?;
    let (back_from, back_to) = (host.try_clone()?, guest.try_clone()?);
    std::thread::spawn(move || pass(back_from, back_to, |_| ()));
    let state = state.clone();
    std::thread::spawn(move || {
        pass(guest, host, |count| {
            let mut now = lock(&state.0);
            while now.left < count {
                now.holds = true;
                now = state.1.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
            now.left -= count;
        });
    });
    Ok(())
}

/// Passes on what comes until one side hangs up, then hangs up on both.
fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn(u64)) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        before(count as u64);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
