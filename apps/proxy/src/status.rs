//! Statuses of responses to CONNECT, and `Proxy-Status` (RFC 9209).

use crate::outbound::Refusal;

/// The field name in lowercase.
pub const FIELD: &str = "proxy-status";
/// This proxy's name in the field.
const OWN: &str = "pathmark";

/// Each refusal with its status and error type. If a refusal has several, a proxy sends the first.
const TYPES: [(Refusal, u16, &str); 9] = [
    (Refusal::Refused, 502, "connection_refused"),
    (Refusal::TimedOut, 504, "connection_timeout"),
    (Refusal::TimedOut, 504, "dns_timeout"),
    (Refusal::Unreachable, 502, "destination_ip_unroutable"),
    (Refusal::Unreachable, 503, "destination_unavailable"),
    (Refusal::Name, 502, "dns_error"),
    (Refusal::Denied, 502, "destination_ip_prohibited"),
    (Refusal::Denied, 403, "http_request_denied"),
    (Refusal::Busy, 503, "connection_limit_reached"),
];

/// Returns the status and the field's value for a refusal.
pub fn of(refusal: &Refusal) -> (u16, String) {
    let found = TYPES.iter().find(|(known, ..)| known == refusal);
    let (status, kind) = found.map_or((502, "proxy_internal_error"), |(_, status, kind)| {
        (*status, *kind)
    });
    (status, format!("{OWN}; error={kind}"))
}

/// Converts a response to a refusal.
pub fn read(status: u16, field: Option<&[u8]>) -> Refusal {
    let kind = field.and_then(error_type);
    let known = TYPES
        .iter()
        .find(|(.., name)| kind == Some(name.as_bytes()));
    if let Some((refusal, ..)) = known {
        return refusal.clone();
    }
    match status {
        401 | 407 => Refusal::Unauthorized,
        403 => Refusal::Denied,
        502 => Refusal::Unreachable,
        503 => Refusal::Busy,
        504 => Refusal::TimedOut,
        status => Refusal::Proxy(format!("it responds with status {status}")),
    }
}

/// Returns the first parameter `error` in the list that is a token.
fn error_type(field: &[u8]) -> Option<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = field.split(|byte| {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && *byte == b'\\' && !escaped;
        !quoted && matches!(byte, b';' | b',')
    });
    parts
        .map(<[u8]>::trim_ascii)
        .find_map(|part| part.strip_prefix(b"error="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_back() {
        for (refusal, ..) in &TYPES {
            let (status, field) = of(refusal);
            assert_eq!(read(status, Some(field.as_bytes())), *refusal);
        }
    }

    #[test]
    fn statuses_alone_and_fields_of_others() {
        assert_eq!(read(504, None), Refusal::TimedOut);
        assert_eq!(read(403, Some(b"x")), Refusal::Denied);
        let field = br#"a; details="; error=dns_error, \"", b;error=connection_refused"#;
        assert_eq!(read(502, Some(field)), Refusal::Refused);
        assert_eq!(read(407, None), Refusal::Unauthorized);
        assert!(matches!(read(200, None), Refusal::Proxy(_)));
    }
}
