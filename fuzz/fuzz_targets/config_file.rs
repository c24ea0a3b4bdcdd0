#![no_main]

// The sections that host and guest share; the rest of a configuration is read by the same means.
#[path = "../../crates/fedtse/src/party/config.rs"]
#[allow(dead_code, reason = "the program uses more of it")]
mod config;

use config::{IdentitySection, Numbers, ObserveSection, PatienceSection};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sections {
    identity: Option<IdentitySection>,
    patience: PatienceSection,
    observe: ObserveSection,
    numbers: Option<Numbers>,
}

impl Default for Sections {
    fn default() -> Self {
        let (patience, observe) = (PatienceSection::default(), ObserveSection::default());
        Sections { identity: None, patience, observe, numbers: None }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((sections, _)) = config::read::<Sections>(&fuzz::file("config.toml", bytes)) else {
        return;
    };
    if let Ok(timing) = sections.patience.timing() {
        timing.check().expect("what was accepted");
    }
    let _ = (sections.identity.is_some(), sections.observe.http);
    let _ = Numbers::embedding(sections.numbers, estimator::Architecture::Link);
});
