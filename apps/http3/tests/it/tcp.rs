//! HTTP/2 over TCP keeps the promises of HTTP/3, and withstands what attacks HTTP/2 alone.

use std::process::Command;
use std::sync::Arc;

use pathmark_http3::plan::PutRights;
use pathmark_http3::wire::{ALPN, ALPN_TCP};
use pathmark_transport::crypto::tls::{TlsClientConfig, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{NAME, Served, content, get, over_tcp, run};
use crate::{attacks, limits, origin, room, sparse, transfers, trees, uploads};

#[test]
fn what_holds_over_quic_holds_over_tcp() {
    let tests: &[fn()] = &[
        attacks::requests_without_progress_are_reset,
        origin::files_are_served_whole_and_in_parts,
        origin::a_digest_is_in_the_header_or_the_trailer_section,
        origin::directories_are_listed_in_both_forms,
        origin::refusals_have_problem_details_and_the_connection_goes_on,
        origin::puts_are_stored_whole_or_not_at_all,
        origin::two_writers_of_one_name_do_not_mix,
        origin::a_response_counts_after_its_request_was_stopped,
        transfers::files_arrive_with_their_digests,
        transfers::a_get_goes_on_where_it_stopped,
        transfers::puts_are_confirmed,
        transfers::a_put_of_a_file_that_changes_is_cancelled,
        limits::names_of_no_file_get_a_status,
        limits::a_name_of_64_kilobytes_gets_a_status,
        limits::no_link_leads_a_client_out_of_its_directory,
        uploads::a_put_goes_on_where_it_broke_off,
        uploads::a_source_that_changed_is_sent_again_and_a_lost_answer_is_found,
        uploads::a_damaged_upload_gets_no_name,
        uploads::an_upload_comes_in_parts_from_a_foreign_client,
        trees::a_tree_comes_with_names_modes_times_links_and_empty_directories,
        trees::what_is_in_the_way_is_named_and_the_rest_comes,
        sparse::sparse_files_stay_sparse,
        room::holes_need_no_room,
    ];
    for test in tests {
        over_tcp(*test);
    }
}

/// Types of frames (RFC 9113 section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// The flags END_STREAM, and with it END_HEADERS.
const LAST: u8 = 1;
const WHOLE: u8 = 5;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const ENHANCE_YOUR_CALM: u32 = 11;
/// `:method: GET`, `:scheme: https`, `:path: /` and `:authority: localhost` (RFC 7541 appendix A).
const GET: &[u8] = b"\x82\x87\x84\x41\x09localhost";
/// A field without indexing (RFC 7541 section 6.2.2).
const FIELD: &[u8] = b"\x00\x01x\x01y";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()];
    [&head.concat(), payload].concat()
}

/// Sends frames on a connection, and returns the code of the GOAWAY with which the server ends it.
async fn flood(served: &Served, frames: &[u8]) -> Option<u32> {
    let tls = TlsClientConfig::new(Trust::Anyone, &[ALPN]).unwrap();
    let tls = TlsConnector::from(Arc::new(tls.over_tcp(&[ALPN_TCP])));
    let stream = TcpStream::connect(served.tcp.unwrap()).await.unwrap();
    let stream = tls.connect(NAME.try_into().unwrap(), stream).await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let sent = [preface, &frame(SETTINGS, 0, 0, &[])[..], frames].concat();
    let mut received = Vec::new();
    let reading = async {
        // The end can be a reset, because the server reads nothing more.
        while matches!(read.read_buf(&mut received).await, Ok(1..)) {}
    };
    let writing = async {
        let _ = write.write_all(&sent).await;
    };
    tokio::join!(reading, writing);
    let (mut rest, mut code) = (&received[..], None);
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, next)) = after.split_at_checked(length) else {
            break;
        };
        if head[3] == GOAWAY {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = next;
    }
    code
}

/// Streams are opened and reset at once (CVE-2023-44487), or a header section never ends
/// (CVE-2024-27316). The connection ends, and another client is served.
#[test]
fn floods_end_their_connection_alone() {
    run(async {
        let served = Served::new(PutRights::None);
        served.write("file", b"honest").await;
        let mut resets = Vec::new();
        for stream in (1..20_000).step_by(2) {
            resets.extend(frame(HEADERS, WHOLE, stream, GET));
            resets.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        }
        let mut endless = frame(HEADERS, LAST, 1, GET);
        for _ in 0..10_000 {
            endless.extend(frame(CONTINUATION, 0, 1, FIELD));
        }
        for frames in [resets, endless] {
            assert_eq!(flood(&served, &frames).await, Some(ENHANCE_YOUR_CALM));
            let link = served.link_tcp().await;
            assert_eq!(get(&link, "/file", &[]).await.content, b"honest");
        }
    });
}

/// Runs curl, and returns the version of HTTP, the status and the content.
async fn curl(arguments: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    for name in ["https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        curl.env_remove(name);
    }
    curl.args(["--silent", "--show-error", "--max-time", "20", "--insecure"]);
    curl.args(["--write-out", "%{stderr}%{http_version} %{http_code}"]);
    curl.args(arguments);
    let ended = tokio::task::spawn_blocking(move || curl.output().unwrap());
    let ended = ended.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(ended.stderr), text(ended.stdout))
}

/// A foreign client that speaks HTTP/2 alone.
#[tokio::test]
async fn curl_fetches_and_stores() {
    let features = Command::new("curl").arg("--version").output();
    let features = features.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !features.is_ok_and(|features| features.contains("HTTP2")) {
        assert!(
            std::env::var_os("CI").is_none(),
            "install a curl with HTTP/2"
        );
        println!("not judged: no curl with HTTP/2 is installed");
        return;
    }
    let served = Served::new(PutRights::New);
    let (large, source) = (content(3_000_000), served.directory.path().join("large"));
    served.write("large", &large).await;
    served.write("small", b"0123456789").await;
    let at = |name: &str| format!("https://{}/{name}", served.tcp.unwrap());
    for (arguments, status, expected) in [
        (&[at("small")][..], "2 200", "0123456789"),
        (
            &["--range".to_owned(), "3-5".to_owned(), at("small")],
            "2 206",
            "345",
        ),
        (
            &[
                "--upload-file".to_owned(),
                source.display().to_string(),
                at("put"),
            ],
            "2 201",
            "",
        ),
    ] {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let (got, content) = curl(&arguments).await;
        assert_eq!(
            (got.as_str(), content.as_str()),
            (status, expected),
            "{arguments:?}"
        );
    }
    assert!(served.read("put") == large);
    let (got, _) = curl(&["--head", &at("none")]).await;
    assert_eq!(got, "2 404");
}
