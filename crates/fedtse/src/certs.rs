//! `fedtse certs`: the private certificate authority of a federation, and its identities.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use federation::certificates::{Authority, Issued, Validity};
use federation::grpc::identity::read_certificates;
use federation::grpc::{CertificateInfo, Fingerprint, Role};
use serde_json::json;
use time::OffsetDateTime;

const AUTHORITY: &str = "authority";

/// Make and show the certificates by which host and guests know each other
///
/// A federation has its own small authority. `init` makes it, `host` and `guest` make an identity
/// each: NAME.pem (public) and NAME.key (secret, readable by you alone). A party needs its own two
/// files and authority.pem; authority.key stays with whoever admits parties, away from the network.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse certs init --out certs\n  fedtse certs host --authority certs --name city --address city.example\n  fedtse certs guest --authority certs --name fleet-a\n  fedtse certs show certs/fleet-a.pem"
)]
pub(crate) struct CertsArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(InitArguments),
    Host(HostArguments),
    Guest(GuestArguments),
    Show(ShowArguments),
}

/// Make an authority
#[derive(Args)]
struct InitArguments {
    /// Folder for authority.pem and authority.key
    #[arg(long)]
    out: PathBuf,
    /// Days of validity
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// Make the identity of a host
#[derive(Args)]
struct HostArguments {
    #[command(flatten)]
    party: PartyArguments,
    /// DNS name or IP address that guests dial, without port; may be repeated
    #[arg(long, required = true)]
    address: Vec<String>,
}

/// Make the identity of a guest
#[derive(Args)]
struct GuestArguments {
    #[command(flatten)]
    party: PartyArguments,
}

#[derive(Args)]
struct PartyArguments {
    /// Folder of the authority
    #[arg(long)]
    authority: PathBuf,
    /// Name of the party
    #[arg(long)]
    name: String,
    /// Folder for NAME.pem and NAME.key; that of the authority unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Days of validity
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// Show whose certificates these are, their fingerprints and how long they are valid
#[derive(Args)]
struct ShowArguments {
    /// Certificates (.pem)
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &CertsArguments, json: bool) -> Result<()> {
    match &arguments.command {
        Command::Init(arguments) => {
            let authority = Authority::create(Validity::days(arguments.days))?;
            keep(&arguments.out, AUTHORITY, &authority.issued)?;
            if json {
                println!("{}", json!({"authority": arguments.out.join("authority.pem")}));
            } else {
                let folder = arguments.out.display();
                println!("{folder}/authority.pem: give it to every party");
                println!("{folder}/authority.key: keep it secret; it admits parties");
            }
            Ok(())
        }
        Command::Host(HostArguments { party, address }) => make(party, json, |authority, days| {
            authority.host(&party.name, address, Validity::days(days))
        }),
        Command::Guest(GuestArguments { party }) => {
            make(party, json, |authority, days| authority.guest(&party.name, Validity::days(days)))
        }
        Command::Show(arguments) => show(&arguments.files, json),
    }
}

fn make(
    party: &PartyArguments,
    json: bool,
    issue: impl FnOnce(&Authority, u32) -> Result<Issued, federation::certificates::CertificateError>,
) -> Result<()> {
    ensure!(party.name != AUTHORITY, "--name: `{AUTHORITY}` is the name of the authority's files");
    let key = party.authority.join("authority.key");
    let text = std::fs::read_to_string(&key)
        .with_context(|| format!("{}: expected the key of `fedtse certs init`", key.display()))?;
    let authority = Authority::from_key(&text).with_context(|| format!("{}", key.display()))?;
    let issued = issue(&authority, party.days)?;
    let folder = party.out.as_ref().unwrap_or(&party.authority);
    let certificate = keep(folder, &party.name, &issued)?;
    show(&[certificate], json)
}

/// Writes certificate and key, never over others.
fn keep(folder: &Path, name: &str, issued: &Issued) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let (certificate, key) =
        (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    for file in [&certificate, &key] {
        ensure!(
            !file.exists(),
            "{}: is there already, expected a new name; remove it yourself if it is not needed",
            file.display()
        );
    }
    write_new(&key, &issued.key, 0o600)?;
    write_new(&certificate, &issued.certificate, 0o644)?;
    Ok(certificate)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path).with_context(|| format!("{}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("{}", path.display()))
}

fn show(files: &[PathBuf], json: bool) -> Result<()> {
    let mut rows = Vec::new();
    for file in files {
        let certificate = &read_certificates(file)?[0];
        let fingerprint = Fingerprint::of(certificate).to_string();
        let Ok(info) = CertificateInfo::of(certificate) else {
            if json {
                rows.push(json!({"file": file, "role": null, "fingerprint": fingerprint}));
            } else {
                println!("{}: no party's (an authority?), {fingerprint}", file.display());
            }
            continue;
        };
        let role = match info.role {
            Role::Host => "host",
            Role::Guest => "guest",
        };
        if json {
            rows.push(json!({
                "file": file, "role": role, "name": info.name.as_str(), "fingerprint": fingerprint,
                "valid_from": info.valid_from, "valid_until": info.valid_until,
            }));
            continue;
        }
        println!(
            "{}: {role} `{}`, valid {} to {}",
            file.display(),
            info.name,
            date(info.valid_from),
            date(info.valid_until)
        );
        match info.role {
            Role::Host => println!("  {fingerprint}"),
            Role::Guest => {
                println!("  in the host's list of guests:\n  {} = [\"{fingerprint}\"]", info.name);
            }
        }
    }
    if json {
        println!("{}", json!(rows));
    }
    Ok(())
}

/// Day and time, as 2026-07-31 12:00 UTC.
fn date(epoch_seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(epoch_seconds).map_or_else(
        |_| format!("second {epoch_seconds}"),
        |time| format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute()),
    )
}
