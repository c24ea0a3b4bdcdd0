//! What is wrong with the words of a command line, told as all other errors are: what was found and what was expected.

use std::error::Error as _;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// One line, without advice on usage.
pub(crate) fn told(error: &clap::Error) -> String {
    if let Some((option, problem)) = not_a_number(error) {
        return format!("{option}: {problem}");
    }
    let text = error.to_string();
    let told = text.split("\n\n").next().unwrap_or_default();
    told.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The option, and what is wrong with its value, that was to be a number and is none: clap says what its parser choked on, not what it wants.
pub(crate) fn not_a_number(error: &clap::Error) -> Option<(String, String)> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (option, value) = (context(ContextKind::InvalidArg)?, context(ContextKind::InvalidValue)?);
    let source = error.source()?;
    let expected = if source.is::<ParseIntError>() {
        "a whole number"
    } else if source.is::<ParseFloatError>() {
        "a number"
    } else {
        return None;
    };
    // `--rate <RATE>` in clap's words.
    let option = option.split_whitespace().next().unwrap_or(option);
    Some((option.to_owned(), format!("found `{value}`, expected {expected}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Options {
        #[arg(long)]
        guests: Option<usize>,
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..9))]
        port: Option<u16>,
        #[arg(long, value_delimiter = ',')]
        rate: Vec<f64>,
    }

    #[test]
    fn numbers_are_asked_for_by_name() {
        for (words, expected) in [
            (["--guests", "10,10"], "--guests: found `10,10`, expected a whole number"),
            (["--port", "x"], "--port: found `x`, expected a whole number"),
            (["--rate", "20,abc"], "--rate: found `abc`, expected a number"),
            (["--port", "70"], "invalid value '70' for '--port <PORT>': 70 is not in 1..9"),
            (["--ports", "7"], "unexpected argument '--ports' found"),
        ] {
            let error = Options::try_parse_from(["fedtse"].iter().chain(&words)).unwrap_err();
            assert!(told(&error).starts_with(expected), "{}", told(&error));
        }
    }
}
