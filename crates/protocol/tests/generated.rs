//! `src/wire/generated.rs` is what the definition in `proto/` makes, so that building the project
//! needs no compiler of protocol buffers. After a change of the definition:
//!
//! ```text
//! FEDTSE_WRITE_GENERATED=1 cargo test -p protocol --test generated
//! ```

use std::path::Path;

#[test]
fn generated_code_is_that_of_the_definition() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let definition = protox::compile(["fedtse.proto"], [root.join("proto")]).unwrap();
    tonic_prost_build::configure()
        .bytes(".")
        // The derived ones would show embeddings and gradients in logs.
        .skip_debug(["."])
        // The crate `federation` has the service: its codec sends the bytes that ledgers have hashed.
        .build_client(false)
        .build_server(false)
        .out_dir(folder.path())
        .compile_fds(definition)
        .unwrap();
    let made = std::fs::read_to_string(folder.path().join("fedtse.v1.rs")).unwrap();
    let kept = root.join("src/wire/generated.rs");
    if std::env::var_os("FEDTSE_WRITE_GENERATED").is_some() {
        std::fs::write(&kept, &made).unwrap();
    }
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        kept == made,
        "src/wire/generated.rs is out of date: see this test for how to renew it"
    );
}
