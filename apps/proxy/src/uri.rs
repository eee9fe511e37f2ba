//! URIs that describe how to reach a proxy: `pathmark://TOKEN@HOST:PORT?pin=SHA256`. A user with
//! a certificate doesn't need a token.

use std::fmt;
use std::str::FromStr;

use pathmark_transport::crypto::tls::Pin;

use crate::target::{Target, TargetError};
use crate::token::{BadToken, Token};

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
}
