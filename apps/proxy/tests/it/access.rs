//! Users, tokens, limits and addresses of a proxy.

use std::io::ErrorKind;
use std::time::Duration;

use pathmark_http3::http::{Method, Request, StatusCode};
use pathmark_http3::wire::ClientLink;
use pathmark_proxy::outbound::{Outbound, Refusal};
use pathmark_proxy::server::Access;
use pathmark_proxy::target::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Served, access, echo, failure, listener, run, until};

/// After the limit is raised, an existing connection that has used all of its streams gets more.
#[test]
fn a_raised_limit_holds_for_connections_that_are_there() {
    run(async {
        let limited = |flows_per_user| Access {
            flows_per_user,
            ..access(&["a"])
        };
        let served = Served::new(limited(1));
        let (_listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        let _first = tunnel.tcp(&to).await.unwrap();
        assert_eq!(tunnel.tcp(&to).await.map(drop), Err(Refusal::Busy));
        served.proxy.change(limited(100));
        let mut flows = Vec::new();
        for _ in 0..99 {
            flows.push(tunnel.tcp(&to).await.unwrap());
        }
        assert_eq!(tunnel.tcp(&to).await.map(drop), Err(Refusal::Busy));
    });
}

/// A client that takes the proxy for a server of files is told so, unless a response to its method
/// has no content (RFC 9110 section 9.3.2).
#[test]
fn requests_for_files_are_refused_with_a_reason() {
    run(async {
        let served = Served::new(access(&["a"]));
        let link = ClientLink::new(served.connect().await, 10_000).await;
        let link = link.unwrap();
        for (method, has_reason) in [(Method::GET, true), (Method::HEAD, false)] {
            let head = Request::builder().method(&method);
            let head = head.uri("https://localhost/file").body(()).unwrap();
            let mut exchange = link.request(head).await.unwrap();
            exchange.finish(None).await.unwrap();
            let response = exchange.response().await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            let content = exchange.data().await.unwrap().unwrap_or_default();
            let said = String::from_utf8_lossy(&content);
            assert_eq!(said.contains("pathmark tunnel"), has_reason, "{method}");
            assert_eq!(content.is_empty(), !has_reason, "{method}");
        }
    });
}

#[test]
fn a_user_above_the_limit_disturbs_no_other() {
    run(async {
        let mut access = access(&["a", "b"]);
        access.flows_per_user = 10;
        let served = Served::new(access);
        let (listener, to) = listener().await;
        tokio::spawn(echo(listener));
        let greedy = served.tunnel("a");
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(greedy.tcp(&to).await.unwrap());
        }
        for _ in 0..30 {
            assert_eq!(greedy.tcp(&to).await.map(drop), Err(Refusal::Busy));
        }
        let (mut read, mut write) = served.tunnel("b").tcp(&to).await.unwrap();
        write.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        read.read_exact(&mut answer).await.unwrap();
        assert_eq!(served.proxy.counts().busy, 30);
        // Places are free again once flows have ended.
        held.clear();
        until(|| served.proxy.flows() <= 1).await;
        assert!(greedy.tcp(&to).await.is_ok());
    });
}

#[test]
fn a_revoked_user_loses_flows_and_others_keep_them() {
    run(async {
        let served = Served::new(access(&["a", "b"]));
        let (listener, to) = listener().await;
        tokio::spawn(echo(listener));
        let (kept, gone) = (served.tunnel("a"), served.tunnel("b"));
        let (mut kept_read, mut kept_write) = kept.tcp(&to).await.unwrap();
        let (mut gone_read, _gone_write) = gone.tcp(&to).await.unwrap();
        served.proxy.change(access(&["a"]));
        assert_eq!(failure(&mut gone_read).await, ErrorKind::ConnectionReset);
        let refused = gone.tcp(&to).await.map(drop);
        assert_eq!(refused, Err(Refusal::Unauthorized));
        kept_write.write_all(b"x").await.unwrap();
        assert_eq!(kept_read.read_u8().await.unwrap(), b'x');
        let counts = served.proxy.counts();
        assert_eq!((counts.revoked, counts.unauthorized), (1, 1));
    });
}

/// `localhost` is an address of the host, whichever name resolves to it.
#[test]
fn a_name_that_leads_to_a_denied_address_is_denied() {
    run(async {
        let mut access = access(&["a"]);
        access.policy.allow.clear();
        let served = Served::new(access);
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        let named = Target::new("localhost", to.port).unwrap();
        assert_eq!(tunnel.tcp(&named).await.map(drop), Err(Refusal::Denied));
        assert_eq!(tunnel.tcp(&to).await.map(drop), Err(Refusal::Denied));
        let accepted = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(accepted.is_err());
    });
}
