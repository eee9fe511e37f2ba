//! Tests SOCKS and HTTP CONNECT with curl.

use std::process::Stdio;

use pathmark_proxy::ingress::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::bed::{Bed, head, target, within};
use super::direct::Direct;

/// Runs curl, and returns its output and exit code.
async fn curl(arguments: &[&str]) -> (String, Option<i32>) {
    let mut curl = Command::new("curl");
    // The environment of the tests may configure a proxy.
    for name in "http_proxy https_proxy all_proxy no_proxy ALL_PROXY NO_PROXY".split(' ') {
        curl.env_remove(name);
    }
    curl.args(["--silent", "--show-error", "--max-time", "20"]);
    let output = curl.args(arguments).stderr(Stdio::inherit()).output();
    let output = within(output).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (said, output.status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_fetches_and_learns_of_refusals() {
    if let Err(error) = Command::new("curl").arg("--version").output().await {
        assert!(
            std::env::var_os("CI").is_none(),
            "curl judges ingresses: install it ({error})"
        );
        println!("not judged: curl is not installed ({error})");
        return;
    }
    let (listener, target) = target().await;
    tokio::spawn(async move {
        while let Ok((mut served, _)) = listener.accept().await {
            let head = head(&mut served).await;
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = format!("HTTP/1.0 200 OK\r\n\r\nyou asked for {path}");
            served.write_all(answer.as_bytes()).await.unwrap();
            served.shutdown().await.unwrap();
            let _ = served.read(&mut [0; 64]).await;
        }
    });
    let direct = Direct::with_names(&[("far.invalid", "127.0.0.1")]);
    let bed = Bed::new(direct.clone());
    let socks = format!("socks5h://{}", bed.listen(Service::Socks));
    let http = format!("http://{}", bed.listen(Service::Http));
    for proxy in [&socks, &http] {
        let by_name = format!("http://far.invalid:{}/a", target.port);
        let by_address = format!("http://{target}/a");
        for url in [by_name, by_address] {
            let got = curl(&["--proxytunnel", "--proxy", proxy, &url]).await;
            assert_eq!(got, ("you asked for /a".into(), Some(0)), "{proxy} {url}");
        }
    }
    // CURLE_PROXY (97) and CURLE_RECV_ERROR (56).
    let missing = "http://missing.invalid/";
    assert_eq!(curl(&["--proxy", &socks, missing]).await.1, Some(97));
    let got = curl(&["--proxytunnel", "--include", "--proxy", &http, missing]).await;
    assert_eq!(got.1, Some(56));
    assert!(
        got.0.contains("Proxy-Status: pathmark; error=dns_error"),
        "{}",
        got.0
    );
}
