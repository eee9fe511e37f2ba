//! Media types by filename extension.

/// Returns the media type for `name`, by default arbitrary bytes.
pub(super) fn media_type(name: &[u8]) -> &'static str {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    let ending = dot
        .filter(|dot| *dot > 0)
        .and_then(|dot| name.get(dot + 1..));
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    match ending.as_slice() {
        b"txt" | b"log" | b"md" | b"csv" | b"toml" | b"yaml" | b"yml" => {
            "text/plain; charset=utf-8"
        }
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css",
        b"js" | b"mjs" => "text/javascript",
        b"json" => "application/json",
        b"xml" => "application/xml",
        b"pdf" => "application/pdf",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"svg" => "image/svg+xml",
        b"webp" => "image/webp",
        b"mp3" => "audio/mpeg",
        b"ogg" => "audio/ogg",
        b"mp4" => "video/mp4",
        b"webm" => "video/webm",
        b"wasm" => "application/wasm",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_decide() {
        assert_eq!(media_type(b"a.PNG"), "image/png");
        assert_eq!(media_type(b"a.tar.gz"), "application/gzip");
        for other in [&b"png"[..], b".png", b"a.", b"", b"\xff.\xff"] {
            assert_eq!(media_type(other), "application/octet-stream");
        }
    }
}
