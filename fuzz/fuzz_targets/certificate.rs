#![no_main]

use federation::certificates::Authority;
use federation::grpc::CertificateInfo;
use federation::grpc::identity::read_certificates;
use tokio_rustls::rustls::pki_types::CertificateDer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As a peer shows it, and as it stands in a file.
    let _ = CertificateInfo::of(&CertificateDer::from(bytes));
    if let Ok(chain) = read_certificates(&fuzz::file("certificate.pem", bytes)) {
        chain.iter().for_each(|certificate| drop(CertificateInfo::of(certificate)));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Authority::from_key(text);
    }
});
