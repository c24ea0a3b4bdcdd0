//! Bytes of messages: every length, number and range is checked before use.
//!
//! ```text
//! message = 0x5E 0xA1  version:u8  kind:u8  fields…        numbers are little-endian
//! ```

use thiserror::Error;

/// The version of all encodings of this crate. A change of any of them makes a new one; a message that is made
/// otherwise is a new kind.
pub(crate) const VERSION: u8 = 2;
const MAGIC: [u8; 2] = [0x5E, 0xA1];
pub(crate) const HEADER: usize = 4;

/// Bytes that are not the message that was expected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// Not a message of this crate.
    #[error("found bytes that do not begin as a sealed message does (5E A1)")]
    Foreign,
    /// Another version.
    #[error("found version {found} of the encoding, expected {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// Another message.
    #[error("found a message of kind {found}, expected {expected:?}")]
    MessageKind {
        /// The number of the kind found.
        found: u8,
        /// What was expected.
        expected: MessageKind,
    },
    /// Too few or too many bytes.
    #[error("{what}: found {found} bytes, expected {expected}")]
    Length {
        /// The message or field.
        what: &'static str,
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// A message of an exchange that is over.
    #[error("{what}: found {found}, expected {expected}")]
    OtherExchange {
        /// The field.
        what: &'static str,
        /// The exchange found.
        found: u64,
        /// The exchange that is under way.
        expected: u64,
    },
    /// A number out of its range.
    #[error("{what}: found {found}, expected {expected}")]
    Range {
        /// The field.
        what: &'static str,
        /// The number found.
        found: String,
        /// The numbers accepted.
        expected: String,
    },
}

/// Kinds of messages, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// A guest's public key for lattice products.
    RlwePublicKey = 1,
    /// A block of a guest's values, encrypted.
    RlweUpload = 2,
    /// A host's masked products, encrypted.
    RlweQuestion = 3,
    /// The masked products, decrypted.
    RlweAnswer = 4,
    /// Coefficients of products that a guest is to get, encrypted. 5 to 8 were an earlier way to such products.
    RlweCoefficients = 9,
    /// These products, masked and encrypted.
    RlweMaskedProducts = 10,
    /// Masked products for a guest alone.
    RlweMaskedGradient = 11,
    /// An authority's public key for functional encryption.
    IpfePublicKey = 16,
    /// A vector of a guest, encrypted to the authority's key.
    IpfeUpload = 17,
    /// Rows for which a host asks for function keys.
    IpfeQuestion = 18,
    /// Function keys.
    IpfeAnswer = 19,
    /// A key authority's master key and what it has issued, as it stores them.
    AuthorityState = 20,
    /// A guest asks an authority for a new public key.
    KeyRequest = 21,
    /// Rows for which a host asks for keys of one public key.
    KeyedQuestion = 22,
    /// A guest's keys where an authority issues the host's: the fingerprint of the authority's, and a lattice key.
    KeyedPublicKey = 23,
    /// The name of a block in the clear.
    PlainUpload = 32,
    /// Rows in the clear.
    PlainQuestion = 33,
    /// Products in the clear.
    PlainAnswer = 34,
    /// Coefficients of products that a guest is to get, in the clear. 35 to 37 were an earlier way to such products.
    PlainCoefficients = 38,
    /// These products in the clear.
    PlainMaskedProducts = 39,
    /// All of them together in the clear.
    PlainMaskedGradient = 40,
    /// A vector with its noise, as a guest stores it.
    NoisedVector = 48,
    /// Commitments to a guest's values.
    Commitments = 64,
    /// A proof that committed values are in their range.
    RangeProof = 65,
    /// What hides a sum of committed values.
    Opening = 66,
}

/// Writes a message.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: MessageKind, capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + capacity);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind as u8]);
        Self(bytes)
    }

    pub(crate) fn u32(&mut self, x: u32) {
        self.0.extend(x.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, x: u64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, x: f64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, x: &[u8]) {
        self.0.extend(x);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a message.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the header.
    pub(crate) fn new(
        what: &'static str,
        kind: MessageKind,
        bytes: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(DecodeError::Length { what, found: bytes.len(), expected: HEADER });
        };
        if header[..2] != MAGIC {
            return Err(DecodeError::Foreign);
        }
        if header[2] != VERSION {
            return Err(DecodeError::Version { found: header[2] });
        }
        if header[3] != kind as u8 {
            return Err(DecodeError::MessageKind { found: header[3], expected: kind });
        }
        Ok(Self { what, rest })
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(DecodeError::Length {
                what: self.what,
                found: self.rest.len(),
                expected: count,
            });
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A count in 1..=most.
    pub(crate) fn count(&mut self, what: &'static str, most: usize) -> Result<usize, DecodeError> {
        let found = self.u32()?;
        match usize::try_from(found) {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(out_of_range(what, found, format!("1 to {most}"))),
        }
    }

    /// Bytes that are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::Length { what: self.what, found: self.rest.len(), expected: 0 })
    }
}

/// A number that is not accepted.
pub(crate) fn out_of_range(
    what: &'static str,
    found: impl ToString,
    expected: impl ToString,
) -> DecodeError {
    DecodeError::Range { what, found: found.to_string(), expected: expected.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_the_order_written() {
        let mut writer = Writer::new(MessageKind::Opening, 27);
        writer.u32(0x0403_0201);
        writer.u64(u64::MAX - 1);
        writer.f64(-0.0);
        writer.bytes(b"abc");
        writer.u32(512);
        let bytes = writer.finish();
        assert_eq!(bytes[..8], [0x5E, 0xA1, 2, 66, 1, 2, 3, 4], "numbers are little-endian");
        assert_eq!(bytes.len(), 4 + 4 + 8 + 8 + 3 + 4);
        let mut reader = Reader::new("fields", MessageKind::Opening, &bytes).unwrap();
        assert_eq!(reader.remaining(), 27);
        assert_eq!(reader.u32(), Ok(0x0403_0201));
        assert_eq!(reader.u64(), Ok(u64::MAX - 1));
        assert_eq!(reader.f64().map(f64::to_bits), Ok((-0.0f64).to_bits()));
        assert_eq!(reader.array(), Ok(*b"abc"));
        assert_eq!(reader.count("things", 512), Ok(512));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn headers_of_other_messages_are_named() {
        let bytes = Writer::new(MessageKind::RlweUpload, 0).finish();
        let read = |bytes: &[u8]| Reader::new("upload", MessageKind::RlweUpload, bytes).map(|_| ());
        assert_eq!(read(&bytes), Ok(()));
        for found in 0..4 {
            let expected = DecodeError::Length { what: "upload", found, expected: 4 };
            assert_eq!(read(&bytes[..found]), Err(expected));
        }
        assert_eq!(read(&[0xA1, 0x5E, VERSION, 2]), Err(DecodeError::Foreign));
        // Foreign bytes are not asked for their version, other versions not for their kind.
        assert_eq!(read(&[0; 4]), Err(DecodeError::Foreign));
        assert_eq!(read(&[0x5E, 0xA1, 1, 99]), Err(DecodeError::Version { found: 1 }));
        let error = read(&[0x5E, 0xA1, VERSION, 99]).unwrap_err();
        assert_eq!(
            error,
            DecodeError::MessageKind { found: 99, expected: MessageKind::RlweUpload }
        );
        assert_eq!(error.to_string(), "found a message of kind 99, expected RlweUpload");
    }

    #[test]
    fn bytes_that_are_missing_or_left_are_counted() {
        let bytes = [0x5E, 0xA1, VERSION, MessageKind::Opening as u8, 1, 0, 0, 0, 7];
        let mut reader = Reader::new("opening", MessageKind::Opening, &bytes).unwrap();
        // A field that is not there takes nothing.
        let missing = DecodeError::Length { what: "opening", found: 5, expected: 8 };
        assert_eq!(reader.u64(), Err(missing.clone()));
        assert_eq!(reader.f64(), Err(missing));
        assert_eq!(
            reader.bytes(usize::MAX).unwrap_err().to_string(),
            format!("opening: found 5 bytes, expected {}", usize::MAX)
        );
        assert_eq!(reader.count("things", 1), Ok(1));
        let left = DecodeError::Length { what: "opening", found: 1, expected: 0 };
        assert_eq!(reader.finish(), Err(left));
    }

    #[test]
    fn counts_are_from_one_to_the_most() {
        for (found, sound) in [(0, false), (1, true), (10, true), (11, false), (u32::MAX, false)] {
            let mut writer = Writer::new(MessageKind::Opening, 4);
            writer.u32(found);
            let bytes = writer.finish();
            let mut reader = Reader::new("opening", MessageKind::Opening, &bytes).unwrap();
            let counted = reader.count("things", 10);
            if sound {
                assert_eq!(counted, Ok(found as usize));
            } else {
                let error = counted.unwrap_err().to_string();
                assert_eq!(error, format!("things: found {found}, expected 1 to 10"));
            }
        }
    }
}
