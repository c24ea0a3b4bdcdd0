//! The command line and Python take the same options: the same names, defaults and limits.

use std::fmt::Debug;

use clap::{Args, Command, ValueEnum};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use training::party::CustomSubModels;
use training::party::noise::Unit;
use training::party::privacy::Mode;
use training::{FederationOptions, GuestOptions, Method, Packing, PhysicsOptions, SubModelChoice};

use crate::audit::LedgerArguments;
use crate::data::features::{By, FeatureOptions};
use crate::data::simulate::{SimulateOptions, World};
use crate::estimate::EstimateRequest;
use crate::reproduce::{ReproduceArguments, What};
use crate::train::TrainArguments;
use crate::{data, error_chain, error_chain_by_keyword, estimate, reproduce, train};
use estimator::{Architecture, TargetKind};

fn from_words<A: Args>(words: &[&str]) -> A {
    let command = A::augment_args(Command::new("fedtse").no_binary_name(true));
    let matches = command.try_get_matches_from(words).unwrap();
    A::from_arg_matches(&matches).unwrap()
}

/// Options as words and as data are equal.
fn agree<A: Args + DeserializeOwned + PartialEq + Debug>(words: &[&str], options: Value) {
    assert_eq!(from_words::<A>(words), from_value(options).unwrap());
}

#[test]
fn defaults_are_those_of_the_command_line() {
    agree::<FeatureOptions>(&[], json!({}));
    agree::<GuestOptions>(&[], json!({}));
    agree::<FederationOptions>(&[], json!({}));
    agree::<PhysicsOptions>(&[], json!({}));
    // What cannot be left out is given.
    agree::<SimulateOptions>(&["--out", "city"], json!({ "out": "city" }));
    agree::<TrainArguments>(&["--data", "city"], json!({ "data": "city" }));
    agree::<EstimateRequest>(&["--data", "city"], json!({ "data": "city" }));
    agree::<ReproduceArguments>(&["table2"], json!({ "what": "table2" }));
    let ledger = json!({ "ledger": "ledger.jsonl", "party": "guest" });
    agree::<LedgerArguments>(&["ledger.jsonl", "--party", "guest"], ledger);
    assert_eq!(from_value::<SimulateOptions>(json!({})).unwrap(), SimulateOptions::default());
    assert_eq!(from_value::<TrainArguments>(json!({})).unwrap(), TrainArguments::default());
}

#[test]
fn options_have_one_meaning() {
    agree::<SimulateOptions>(
        &["--out", "a", "--world", "sumo", "--flow", "300", "--warm-up", "0.5", "--seed", "7"],
        json!({ "out": "a", "world": "sumo", "flow": 300, "warm_up": 0.5, "seed": 7 }),
    );
    agree::<FeatureOptions>(
        &["--guests", "10,20", "--concentrate", "hour", "--strength", "0.9", "--from", "60"],
        json!({ "guests": [10, 20], "concentrate": "hour", "strength": 0.9, "start": 60 }),
    );
    agree::<TrainArguments>(
        &[
            "--data",
            "a",
            "--method",
            "fedtse-pi",
            "--rate",
            "20,40",
            "--target",
            "raw",
            "--arch",
            "paper",
            "--sub-model",
            "mlp",
            "--guests",
            "2",
            "--q",
            "3",
            "--compression",
            "q8",
            "--privacy",
            "sealed+noise",
            "--epsilon",
            "2",
            "--unit",
            "vehicle-trip",
            "--segment",
            "8",
            "--epochs",
            "5",
            "--part",
            "validation",
        ],
        json!({
            "data": "a", "method": ["fedtse-pi"], "rate": [20, 40], "target": ["raw"], "arch": "paper",
            "guest": { "sub_model": "mlp" },
            "federation": {
                "guests": 2, "q": 3, "compression": "q8",
                "privacy": { "privacy": "sealed+noise", "epsilon": 2, "unit": "vehicle-trip" },
            },
            "physics": { "segment": 8 }, "epochs": 5, "part": "validation",
        }),
    );
    agree::<ReproduceArguments>(
        &["fig-pi-rate", "--quick", "--only", "ridge,boosting", "--rates", "20", "--out", "b"],
        json!({
            "what": "fig-pi-rate", "quick": true, "only": ["ridge", "boosting"], "rates": [20], "out": "b",
        }),
    );
}

/// Names of a list's members.
fn named<V: ValueEnum + DeserializeOwned + PartialEq + Debug>() {
    for one in V::value_variants() {
        let name = one.to_possible_value().unwrap().get_name().to_owned();
        assert_eq!(&from_value::<V>(json!(name)).unwrap(), one, "{name}");
    }
}

#[test]
fn names_are_those_of_the_command_line() {
    named::<World>();
    named::<By>();
    named::<Method>();
    named::<TargetKind>();
    named::<Architecture>();
    named::<SubModelChoice>();
    named::<Packing>();
    named::<Mode>();
    named::<Unit>();
    named::<What>();
    let error =
        from_value::<TrainArguments>(json!({ "method": ["best"] })).unwrap_err().to_string();
    assert!(error.contains("found `best`, expected one of scale-up, ukf"), "{error}");
    let only = json!({ "only": ["best"] });
    let error = from_value::<ReproduceArguments>(only).unwrap_err().to_string();
    assert!(error.contains("found `best`, expected one of scale-up, ukf"), "{error}");
    let error = from_value::<FeatureOptions>(json!({ "rate": 20 })).unwrap_err().to_string();
    assert!(error.contains("unknown field `rate`, expected one of `rates`"), "{error}");
}

/// The text for the command line and that for Python.
fn refused<T>(result: anyhow::Result<T>) -> [String; 2] {
    let error = result.err().expect("it is refused");
    [error_chain(&error), error_chain_by_keyword(&error)]
}

#[test]
fn limits_hold_however_options_are_given() {
    let train = |options: Value| {
        let mut options = options;
        options["data"] = json!("nowhere");
        refused(train::make(&from_value(options).unwrap(), &CustomSubModels::default()))
    };
    let expected = "found 0, expected 1 to 100000";
    let found = train(json!({ "epochs": 0 }));
    assert_eq!(found, [format!("--epochs: {expected}"), format!("epochs: {expected}")]);
    for (options, expected) in [
        (
            json!({ "guest": { "embedding_size": 257 } }),
            "embedding_size: found 257, expected 1 to 256",
        ),
        (json!({ "guest": { "head_units": 1 } }), "head_units: found 1, expected 2 to 1024"),
        (json!({ "federation": { "guests": 65 } }), "guests: found 65, expected 1 to 64"),
        (json!({ "federation": { "q": 0 } }), "q: found 0, expected 1 to 100"),
        (json!({ "physics": { "segment": 0 } }), "segment: found 0, expected 1 to 512"),
        (json!({ "physics": { "label_share": 101 } }), "label_share: found 101, expected 0 to 100"),
        (
            json!({ "learning_rate": -1 }),
            "learning_rate: found -1, expected a number of more than 0",
        ),
        (
            json!({ "method": ["fedtse-pi"], "target": ["smooth"] }),
            "target: found smooth, expected raw: fedtse-pi learns from measurements of single steps",
        ),
    ] {
        assert_eq!(train(options)[1], expected);
    }
    let found = refused(train::make(&TrainArguments::default(), &CustomSubModels::default()));
    assert_eq!(found[1], "data: found none, expected a folder");

    let simulate = |options| data::simulate::simulate(&from_value(options).unwrap(), None);
    let found = refused(simulate(json!({ "out": "never", "minutes": 5 })));
    let expected = "found 10, expected 0 or more and less than all 5 minutes";
    assert_eq!(found, [format!("--warm-up: {expected}"), format!("warm_up: {expected}")]);
    for (options, expected) in [
        (json!({}), "out: found none, expected a folder"),
        (
            json!({ "out": "never", "minutes": -3 }),
            "minutes: found -3, expected more than 0 and at most 525600 minutes",
        ),
        (
            json!({ "out": "never", "flow": 1, "demand": "file" }),
            "flow: found with a demand, expected one of the two",
        ),
        (
            json!({ "out": "never", "flow": 0 }),
            "flow: found 0, expected more than 0 and at most 50000 veh/h",
        ),
    ] {
        assert_eq!(refused(simulate(options))[1], expected);
    }

    for (options, expected) in [
        (
            json!({ "guests": [10], "rates": [20] }),
            "guests: found with rates, expected one of the two",
        ),
        (
            json!({ "guests": [10], "providers": [2] }),
            "providers: found with guests, expected with rates",
        ),
        (json!({ "strength": 0.5 }), "strength: found alone, expected with concentrate"),
    ] {
        assert_eq!(refused(from_value::<FeatureOptions>(options).unwrap().plan())[1], expected);
    }

    let own = training::party::CustomSubModelSpecs::new();
    for (options, expected) in [
        (json!({}), "model: found none, expected the folder of a model, or of parties"),
        (
            json!({ "model": "a", "party": ["b"] }),
            "party: found with a model, expected one of the two",
        ),
        (
            json!({ "party": ["b"], "interval": 90 }),
            "interval: found with parties, expected with a model",
        ),
    ] {
        let mut options = options;
        options["data"] = json!("nowhere");
        let request: EstimateRequest = from_value(options).unwrap();
        assert_eq!(refused(estimate::make(&request, &own))[1], expected);
    }

    for (options, expected) in [
        (json!({ "rates": [20, 0] }), "rates: found 0, expected 1 to 100"),
        (json!({ "guests": [33] }), "guests: found 33, expected 1 to 32"),
        (json!({ "epochs": 100_001 }), "epochs: found 100001, expected 1 to 100000"),
        (json!({ "jobs": 0 }), "jobs: found 0, expected 1 to 1024"),
        (json!({ "seeds": [1, 1] }), "seeds: found 1 twice"),
    ] {
        let mut options = options;
        options["what"] = json!("table2");
        let arguments: ReproduceArguments = from_value(options.clone()).unwrap();
        assert_eq!(refused(reproduce::make(&arguments))[1], expected);
        options["what"] = json!("all");
        let all = reproduce::run(&from_value(options).unwrap(), false);
        assert!(all.is_err());
    }
}
