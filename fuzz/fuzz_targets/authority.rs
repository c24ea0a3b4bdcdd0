#![no_main]

// What reaches a key authority over its connections, what it says, and the files that it keeps.
#[path = "../../crates/fedtse/src/party/authority/frames.rs"]
#[allow(dead_code, reason = "the program uses more of it")]
mod frames;

use std::cell::RefCell;

use federation::KeyDesk;
use frames::{read_reply, read_request, write_reply, write_request};
use protocol::PartyId;
use protocol::ledger::Recorded;
use protocol::message::key_authority::ToAuthority;
use sealed::ipfe::{Authority, public_key_request};
use sealed::{Agreement, Grid};
use tokio::runtime::{Builder, Runtime};

const WIDTH: usize = 3;
/// More than any request that is made here.
const LONGEST: usize = 1 << 16;

thread_local! {
    static OFFICE: RefCell<(Runtime, KeyDesk)> = RefCell::new(office());
}

fn agreement() -> Agreement {
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    Agreement { width: WIDTH, grid, most_rows: 4, most_blocks: 1 }
}

fn party(name: &str) -> PartyId {
    PartyId::new(name).expect("a name")
}

fn office() -> (Runtime, KeyDesk) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    (runtime, KeyDesk::new(party("city")))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    OFFICE.with_borrow_mut(|(runtime, desk)| {
        runtime.block_on(async {
            let (mut from, mut read) = (bytes, 0);
            while let Ok(Some(request)) = read_request(&mut from, LONGEST).await {
                // Each has one encoding only.
                let mut again = Vec::new();
                write_request(&mut again, &request).await.expect("memory");
                assert_eq!(again, bytes[read..read + again.len()]);
                read += again.len();
                let Ok(message) = ToAuthority::decode(&request) else { continue };
                assert_eq!(message.encode(), request);
                if let ToAuthority::PublicKey { round, .. } = message {
                    assert!(desk.answer(&party("city"), &message).is_err());
                    // A wide public key takes long: a narrow one instead.
                    let request = public_key_request(&agreement());
                    let message = ToAuthority::PublicKey { round, request };
                    desk.answer(&party("fleet"), &message).expect("a public key");
                } else {
                    assert!(desk.answer(&party("fleet"), &message).is_err());
                    let _ = desk.answer(&party("city"), &message);
                }
            }
            // Whatever was asked: with keys for as many rows as a block has values, the host would read everything.
            assert!(desk.authorities().issued("fleet") <= WIDTH / 2);
            if let Ok(reply) = read_reply(&mut &bytes[..]).await {
                let mut again = Vec::new();
                write_reply(&mut again, &reply).await.expect("memory");
                assert_eq!(read_reply(&mut &again[..]).await.expect("our own bytes"), reply);
            }
        });
    });
    if let Ok(restored) = Authority::restore(agreement(), bytes) {
        assert!(restored.issued() < WIDTH);
        let again = Authority::restore(agreement(), &restored.state()).expect("our own bytes");
        assert_eq!(again.public_key(), restored.public_key());
    }
});
