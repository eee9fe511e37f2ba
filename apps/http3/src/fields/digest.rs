//! Repr-Digest and Want-Repr-Digest (RFC 9530) with `sha-256`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::BadField;
use super::structured::{Bare, dictionary};

/// This crate's algorithm, as named in digest fields.
const SHA_256: &str = "sha-256";

/// The SHA-256 of a whole representation.
pub type Sha256Digest = [u8; 32];

/// Joins all lines of a field into one list.
fn joined<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for line in lines {
        if !all.is_empty() {
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(line);
    }
    all
}

/// Parses the `sha-256` member of Repr-Digest or Content-Digest. Returns `None` if it is missing.
///
/// # Errors
/// [`BadField`], if the value is invalid or the digest doesn't have 32 bytes.
pub fn sha256_digest<'a>(
    field: &'static str,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<Sha256Digest>, BadField> {
    let members = dictionary(&joined(lines)).ok_or(BadField(field))?;
    match members.into_iter().find(|(key, _)| key == SHA_256) {
        None => Ok(None),
        Some((_, Bare::Bytes(bytes))) => bytes.try_into().map(Some).map_err(|_| BadField(field)),
        Some(_) => Err(BadField(field)),
    }
}

/// Parses the preference for `sha-256` in Want-Repr-Digest: 1 to 10, or 0 if it isn't wanted.
/// Because the field is only a hint, an invalid value is treated as 0.
pub fn sha256_preference<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> u8 {
    let members = dictionary(&joined(lines)).unwrap_or_default();
    let wish = members.into_iter().find(|(key, _)| key == SHA_256);
    match wish {
        Some((_, Bare::Integer(wish @ 1..=10))) => u8::try_from(wish).unwrap_or(0),
        _ => 0,
    }
}

/// Formats a value of Repr-Digest.
pub fn sha256_field(digest: &Sha256Digest) -> String {
    format!("{SHA_256}=:{}:", STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn read(lines: &[&str]) -> Result<Option<Sha256Digest>, BadField> {
        sha256_digest("Repr-Digest", lines.iter().map(|line| line.as_bytes()))
    }

    /// The example in RFC 9530 appendix B.1.
    #[test]
    fn the_example_of_the_rfc_is_written_and_read() {
        let digest: Sha256Digest = Sha256::digest(b"{\"hello\": \"world\"}\n").into();
        let field = sha256_field(&digest);
        assert_eq!(
            field,
            "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
        );
        assert_eq!(read(&[&field]), Ok(Some(digest)));
        assert_eq!(read(&["sha-512=:AA==:", &field]), Ok(Some(digest)));
    }

    #[test]
    fn absent_and_broken_digests_differ() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["sha-512=:AA==:"]), Ok(None));
        for bad in [
            "sha-256=:AA==:",
            "sha-256",
            "sha-256=7",
            "sha-256=:",
            "SHA-256=:AA==:",
        ] {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn wishes_are_between_one_and_ten() {
        for (value, wish) in [
            ("sha-256=10", 10),
            ("sha-512=3, sha-256=1", 1),
            ("sha-256=0", 0),
            ("sha-256=11", 0),
            ("sha-256", 0),
            ("sha-512=3", 0),
            ("=", 0),
            ("", 0),
        ] {
            assert_eq!(sha256_preference([value.as_bytes()]), wish, "{value}");
        }
    }
}
