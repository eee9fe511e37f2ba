//! Servers' tokens, and their form in the file.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::values::hex;

/// The version of the form. A file with another version is replaced.
const FORM: u32 = 1;
/// Maximum number of tokens. The oldest make room.
const MOST: usize = 128;
/// Maximum number of tokens per server, which allows as many concurrent transfers.
const OF_A_SERVER: usize = 4;
/// Maximum length of a token in bytes. This project's servers use at most 55 bytes.
const LONGEST_TOKEN: usize = 256;
/// Maximum length of a server's name. A host name has up to 253 characters.
const LONGEST_NAME: usize = 300;
/// This project's servers accept a token for a day.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A token that proves to a server that this host receives packets at its address (RFC 9000
/// section 8.1.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// `HOST:PORT` as the user wrote it.
    server: String,
    /// The local address of the connection that received the token. From another address, it
    /// would prove nothing and reveal that it is the same host.
    from: IpAddr,
    /// When it was received, in seconds since 1970-01-01 UTC.
    at: u64,
    /// The token in hexadecimal.
    token: String,
}

/// Servers' tokens, the latest last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tokens {
    form: u32,
    tokens: Vec<Entry>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            form: FORM,
            tokens: Vec::new(),
        }
    }
}

impl Tokens {
    /// Parses a file. Returns `None` if it is invalid. An empty file, which a crash of the
    /// machine may leave, has no tokens.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let read: Self = serde_json::from_slice(bytes).ok()?;
        (read.form == FORM).then_some(read)
    }

    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// Removes the latest token of `server` for a host at `from`, because each token is valid
    /// for only one connection.
    pub(super) fn take(&mut self, now: Duration, server: &str, from: IpAddr) -> Option<Vec<u8>> {
        self.forget(now);
        loop {
            let fits = |entry: &Entry| entry.server == server && entry.from == from;
            let found = self.tokens.iter().rposition(fits)?;
            let bytes = from_hex(&self.tokens.remove(found).token);
            if bytes.is_some() {
                return bytes;
            }
        }
    }

    /// Adds a token that `server` gave to a host at `from`.
    pub(super) fn add(&mut self, now: Duration, server: &str, from: IpAddr, token: &[u8]) {
        if token.is_empty() || token.len() > LONGEST_TOKEN || server.len() > LONGEST_NAME {
            return;
        }
        self.forget(now);
        self.tokens.push(Entry {
            server: server.to_owned(),
            from,
            at: now.as_secs(),
            token: hex(token),
        });
        let of_server = |entry: &Entry| entry.server == server;
        let count = self.tokens.iter().filter(|entry| of_server(entry)).count();
        let mut above = count.saturating_sub(OF_A_SERVER);
        self.tokens.retain(|entry| {
            let old = above > 0 && of_server(entry);
            above -= usize::from(old);
            !old
        });
        let above = self.tokens.len().saturating_sub(MOST);
        self.tokens.drain(..above);
    }

    /// Removes tokens that are too old, too long, or from the future.
    fn forget(&mut self, now: Duration) {
        let now = now.as_secs();
        self.tokens.retain(|entry| {
            now.checked_sub(entry.at)
                .is_some_and(|age| age < LIFETIME.as_secs())
                && entry.server.len() <= LONGEST_NAME
                && entry.token.len() <= 2 * LONGEST_TOKEN
        });
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes = pairs
        .iter()
        .map(|&[high, low]| u8::try_from(digit(high)? << 4 | digit(low)?).ok());
    bytes
        .collect::<Option<Vec<_>>>()
        .filter(|bytes| rest.is_empty() && !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::LONGEST_FILE;
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    fn at(hours: u64) -> Duration {
        Duration::from_secs(1_000_000 + 3600 * hours)
    }

    #[test]
    fn a_token_serves_once_the_latest_first_and_from_its_address() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.take(at(0), "a:1", HERE), None);
        for token in [b"one", b"two"] {
            tokens.add(at(0), "a:1", HERE, token);
        }
        assert_eq!(tokens.take(at(0), "a:2", HERE), None);
        assert_eq!(tokens.take(at(0), "a:1", THERE), None);
        let mut tokens = Tokens::parse(&tokens.to_bytes().unwrap()).unwrap();
        assert_eq!(tokens.take(at(23), "a:1", HERE).unwrap(), b"two");
        assert_eq!(tokens.take(at(23), "a:1", HERE).unwrap(), b"one");
        assert_eq!(tokens.take(at(23), "a:1", HERE), None);
    }

    #[test]
    fn what_is_old_or_of_the_future_is_forgotten() {
        for now in [at(24), at(0) - Duration::from_secs(1)] {
            let mut tokens = Tokens::default();
            tokens.add(at(0), "a:1", HERE, b"token");
            assert_eq!(tokens.take(now, "a:1", HERE), None);
            assert_eq!(tokens, Tokens::default());
        }
    }

    /// Any servers and tokens result in a bounded file, and a server can't displace another
    /// one's token.
    #[test]
    fn the_file_is_bounded_and_one_server_keeps_its_place() {
        let mut tokens = Tokens::default();
        tokens.add(at(0), "honest:1", HERE, b"token");
        for _ in 0..1000 {
            tokens.add(at(1), "greedy:1", HERE, &[7; LONGEST_TOKEN]);
        }
        let mut kept = tokens.clone();
        assert_eq!(kept.take(at(1), "honest:1", HERE).unwrap(), b"token");
        tokens.add(at(1), "greedy:1", HERE, &[7; LONGEST_TOKEN + 1]);
        tokens.add(at(1), &"x".repeat(LONGEST_NAME + 1), HERE, b"token");
        assert_eq!(tokens.tokens.len(), 1 + OF_A_SERVER);
        for server in 0..1000 {
            let name = format!("{server:0>LONGEST_NAME$}");
            for _ in 0..OF_A_SERVER {
                tokens.add(at(1), &name, THERE, &[255; LONGEST_TOKEN]);
            }
        }
        assert_eq!(tokens.tokens.len(), MOST);
        let bytes = tokens.to_bytes().unwrap().len();
        assert!(bytes as u64 <= LONGEST_FILE, "{bytes}");
        assert_eq!(Tokens::parse(&tokens.to_bytes().unwrap()), Some(tokens));
    }

    #[test]
    fn other_files_are_not_of_this_form() {
        assert_eq!(Tokens::parse(b""), Some(Tokens::default()));
        for text in [
            "x",
            "{}",
            "[]",
            r#"{"form":2,"tokens":[]}"#,
            r#"{"form":1,"tokens":[{}]}"#,
            r#"{"form":1,"tokens":[{"server":"a:1","from":"x","at":1,"token":""}]}"#,
        ] {
            assert_eq!(Tokens::parse(text.as_bytes()), None, "{text}");
        }
        // Invalid tokens are skipped.
        let entry =
            |token| format!(r#"{{"server":"a:1","from":"::1","at":1000000,"token":"{token}"}}"#);
        let entries = ["0a0B", "", "0", "zz", "é0"].map(entry).join(",");
        let text = format!(r#"{{"form":1,"tokens":[{entries}]}}"#);
        let mut tokens = Tokens::parse(text.as_bytes()).unwrap();
        assert_eq!(tokens.take(at(0), "a:1", THERE).unwrap(), [10, 11]);
        assert_eq!(tokens, Tokens::default());
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut sample = Tokens::default();
        sample.add(at(0), "a:1", HERE, b"token");
        let good = sample.to_bytes().unwrap();
        for place in 0..good.len() {
            for byte in [0, b'"', b'9', b'[', b'}', 0xff] {
                let mut bytes = good.clone();
                bytes[place] = byte;
                if let Some(mut tokens) = Tokens::parse(&bytes) {
                    let _ = tokens.take(at(1), "a:1", HERE);
                    tokens.add(at(1), "a:1", HERE, b"next");
                    let token = tokens.take(at(1), "a:1", HERE);
                    assert_eq!(token.unwrap(), b"next");
                }
            }
            assert_eq!(Tokens::parse(&good[..place]).is_some(), place == 0);
        }
    }
}
