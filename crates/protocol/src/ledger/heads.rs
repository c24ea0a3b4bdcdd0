//! Heads that peers have countersigned, in a file beside the ledger.
//!
//! ```text
//! {"of":"fleet-a","by":"city","sequence":57,"head":"…","certificate":"…","signature":"…"}
//! ```
//!
//! A party keeps what its peers have signed of its own ledger, and what it has signed of theirs: it signs no shorter ledger of a party
//! later, and no other of the same length.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::file::open_alone;
use super::{LedgerError, audit};
use crate::message::heads::{Countersignature, LedgerHead};
use crate::message::sums::{CertificateBytes, Signature};
use crate::party::PartyId;

/// Longer than any line: a certificate takes 16 kB at most.
const MAX_LINE: usize = 1 << 15;

/// What a peer signs of a ledger. No signature of a handshake of TLS begins like this.
pub fn head_statement(of: &PartyId, by: &PartyId, head: &LedgerHead) -> Vec<u8> {
    let mut hash = Sha256::new();
    for field in [of.as_str().as_bytes(), by.as_str().as_bytes(), &head.head] {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    hash.update(head.sequence.to_le_bytes());
    [&b"fedtse ledger head v1 "[..], &hash.finalize()].concat()
}

/// A head of a party's ledger, and who has signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// Whose ledger.
    pub of: PartyId,
    /// Who has signed.
    pub by: PartyId,
    /// What.
    pub signed: Countersignature,
}

/// The countersignatures beside a ledger, in `ledger.heads.jsonl`.
pub struct HeadFile {
    path: PathBuf,
    file: File,
    heads: Vec<SignedHead>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    of: PartyId,
    by: PartyId,
    sequence: u64,
    head: String,
    certificate: String,
    signature: String,
}

impl HeadFile {
    /// The file beside a ledger.
    pub fn beside(ledger: &Path) -> PathBuf {
        ledger.with_extension("heads.jsonl")
    }

    /// Opens the file beside a ledger, which is made if need be; a line that a crash tore apart is cut off.
    ///
    /// # Errors
    /// If it has another content, or is in use.
    pub fn open(ledger: &Path) -> Result<Self, LedgerError> {
        let path = Self::beside(ledger);
        let io = |source| LedgerError::Io { path: path.clone(), source };
        let file = open_alone(&path)?;
        let (heads, length) = read(&file, &path)?;
        file.set_len(length).and_then(|()| file.sync_all()).map_err(io)?;
        Ok(Self { path, file, heads })
    }

    /// Reads a file that may be in use.
    ///
    /// # Errors
    /// If it has another content.
    pub fn read(path: &Path) -> Result<Vec<SignedHead>, LedgerError> {
        let file = File::open(path);
        let file = file.map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
        Ok(read(&file, path)?.0)
    }

    /// The newest head of a party's ledger that this one has signed.
    pub fn newest(&self, of: &PartyId, by: &PartyId) -> Option<LedgerHead> {
        let heads = self.heads.iter().filter(|head| head.of == *of && head.by == *by);
        heads.map(|head| head.signed.head).max_by_key(|head| head.sequence)
    }

    /// Adds a head, on the disk before it returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, head: SignedHead) -> Result<(), LedgerError> {
        let Countersignature { head: LedgerHead { sequence, head: bytes }, certificate, signature } =
            &head.signed;
        let line = Line {
            of: head.of.clone(),
            by: head.by.clone(),
            sequence: *sequence,
            head: HEXLOWER.encode(bytes),
            certificate: HEXLOWER.encode(certificate.as_slice()),
            signature: HEXLOWER.encode(signature.as_slice()),
        };
        // No map with keys that are not text, no number that JSON lacks: this cannot fail.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.map_err(|source| LedgerError::Io { path: self.path.clone(), source })?;
        // Of its own ledger it needs none in memory; of others the newest.
        self.heads.retain(|other| (&other.of, &other.by) != (&head.of, &head.by));
        self.heads.push(head);
        Ok(())
    }
}

fn read(file: &File, path: &Path) -> Result<(Vec<SignedHead>, u64), LedgerError> {
    let (mut heads, mut length, mut number) = (Vec::new(), 0, 0);
    let (mut lines, mut text) = (BufReader::new(file), Vec::new());
    loop {
        text.clear();
        let found = (&mut lines).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
        let found = found.map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
        number += 1;
        let broken = |problem| LedgerError::Broken { path: path.to_owned(), line: number, problem };
        if found > MAX_LINE {
            return Err(broken(format!("found more than {MAX_LINE} bytes, expected fewer")));
        }
        if text.pop() != Some(b'\n') {
            return Ok((heads, length));
        }
        let line: Line =
            serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        heads.push(signed_head(line).map_err(broken)?);
        length += found as u64;
    }
}

fn signed_head(line: Line) -> Result<SignedHead, String> {
    let bytes = |field: &str, text: &str| {
        HEXLOWER.decode(text.as_bytes()).map_err(|error| format!("{field}: {error}"))
    };
    let head = bytes("head", &line.head)?;
    let found = head.len();
    let head = head.try_into().map_err(|_| format!("head: found {found} bytes, expected 32"))?;
    let certificate = CertificateBytes::new(bytes("certificate", &line.certificate)?);
    let signature = Signature::new(bytes("signature", &line.signature)?);
    Ok(SignedHead {
        of: line.of,
        by: line.by,
        signed: Countersignature {
            head: LedgerHead { sequence: line.sequence, head },
            certificate: certificate.map_err(|error| error.to_string())?,
            signature: signature.map_err(|error| error.to_string())?,
        },
    })
}

/// What a ledger says to heads of it that peers have signed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadCheck {
    /// Heads that the ledger has.
    pub agree: u64,
    /// The last line that a peer has signed, and who.
    pub last: Option<(u64, PartyId)>,
    /// The first head that the ledger does not have.
    pub first_other: Option<OtherHead>,
}

/// A line of a ledger is not the one that a peer has signed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherHead {
    /// The line.
    pub line: u64,
    /// The last line before it that agrees with what a peer has signed; 0 if none does.
    pub agrees_to: u64,
    /// Who has signed another.
    pub by: PartyId,
    /// The hash of the line; none if the ledger is shorter.
    pub found: Option<String>,
    /// The one that was signed.
    pub expected: String,
}

/// Compares a ledger with heads of it whose signatures were checked.
///
/// # Errors
/// If it cannot be read, or its chain is broken.
pub fn check_heads(
    reader: impl BufRead,
    path: &Path,
    (party, heads): (&PartyId, &[SignedHead]),
) -> Result<HeadCheck, LedgerError> {
    let mut expected: Vec<&SignedHead> = heads.iter().filter(|head| head.of == *party).collect();
    expected.sort_by_key(|head| head.signed.head.sequence);
    let mut found = Vec::with_capacity(expected.len());
    let mut next = 0;
    audit::audit_lines(reader, path, party, |line, hash| {
        while expected.get(next).is_some_and(|head| head.signed.head.sequence == line) {
            found.push(*hash);
            next += 1;
        }
    })?;
    let mut check = HeadCheck { agree: 0, last: None, first_other: None };
    for (place, SignedHead { by, signed, .. }) in expected.into_iter().enumerate() {
        let (line, hash) = (signed.head.sequence, found.get(place));
        if hash == Some(&signed.head.head) {
            check.agree += 1;
            check.last = Some((line, by.clone()));
            continue;
        }
        check.first_other = Some(OtherHead {
            line,
            agrees_to: check.last.as_ref().map_or(0, |(line, _)| *line),
            by: by.clone(),
            found: hash.map(|hash| HEXLOWER.encode(hash)),
            expected: HEXLOWER.encode(&signed.head.head),
        });
        break;
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, MemorySink};
    use crate::message::ToHost;
    use crate::party::Now;

    fn party(name: &str) -> PartyId {
        PartyId::new(name).unwrap()
    }

    fn ledger(lines: usize, to: &str) -> (MemorySink, Vec<LedgerHead>) {
        let sink = MemorySink::default();
        let mut ledger = Ledger::in_memory(&sink, &party("fleet-a")).unwrap();
        let mut heads = Vec::new();
        for _ in 0..lines {
            ledger.release(Now::default(), &party(to), ToHost::Heartbeat).unwrap();
            heads.push(ledger.head());
        }
        (sink, heads)
    }

    fn signed(head: LedgerHead) -> SignedHead {
        let certificate = CertificateBytes::new(vec![1]).unwrap();
        let signed =
            Countersignature { head, certificate, signature: Signature::new(vec![2]).unwrap() };
        SignedHead { of: party("fleet-a"), by: party("city"), signed }
    }

    fn check(sink: &MemorySink, heads: &[SignedHead]) -> HeadCheck {
        check_heads(&sink.bytes()[..], "ledger".as_ref(), (&party("fleet-a"), heads)).unwrap()
    }

    /// A ledger that was rewritten from a line on has a whole chain, but not the heads that a peer has signed.
    #[test]
    fn the_first_line_is_named_that_is_not_what_a_peer_has_signed() {
        let (sink, heads) = ledger(9, "city");
        let all = [2, 5, 7].map(|line: usize| signed(heads[line - 1]));
        let found = check(&sink, &all);
        assert_eq!(
            (found.agree, found.last, found.first_other),
            (3, Some((7, party("city"))), None)
        );
        // Another party's heads say nothing of this ledger.
        let of_other = SignedHead { of: party("fleet-b"), ..all[0].clone() };
        assert_eq!(check(&sink, &[of_other]).agree, 0);
        // Rewritten from line 4 on, as if another had been the receiver: its own chain is whole.
        let text = String::from_utf8(sink.bytes()).unwrap();
        let kept: String = text.lines().take(3).flat_map(|line| [line, "\n"]).collect();
        let forged = MemorySink::default();
        crate::ledger::Sink::append(&mut forged.clone(), kept.as_bytes()).unwrap();
        let mut again = Ledger::in_memory(&forged, &party("fleet-a")).unwrap();
        for _ in 3..9 {
            again.release(Now::default(), &party("town"), ToHost::Heartbeat).unwrap();
        }
        let found = check(&forged, &all);
        let other = found.first_other.unwrap();
        assert_eq!((found.agree, other.line, other.agrees_to), (1, 5, 2));
        assert_eq!(other.expected, HEXLOWER.encode(&heads[4].head));
        // Cut off at the end.
        let (short, _) = ledger(6, "city");
        let other = check(&short, &all).first_other.unwrap();
        assert_eq!((other.line, other.agrees_to, other.found), (7, 5, None));
    }

    #[test]
    fn heads_are_kept_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let (_, heads) = ledger(4, "city");
        let mut file = HeadFile::open(&path).unwrap();
        assert_eq!(file.newest(&party("fleet-a"), &party("city")), None);
        file.add(signed(heads[1])).unwrap();
        file.add(signed(heads[3])).unwrap();
        drop(file);
        let beside = HeadFile::beside(&path);
        let text = std::fs::read(&beside).unwrap();
        std::fs::write(&beside, [&text[..], &text[..20]].concat()).unwrap();
        let file = HeadFile::open(&path).unwrap();
        assert_eq!(file.newest(&party("fleet-a"), &party("city")), Some(heads[3]));
        assert_eq!(std::fs::read(&beside).unwrap(), text);
        assert_eq!(HeadFile::read(&beside).unwrap(), [signed(heads[1]), signed(heads[3])]);
        std::fs::write(
            &beside,
            String::from_utf8(text).unwrap().replace("\"head\":\"", "\"head\":\"ab"),
        )
        .unwrap();
        let error = HeadFile::read(&beside).unwrap_err().to_string();
        assert!(error.contains("line 1: head: found 33 bytes, expected 32"), "{error}");
    }
}
