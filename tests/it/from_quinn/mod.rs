//! One program, compiled against pathmark and against quinn by replacing the crate's name.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

mod of_pathmark {
    #![allow(unused_mut, reason = "quinn's endpoints must be mutable")]

    use pathmark as api;

    include!("program.rs");
}

mod of_quinn {
    use quinn as api;

    include!("program.rs");
}

fn identity() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    (made.cert.der().clone(), key)
}

const BYTES: usize = 3_000_000;

#[tokio::test]
async fn a_program_for_quinn_runs_on_pathmark_and_against_quinn() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (certificate, key) = identity();
    let ours = of_pathmark::serve(certificate.clone(), key.clone_key()).unwrap();
    let theirs = of_quinn::serve(certificate.clone(), key).unwrap();
    for address in [ours.0, theirs.0] {
        within(of_pathmark::fetch(address, certificate.clone(), BYTES)).await;
        within(of_quinn::fetch(address, certificate.clone(), BYTES)).await;
    }
}

async fn within(what: impl Future<Output = anyhow::Result<()>>) {
    let ended = tokio::time::timeout(Duration::from_secs(30), what).await;
    ended.unwrap().unwrap();
}

/// What the page calls the same is in the program.
#[test]
fn the_page_lists_what_the_program_uses() {
    let page = include_str!("../../../docs/from-quinn.md");
    let program = include_str!("program.rs");
    let (_, same) = page.split_once("## The same").unwrap();
    let (same, _) = same.split_once("\n## ").unwrap();
    let names: Vec<_> = same.split('`').skip(1).step_by(2).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(program.contains(name), "{name} is not in program.rs");
    }
}
