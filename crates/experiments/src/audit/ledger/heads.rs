//! Heads of a ledger that peers have countersigned.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use federation::grpc::GuestCertificates;
use federation::grpc::identity::read_certificates;
use federation::sums::Verifier;
use protocol::PartyId;
use protocol::ledger::{HeadCheck, HeadFile, OtherHead, SignedHead, check_heads, head_statement};
use serde::Serialize;

use super::LedgerArguments;

/// How a ledger compares with what peers have signed of it.
#[derive(Serialize)]
pub(super) struct Countersigned {
    /// Heads that agree.
    heads: u64,
    /// The last line that a peer has signed, and who.
    last: Option<(u64, PartyId)>,
    /// Whether the signatures were checked, against the authority.
    checked: bool,
}

/// Compares a ledger with the heads beside it.
pub(super) fn check(arguments: &LedgerArguments) -> Result<Countersigned> {
    let (path, party) = (&arguments.file, &arguments.party);
    let beside = HeadFile::beside(path);
    let files = [beside.exists().then_some(beside), arguments.heads.clone()];
    let signers = arguments.authority.as_deref().map(Signers::of).transpose()?;
    let mut heads = Vec::new();
    for file in files.iter().flatten() {
        let own = HeadFile::read(file)?.into_iter().filter(|head| head.of == *party);
        for head in own {
            if let Some(signers) = &signers {
                signers.verify(&head).with_context(|| file.display().to_string())?;
            }
            heads.push(head);
        }
    }
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let HeadCheck { agree, last, first_other } =
        check_heads(BufReader::new(file), path, (party, &heads))?;
    if let Some(OtherHead { line, agrees_to, by, found, expected }) = first_other {
        let found = found.map_or_else(|| "no such line".to_owned(), |hash| format!("hash {hash}"));
        bail!(
            "ledger {}, line {line}: found {found}, expected {expected} as countersigned by `{by}`: a line from {} to {line} was changed, removed or put in since",
            path.display(),
            agrees_to + 1
        );
    }
    Ok(Countersigned { heads: agree, last, checked: signers.is_some() })
}

/// Who may have signed: the host of a guest's ledger, the guests of the host's.
struct Signers {
    hosts: GuestCertificates,
    guests: GuestCertificates,
}

impl Signers {
    /// Those of an authority.
    fn of(authority: &Path) -> Result<Self> {
        let authority = read_certificates(authority)?;
        let guests = GuestCertificates::new(&authority, None)?;
        Ok(Self { hosts: GuestCertificates::of_hosts(&authority)?, guests })
    }

    fn verify(&self, SignedHead { of, by, signed }: &SignedHead) -> Result<()> {
        let statement = head_statement(of, by, &signed.head);
        let check = |signers: &GuestCertificates| {
            signers.verify(by, &signed.certificate, &statement, &signed.signature)
        };
        let Err(host) = check(&self.hosts) else { return Ok(()) };
        let Err(guest) = check(&self.guests) else { return Ok(()) };
        bail!(
            "line {} of `{of}`, countersigned by `{by}`: as a host: {host}; as a guest: {guest}",
            signed.head.sequence
        )
    }
}

impl fmt::Display for Countersigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((line, by)) = &self.last else {
            return f.write_str(
                "countersigned: nothing; a ledger that was written anew would not be found",
            );
        };
        let checked = match self.checked {
            true => "signatures checked",
            false => "signatures not checked: give --authority",
        };
        write!(
            f,
            "countersigned: {} heads, the last by `{by}` at line {line}; {checked}",
            self.heads
        )
    }
}
