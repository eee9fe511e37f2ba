//! URIs that describe how to reach a proxy: `pathmark://TOKEN@HOST:PORT?pin=SHA256`. A user with
//! a certificate doesn't need a token, which is a bearer token (RFC 6750).
//!
//! The path of UDP flows (RFC 9298 section 2) is
//! `/.well-known/masque/udp/{target_host}/{target_port}/`.

use std::fmt;
use std::str::FromStr;

use pathmark_http3::fields::{decode_bytes, encode_name};
use pathmark_http3::http::HeaderMap;
use pathmark_http3::http::header::{AUTHORIZATION, HeaderValue, PROXY_AUTHORIZATION};
use pathmark_transport::crypto::tls::Pin;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::target::{Host, Target, TargetError};

const SCHEME: &str = "pathmark://";
const PIN: &str = "pin=";

/// A proxy, a user's token, and the pin of the proxy's certificate. `Debug` never shows the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUri {
    /// The token, or `None` for a user with a certificate.
    pub token: Option<Token>,
    /// The proxy's host and port.
    pub server: Target,
    /// The SHA-256 of its certificate. Without a pin, the certificate must be issued by a
    /// trusted authority.
    pub pin: Option<Pin>,
}

/// A text is not a valid URI. Messages never include the text, because it may contain a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUri {
    /// The form is invalid.
    #[error("the URI of a proxy has the form pathmark://[TOKEN@]HOST:PORT[?pin=SHA256]")]
    Form,
    /// The token is invalid.
    #[error("the token of the URI is wrong: {0}")]
    Token(#[from] BadToken),
    /// The host or port is invalid.
    #[error("the host and port of the URI are wrong: {0}")]
    Server(#[from] TargetError),
    /// The pin is invalid.
    #[error("the pin of the URI is no SHA-256 in hexadecimal")]
    Pin,
}

impl FromStr for ProxyUri {
    type Err = BadUri;

    fn from_str(text: &str) -> Result<Self, BadUri> {
        let rest = text.strip_prefix(SCHEME).ok_or(BadUri::Form)?;
        let (token, rest) = match rest.split_once('@') {
            Some((token, rest)) => (Some(token.parse()?), rest),
            None => (None, rest),
        };
        let (server, query) = match rest.split_once('?') {
            Some((server, query)) => (server, Some(query)),
            None => (rest, None),
        };
        let server = server.strip_suffix('/').unwrap_or(server);
        let pin = query.map(|query| {
            let pin = query.strip_prefix(PIN).ok_or(BadUri::Form)?;
            pin.parse().map_err(|_| BadUri::Pin)
        });
        Ok(Self {
            token,
            server: server.parse()?,
            pin: pin.transpose()?,
        })
    }
}

/// Includes the token.
impl fmt::Display for ProxyUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(token) = &self.token {
            write!(f, "{}@", token.secret())?;
        }
        write!(f, "{}", self.server)?;
        match &self.pin {
            Some(pin) => write!(f, "?{PIN}{pin}"),
            None => Ok(()),
        }
    }
}

/// The path before the host.
const PREFIX: &str = "/.well-known/masque/udp/";

/// Formats the path for a target, percent-encoding the colons of an IPv6 address.
pub fn path(target: &Target) -> String {
    let host = match &target.host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    };
    format!("{PREFIX}{}/{}/", encode_name(host.as_bytes()), target.port)
}

/// Parses the target from a path.
///
/// # Errors
/// [`TargetError`].
pub fn target(path: &str) -> Result<Target, TargetError> {
    let rest = path.strip_prefix(PREFIX).ok_or(TargetError::Host)?;
    let (host, port) = rest.split_once('/').ok_or(TargetError::Port)?;
    let port = port.strip_suffix('/').ok_or(TargetError::Port)?;
    let host = decode_bytes(host.as_bytes()).map_err(|_| TargetError::Host)?;
    let host = String::from_utf8(host).map_err(|_| TargetError::Host)?;
    Target::new(&host, crate::target::port(port)?)
}

/// Minimum length of a token. In base64, 16 characters have 96 bits.
const SHORTEST: usize = 16;
/// Maximum length of a token.
const LONGEST: usize = 1024;

/// A secret made of letters, digits, `-`, `.`, `_` and `~`. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {SHORTEST} to {LONGEST} characters, each of them a letter, a digit, `-`, `.`, `_` \
     or `~`"
)]
pub struct BadToken;

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(known) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadToken)
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Returns the token itself.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Returns a field value with the token, which must not be compressed.
    pub fn bearer(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Returns the hash that a proxy stores.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl TokenHash {
    fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns the hash of the token in either field of a request.
    pub fn in_request(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(PROXY_AUTHORIZATION);
        let value = value.or_else(|| headers.get(AUTHORIZATION))?.as_bytes();
        let (scheme, token) = value.split_at_checked(7)?;
        let bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
        bearer.then(|| Self::of(token.trim_ascii()))
    }

    /// Compares in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn uris_come_back() {
        let pin = "ab".repeat(32);
        for rest in [
            "proxy.example:4433".to_owned(),
            format!("192.0.2.1:4433?pin={pin}"),
            format!("[2001:db8::1]:4433?pin={pin}"),
        ] {
            let text = format!("pathmark://{TOKEN}@{rest}");
            let uri: ProxyUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), text);
            assert!(!format!("{uri:?}").contains(TOKEN));
        }
        let open = "pathmark://a.example:4433";
        let uri: ProxyUri = open.parse().unwrap();
        assert_eq!((uri.to_string().as_str(), uri.token), (open, None));
        let slash = format!("pathmark://{TOKEN}@a:1/");
        assert_eq!(slash.parse::<ProxyUri>().unwrap().pin, None);
    }

    #[test]
    fn each_fault_has_its_name() {
        for (text, error) in [
            ("https://a:1", BadUri::Form),
            ("pathmark://x@a:1", BadUri::Token(BadToken)),
            ("pathmark://TOKEN@a", BadUri::Server(TargetError::Port)),
            ("pathmark://TOKEN@:1", BadUri::Server(TargetError::Host)),
            ("pathmark://TOKEN@a:1?pin=12", BadUri::Pin),
            ("pathmark://TOKEN@a:1?key=12", BadUri::Form),
        ] {
            let text = text.replace("TOKEN", TOKEN);
            assert_eq!(text.parse::<ProxyUri>(), Err(error), "{text}");
        }
    }

    #[test]
    fn targets_come_back() {
        for (text, expected) in [
            ("example.org:53", "example.org/53/"),
            ("192.0.2.6:443", "192.0.2.6/443/"),
            ("[2001:db8::42]:443", "2001%3Adb8%3A%3A42/443/"),
        ] {
            let expected = format!("/.well-known/masque/udp/{expected}");
            let parsed: Target = text.parse().unwrap();
            assert_eq!(path(&parsed), expected);
            assert_eq!(target(&expected), Ok(parsed));
        }
        // Clients can encode unreserved bytes and leave colons unencoded.
        let plain = target("/.well-known/masque/udp/2001:db8::42/443/");
        assert_eq!(plain.unwrap().to_string(), "[2001:db8::42]:443");
        let encoded = target("/.well-known/masque/udp/%65xample.org/53/");
        assert_eq!(encoded.unwrap().to_string(), "example.org:53");
    }

    #[test]
    fn other_paths_are_refused() {
        let rests = "|a/53|a/53/x|a/0/|a/65536/|a/+5/|/53/|a%2/53/|a%2fb/53/|%ff/53/|*/*/";
        let paths = rests
            .split('|')
            .map(|rest| format!("/.well-known/masque/udp/{rest}"));
        for path in paths.chain(["".to_owned(), "/".to_owned()]) {
            assert!(target(&path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_token_comes_back_from_either_field() {
        let token: Token = "0123456789abcdef".parse().unwrap();
        for name in [PROXY_AUTHORIZATION, AUTHORIZATION] {
            let mut headers = HeaderMap::new();
            headers.insert(name, token.bearer().unwrap());
            let hash = TokenHash::in_request(&headers).unwrap();
            assert!(hash.matches(&token.hash()));
            let other: Token = "0123456789abcdeF".parse().unwrap();
            assert!(!hash.matches(&other.hash()));
        }
        let basic = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic abcd"))]);
        assert!(TokenHash::in_request(&basic).is_none());
        assert!(!format!("{token:?} {:?}", token.hash()).contains("0123"));
    }

    #[test]
    fn short_tokens_and_other_characters_are_refused() {
        for text in "|0123456789abcde|0123456789abcde/|0123456789abcde@x".split('|') {
            assert_eq!(text.parse::<Token>(), Err(BadToken), "{text}");
        }
    }
}
