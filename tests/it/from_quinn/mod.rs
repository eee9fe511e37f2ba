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
    let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let ours = of_pathmark::serve(certificate.clone(), key.clone_key(), ended.clone()).unwrap();
    let theirs = of_quinn::serve(certificate.clone(), key, ended).unwrap();
    for address in [ours.0, theirs.0] {
        within(of_pathmark::fetch(address, certificate.clone(), BYTES)).await;
        assert_eq!(ends.recv().await, Some(Ok(())));
        within(of_quinn::fetch(address, certificate.clone(), BYTES)).await;
        assert_eq!(ends.recv().await, Some(Ok(())));
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
    let lines = include_str!("program.rs").lines();
    let lines = lines.skip_while(|line| !line.starts_with("const ALPN"));
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let program: String = lines.map(|line| format!("{line}\n")).collect();
    let identifier = |letter: char| letter.is_alphanumeric() || letter == '_';
    let whole = |name: &str| {
        program.match_indices(name).any(|(at, _)| {
            let before = program[..at].chars().next_back();
            let after = program[at + name.len()..].chars().next();
            !before.is_some_and(identifier) && !after.is_some_and(identifier)
        })
    };
    let (_, same) = page.split_once("## The same").unwrap();
    let (same, _) = same.split_once("\n## ").unwrap();
    let names: Vec<_> = same.split('`').skip(1).step_by(2).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(whole(name), "{name} is not in program.rs");
    }
}
