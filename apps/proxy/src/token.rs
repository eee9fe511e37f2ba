//! Bearer tokens (RFC 6750), with which a proxy authenticates its users.

use std::fmt;
use std::str::FromStr;

use pathmark_http3::http::HeaderMap;
use pathmark_http3::http::header::{AUTHORIZATION, HeaderValue, PROXY_AUTHORIZATION};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

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
        match (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(known) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadToken),
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
        for text in [
            "",
            "0123456789abcde",
            "0123456789abcde/",
            "0123456789abcde@x",
        ] {
            assert_eq!(text.parse::<Token>(), Err(BadToken), "{text}");
        }
    }
}
