//! Signatures of guests, as a sum needs them: made and checked by the transport, which knows certificates.

use protocol::message::sums::{CertificateBytes, Signature};
use protocol::party::PartyId;

/// A guest's certificate, and the key that it is of.
pub trait Credentials: Send {
    /// The certificate.
    fn certificate(&self) -> &CertificateBytes;
    /// Signs a statement.
    ///
    /// # Errors
    /// With what went wrong, in words.
    fn sign(&self, statement: &[u8]) -> Result<Signature, String>;
}

/// Whose signatures a party trusts.
pub trait Verifier: Send {
    /// Checks that a guest has signed a statement: that the authority knows its certificate as that of this guest, and that it is one
    /// of those that were pinned, if any were.
    ///
    /// # Errors
    /// With what was found and expected.
    fn verify(
        &self,
        party: &PartyId,
        certificate: &CertificateBytes,
        statement: &[u8],
        signature: &Signature,
    ) -> Result<(), String>;
}
