use super::*;
use crate::certificates::{Authority, Issued, NewAuthority, Validity};
use tokio_rustls::rustls::pki_types::pem::PemObject;

fn identity(folder: &std::path::Path, issued: &Issued) -> Identity {
    let (certificate, key) = (folder.join("one.pem"), folder.join("one.key"));
    std::fs::write(&certificate, &issued.certificate).unwrap();
    durable::write_private(&key, issued.key.as_bytes()).unwrap();
    Identity::read(&certificate, &key).unwrap()
}

fn roots(authority: &NewAuthority) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(authority.issued.certificate.as_bytes()).unwrap()]
}

#[test]
fn only_a_guest_of_the_authority_that_is_not_left_out_signs() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(Validity::days(10)).unwrap();
    let other = Authority::create(Validity::days(10)).unwrap();
    let name = |name: &str| PartyId::new(name).unwrap();
    let sign = |issued: &Issued| {
        let key = SigningKey::of(&identity(folder.path(), issued)).unwrap();
        (key.certificate().clone(), key.sign(b"a statement").unwrap())
    };
    let trusted = GuestCertificates::new(&roots(&authority), None).unwrap();
    let (certificate, signature) = sign(&authority.guest("a", Validity::days(10)).unwrap());
    let verify = |by: &GuestCertificates, party: &str, statement: &[u8]| {
        by.verify(&name(party), &certificate, statement, &signature)
    };
    assert_eq!(verify(&trusted, "a", b"a statement"), Ok(()));
    assert!(verify(&trusted, "a", b"another statement").unwrap_err().starts_with("signature:"));
    let error = verify(&trusted, "b", b"a statement").unwrap_err();
    assert!(error.contains("expected one of the guest `b`"), "{error}");
    let stranger = GuestCertificates::new(&roots(&other), None).unwrap();
    assert!(verify(&stranger, "a", b"a statement").unwrap_err().starts_with("certificate:"));
    let own = Fingerprint::of(certificate.as_slice());
    let pinned = |pinned: BTreeMap<PartyId, Vec<Fingerprint>>| {
        GuestCertificates::new(&roots(&authority), Some(pinned)).unwrap()
    };
    assert_eq!(verify(&pinned([(name("a"), vec![own])].into()), "a", b"a statement"), Ok(()));
    for without in [[(name("b"), vec![own])], [(name("a"), vec![Fingerprint::of(b"other")])]] {
        let error = verify(&pinned(without.into()), "a", b"a statement").unwrap_err();
        assert!(error.contains("under participants"), "{error}");
    }
    // A host is no guest, and a certificate ends.
    let host = authority.host("a", &["localhost".into()], Validity::days(10)).unwrap();
    let (certificate, signature) = sign(&host);
    let error = trusted.verify(&name("a"), &certificate, b"a statement", &signature).unwrap_err();
    assert!(error.contains("found one of Host `a`"), "{error}");
    let (certificate, signature) = sign(&authority.guest("a", Validity::days_from(0, 1)).unwrap());
    let error = trusted.verify(&name("a"), &certificate, b"a statement", &signature).unwrap_err();
    assert!(error.starts_with("certificate:"), "{error}");
}
