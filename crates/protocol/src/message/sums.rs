//! Sums over guests of which the host sees nothing else.
//!
//! ```text
//!  guest                                     host
//!    │ Hello ───────────────────────────►      steps held, a key signed with the key of its certificate
//!    │ ◄─────────────────────────── Group      everyone's signed keys; what is summed
//!    │ ◄───────────────────────── Request ┐    training: some steps. Live guests send each step by themselves
//!    │ Masked ──────────────────────────► │
//!    │ ◄──────────────────── Participants │    whose totals are in the sum
//!    │ Agreed ──────────────────────────► │    each signs them, and signs no others for these steps
//!    │ ◄────────────────────── Signatures │    of all participants
//!    │ Seeds ───────────────────────────► ┘    what takes the masks off the sum
//!    │ ◄────────────────────────── Finish      all is summed
//! ```

use traffic::Step;

use super::parts::{HeldSteps, MAX_STEP, MAX_STEPS, PartError, StepRange, Text};
use crate::party::{PartyId, RunId};

/// Most members of a group.
pub const MAX_MEMBERS: usize = 64;
/// Most words of a block: 16 MiB.
pub const MAX_WORDS: usize = 1 << 21;
/// Most numbers of a row.
pub const MAX_ROW: usize = MAX_WORDS;
/// Most bytes of a certificate.
const MAX_CERTIFICATE: usize = 8192;
/// Most bytes of a signature.
const MAX_SIGNATURE: usize = 512;

/// From a guest to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum FromSumGuest {
    /// I am here, and this is my key.
    Hello(Box<SumHello>),
    /// My totals of some steps, masked.
    Masked {
        /// In which group.
        group: u64,
        /// Of which steps.
        block: Block,
        /// `[step, number]`.
        words: MaskedWords,
    },
    /// I agree to the participants.
    Agreed {
        /// In which group.
        group: u64,
        /// Of which steps.
        block: Block,
        /// Signs the participants.
        signature: Signature,
    },
    /// What takes my masks off the sum.
    Seeds {
        /// In which group.
        group: u64,
        /// Of which steps.
        block: Block,
        /// The seeds.
        seeds: Seeds,
    },
}

/// From the host to a guest.
#[derive(Clone, Debug, PartialEq)]
pub enum FromSumHost {
    /// Who masks together, and what.
    Group(Box<SumGroup>),
    /// Send the totals of these steps, masked.
    Request {
        /// In which group.
        group: u64,
        /// Which steps.
        block: Block,
    },
    /// These are in the sum.
    Participants {
        /// In which group.
        group: u64,
        /// Of which steps.
        block: Block,
        /// Who.
        included: Included,
    },
    /// All participants agree.
    Signatures {
        /// In which group.
        group: u64,
        /// Of which steps.
        block: Block,
        /// In the order of the participants.
        signatures: Vec<Signature>,
    },
    /// All is summed.
    Finish {
        /// In which run.
        run: RunId,
    },
}

/// How a guest introduces itself.
#[derive(Clone, Debug, PartialEq)]
pub struct SumHello {
    /// [`PROTOCOL`](crate::message::PROTOCOL).
    pub protocol: u32,
    /// Version of its software, for logs.
    pub software: Text,
    /// Its name.
    pub party: PartyId,
    /// Drawn anew whenever the guest starts; not 0.
    pub session: u64,
    /// What all members must agree on.
    pub terms: SumTerms,
    /// What it can add; nothing live.
    pub held: HeldSteps,
    /// Parts of its fleet.
    pub folds: u16,
    /// Its key.
    pub key: SignedKey,
}

/// What all members of a sum must agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct SumTerms {
    /// Hash of links and turns.
    pub network_hash: Text,
    /// Length of a step. Step 0 begins at the epoch.
    pub step_s: f64,
    /// Live: the run that the host's model is of.
    pub run: Option<RunId>,
}

/// A key for masks that a guest has signed with the key of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedKey {
    /// X25519.
    pub public: [u8; 32],
    /// As DER.
    pub certificate: CertificateBytes,
    /// Of role, name, session, terms and key.
    pub signature: Signature,
}

/// Who masks together, and what.
#[derive(Clone, Debug, PartialEq)]
pub struct SumGroup {
    /// [`PROTOCOL`](crate::message::PROTOCOL).
    pub protocol: u32,
    /// Version of the host's software, for logs.
    pub software: Text,
    /// The run.
    pub run: RunId,
    /// Drawn anew whenever the members change.
    pub group: u64,
    /// What is summed.
    pub plan: SumPlan,
    /// Who.
    pub members: Members,
}

/// What a row of totals holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SumPlan {
    /// What all members must agree on.
    pub terms: SumTerms,
    /// Parts of each fleet.
    pub folds: u16,
    /// Numbers of a link's cells and sub-steps; 0 for none.
    pub cells: u32,
    /// Turns, and ends of trips.
    pub movements: bool,
    /// Densities by queue profiles.
    pub queues: bool,
    /// Numbers of a row.
    pub width: u32,
    /// The steps of the training part.
    pub training: StepRange,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumMember {
    /// Its name.
    pub party: PartyId,
    /// Of its hello.
    pub session: u64,
    /// Its key.
    pub key: SignedKey,
}

/// The members of a group, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members(Vec<SumMember>);

impl Members {
    /// Checks their number and order.
    pub fn new(members: Vec<SumMember>) -> Result<Self, PartError> {
        if !(1..=MAX_MEMBERS).contains(&members.len()) {
            let expected = format!("1 to {MAX_MEMBERS}");
            return Err(PartError::new("members of a sum", members.len(), expected));
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0].party >= pair[1].party) {
            let found = format!("{} before {}", pair[0].party, pair[1].party);
            return Err(PartError::new("members of a sum", found, "the order of their names"));
        }
        Ok(Self(members))
    }

    /// The members.
    pub fn as_slice(&self) -> &[SumMember] {
        &self.0
    }
}

/// Consecutive steps that are summed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    first: i64,
    last: i64,
}

impl Block {
    /// Checks their range and number.
    pub fn new(first: Step, last: Step) -> Result<Self, PartError> {
        let within = first.0 >= -MAX_STEP && last.0 <= MAX_STEP && first <= last;
        if within && last.0 - first.0 < MAX_STEPS as i64 {
            return Ok(Self { first: first.0, last: last.0 });
        }
        let expected = format!("1 to {MAX_STEPS} steps within ±{MAX_STEP}");
        Err(PartError::new("steps of a sum", format!("{} to {}", first.0, last.0), expected))
    }

    /// The first.
    pub fn first(&self) -> Step {
        Step(self.first)
    }

    /// The last.
    pub fn last(&self) -> Step {
        Step(self.last)
    }

    /// All.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        (self.first..=self.last).map(Step)
    }

    /// How many.
    pub fn count(&self) -> usize {
        (self.last - self.first) as usize + 1
    }

    /// For masks and signatures.
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.last.to_le_bytes());
        bytes
    }
}

/// Places of participants in their group: in order, none twice, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Included(Vec<u32>);

impl Included {
    /// Checks them.
    pub fn new(places: Vec<u32>) -> Result<Self, PartError> {
        let ordered = places.windows(2).all(|pair| pair[0] < pair[1]);
        let within = places.last().is_some_and(|last| (*last as usize) < MAX_MEMBERS);
        if ordered && within {
            return Ok(Self(places));
        }
        let expected = format!("1 to {MAX_MEMBERS} places in order, each below {MAX_MEMBERS}");
        Err(PartError::new("participants of a sum", format!("{places:?}"), expected))
    }

    /// The places.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|place| *place as usize)
    }

    /// As they are sent.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

/// Words of masked totals. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct MaskedWords(Vec<u64>);

impl MaskedWords {
    /// Checks their number.
    pub fn new(words: Vec<u64>) -> Result<Self, PartError> {
        if (1..=MAX_WORDS).contains(&words.len()) {
            return Ok(Self(words));
        }
        Err(PartError::new("words of masked totals", words.len(), format!("1 to {MAX_WORDS}")))
    }

    /// The words.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }
}

crate::debug_sizes!(MaskedWords, |it| "[{} masked words]", it.0.len());

/// Seeds of the masks that are left in a sum. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Seeds {
    own: [u8; 32],
    dropped: Vec<[u8; 32]>,
}

impl Seeds {
    /// Checks their number.
    pub fn new(own: [u8; 32], dropped: Vec<[u8; 32]>) -> Result<Self, PartError> {
        if dropped.len() < MAX_MEMBERS {
            return Ok(Self { own, dropped });
        }
        let expected = format!("fewer than {MAX_MEMBERS}");
        Err(PartError::new("seeds of masks", dropped.len(), expected))
    }

    /// Of the guest's own mask.
    pub fn own(&self) -> &[u8; 32] {
        &self.own
    }

    /// Of those that it shares with members that are not in the sum, in their order.
    pub fn dropped(&self) -> &[[u8; 32]] {
        &self.dropped
    }
}

crate::debug_sizes!(Seeds, |it| "[{} seeds]", it.dropped.len() + 1);

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(Vec<u8>);

impl Signature {
    /// Checks its length.
    pub fn new(bytes: Vec<u8>) -> Result<Self, PartError> {
        of_length("signature", bytes.len(), MAX_SIGNATURE)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// A certificate as DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateBytes(Vec<u8>);

impl CertificateBytes {
    /// Checks its length.
    pub fn new(bytes: Vec<u8>) -> Result<Self, PartError> {
        of_length("certificate", bytes.len(), MAX_CERTIFICATE)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

fn of_length(field: &'static str, found: usize, most: usize) -> Result<(), PartError> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    Err(PartError::new(field, found, format!("1 to {most} bytes")))
}

impl FromSumGuest {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            FromSumGuest::Hello(_) => "sum-hello",
            FromSumGuest::Masked { .. } => "masked-totals",
            FromSumGuest::Agreed { .. } => "sum-agreed",
            FromSumGuest::Seeds { .. } => "mask-seeds",
        }
    }
}

impl FromSumHost {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            FromSumHost::Group(_) => "sum-group",
            FromSumHost::Request { .. } => "totals-request",
            FromSumHost::Participants { .. } => "sum-participants",
            FromSumHost::Signatures { .. } => "sum-signatures",
            FromSumHost::Finish { .. } => "sum-finish",
        }
    }
}
