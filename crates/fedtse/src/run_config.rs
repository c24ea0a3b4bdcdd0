//! `fedtse train --config run.toml`: options in a file, with the names that they have on the command line.
//!
//! The file is read before the command line is parsed for good: what it says is put behind what was typed, unless that was
//! typed, too. So each option has one definition, one type and one range, wherever it is given; and the example is written from
//! the definitions themselves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Spanned, Value};

use crate::usage;

/// The subcommand that takes a file.
const COMMAND: &str = "train";
/// The option that has no default.
const DATA: &str = "data";
/// Options that are of the command line alone.
const NOT_IN_FILES: [&str; 4] = ["config", "example", "help", "version"];
/// Longer than any file that a person writes.
const MOST_BYTES: u64 = 1 << 20;

/// The words of a command line with those of its configuration file, if it names one. A command line that is wrong stays as it
/// is: to say why is the parser's affair.
pub(crate) fn with_file(command: &Command, words: Vec<OsString>) -> Result<Vec<OsString>> {
    let Ok(matches) = command.clone().try_get_matches_from(&words) else { return Ok(words) };
    let Some((COMMAND, given)) = matches.subcommand() else { return Ok(words) };
    let Some(path) = given.get_one::<PathBuf>("config") else { return Ok(words) };
    let options = options_of(command)?;
    Ok([words, words_of(path, &options, given)?].concat())
}

/// A file with all options, their meanings and defaults.
pub(crate) fn example(command: &Command) -> Result<String> {
    let mut text = "# Options of `fedtse train --config FILE`, with their defaults; those without one are comments.\n# Paths are taken from the folder of this file. Options on the command line come first.\n".to_owned();
    for option in in_files(&options_of(command)?) {
        let help = option.get_long_help().or(option.get_help()).map(ToString::to_string);
        text.push('\n');
        for line in help.unwrap_or_default().lines().flat_map(|line| wrapped(line, 110)) {
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
        let names: Vec<String> =
            option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if !names.is_empty() && takes_value(option) {
            for line in wrapped(&format!("One of: {}", names.join(", ")), 110) {
                let _ = writeln!(text, "# {line}");
            }
        }
        let _ = writeln!(text, "{}", assignment(option, &names));
    }
    Ok(text)
}

/// `name = default`, or the same as a comment where there is no default.
fn assignment(option: &Arg, names: &[String]) -> String {
    let name = option.get_long().unwrap_or_default();
    if !takes_value(option) {
        return format!("{name} = false");
    }
    let defaults: Vec<String> =
        option.get_default_values().iter().map(|value| literal(&value.to_string_lossy())).collect();
    let list = is_list(option);
    match (&defaults[..], name) {
        (_, DATA) => format!("{name} = \"data/corridor\""),
        ([], _) => {
            let shown = option.get_value_names().and_then(|names| names.first());
            let shown = shown.map_or_else(|| name.to_owned(), ToString::to_string);
            let value = names.first().map_or_else(|| literal(&shown), |name| literal(name));
            if list { format!("# {name} = [{value}]") } else { format!("# {name} = {value}") }
        }
        (values, _) if list => format!("{name} = [{}]", values.join(", ")),
        (values, _) => format!("{name} = {}", values[0]),
    }
}

/// A value as TOML writes it: a number as it is, anything else as text.
fn literal(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => value.to_owned(),
        _ => Value::String(value.to_owned()).to_string(),
    }
}

fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last().map_or(0, String::len);
        if last > 0 && last + word.len() >= width {
            lines.push(String::new());
        }
        if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn options_of(command: &Command) -> Result<Command> {
    let options = command.get_subcommands().find(|one| one.get_name() == COMMAND);
    options.cloned().context("train: no such command")
}

fn in_files(options: &Command) -> impl Iterator<Item = &Arg> {
    let named = options.get_arguments().filter(|option| option.get_long().is_some());
    named.filter(|option| !NOT_IN_FILES.contains(&option.get_long().unwrap_or_default()))
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

fn is_list(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}

/// What a file says, as words of a command line.
fn words_of(path: &Path, options: &Command, given: &ArgMatches) -> Result<Vec<OsString>> {
    let shown = path.display();
    let length = std::fs::metadata(path).with_context(|| shown.to_string())?.len();
    ensure!(length <= MOST_BYTES, "{shown}: found {length} bytes, expected at most {MOST_BYTES}");
    let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
    let fields: BTreeMap<Spanned<String>, Spanned<Value>> =
        toml::from_str(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let was_typed = |option: &Arg| {
        given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let typed_data = given.value_source(DATA) == Some(ValueSource::CommandLine);
    ensure!(
        typed_data || fields.keys().any(|name| name.get_ref() == DATA),
        "{shown}: {DATA}: found none, expected the folder of a dataset"
    );
    let mut words = Vec::new();
    for (name, value) in &fields {
        let line = 1 + text[..name.span().start].matches('\n').count();
        let name = name.get_ref().as_str();
        let place = || format!("{shown}, line {line}: {name}");
        let Some(option) = in_files(options).find(|option| option.get_long() == Some(name)) else {
            let known: Vec<&str> = in_files(options).filter_map(Arg::get_long).collect();
            bail!("{}: unknown field, expected one of {}", place(), known.join(", "));
        };
        let own = words_of_field(option, value.get_ref(), folder).with_context(place)?;
        check_alone(options, &own).with_context(place)?;
        // A conflict may be declared at either of the two.
        let excludes = |one: &Arg, other: &Arg| {
            let conflicts = options.get_arg_conflicts_with(one);
            conflicts.iter().any(|excluded| excluded.get_id() == other.get_id())
        };
        let replaced =
            |typed: &Arg| typed == option || excludes(typed, option) || excludes(option, typed);
        if !options.get_arguments().filter(|typed| was_typed(typed)).any(replaced) {
            words.extend(own);
        }
    }
    Ok(words)
}

fn words_of_field(option: &Arg, value: &Value, folder: &Path) -> Result<Vec<OsString>> {
    let long = format!("--{}", option.get_long().unwrap_or_default());
    if !takes_value(option) {
        return match value {
            Value::Boolean(true) => Ok(vec![long.into()]),
            Value::Boolean(false) => Ok(Vec::new()),
            other => bail!("found {other}, expected true or false"),
        };
    }
    let is_path = option.get_value_parser().type_id() == ValueParser::path_buf().type_id();
    let one = |value: &Value| -> Result<OsString> {
        Ok(match value {
            Value::String(text) if is_path => folder.join(text).into(),
            Value::String(text) => text.into(),
            Value::Integer(number) => number.to_string().into(),
            Value::Float(number) => number.to_string().into(),
            other => bail!("found {other}, expected a text or a number"),
        })
    };
    let values = match value {
        Value::Array(values) if is_list(option) => values.iter().map(one).collect::<Result<_>>()?,
        other => vec![one(other)?],
    };
    Ok(values.into_iter().flat_map(|value| joined(&long, value)).collect())
}

/// `--name=value`, so that a value may begin with a dash.
fn joined(long: &str, value: OsString) -> [OsString; 1] {
    let mut word = OsString::from(format!("{long}="));
    word.push(value);
    [word]
}

/// Refuses a value of the wrong type or outside a list of names, in the words of the command line.
fn check_alone(options: &Command, words: &[OsString]) -> Result<()> {
    let alone = options.clone().no_binary_name(true).subcommand_required(false);
    let alone = alone.mut_args(|option| option.required(false));
    match alone.try_get_matches_from(words) {
        Err(error) if is_of_value(&error) => match usage::not_a_number(&error) {
            Some((_, problem)) => bail!("{problem}"),
            None => {
                let text = error.to_string();
                bail!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
            }
        },
        _ => Ok(()),
    }
}

fn is_of_value(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{InvalidValue, ValueValidation};
    matches!(error.kind(), InvalidValue | ValueValidation)
}
