#![no_main]

// What reaches a key authority over its connections, what it says, and the file that it keeps.
#[path = "../../crates/fedtse/src/party/authority/frames.rs"]
#[allow(dead_code, reason = "the program uses more of it")]
mod frames;

use std::cell::RefCell;

use frames::{Request, question_limit, read_reply, read_request, write_reply, write_request};
use sealed::ipfe::Authority;
use sealed::{Agreement, Answerer, Grid};
use tokio::runtime::{Builder, Runtime};

const WIDTH: usize = 3;
const ROWS: usize = 4;

thread_local! {
    static OFFICE: RefCell<(Runtime, Authority)> = RefCell::new(office());
}

fn agreement() -> Agreement {
    let grid = Grid::new(0.0, 1.0, 100).expect("a grid");
    Agreement { width: WIDTH, grid, most_rows: ROWS, most_blocks: 1 }
}

fn office() -> (Runtime, Authority) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    (runtime, Authority::new(agreement()).expect("an authority"))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    OFFICE.with_borrow_mut(|(runtime, authority)| {
        runtime.block_on(async {
            let (mut from, mut read) = (bytes, 0);
            while let Ok(Some(request)) = read_request(&mut from, question_limit(WIDTH, ROWS)).await
            {
                // Each has one encoding only.
                let mut again = Vec::new();
                write_request(&mut again, &request).await.expect("memory");
                assert_eq!(again, bytes[read..read + again.len()]);
                read += again.len();
                if let Request::Keys(question) = request {
                    let _ = authority.answer(&question);
                }
            }
            // Whatever was asked: with keys for as many rows as a block has values, the host would read everything.
            assert!(authority.issued() < WIDTH);
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
