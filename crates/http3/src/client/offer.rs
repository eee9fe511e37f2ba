//! The offer of a client to resume an upload, and the answer of the server
//! (draft-ietf-httpbis-resumable-upload-12).

use http::header::LOCATION;
use http::{HeaderMap, Response, Uri};

use super::get::set;
use crate::fields::{INTEROP_VERSION, boolean};
use crate::plan::{RESUMPTION_SUPPORTED, UPLOAD_COMPLETE, UPLOAD_VERSION, upload_fields};

/// Asks a server to keep what arrives of an upload that breaks off. All of the content follows.
pub(super) fn resumable(headers: &mut HeaderMap) {
    set(headers, UPLOAD_COMPLETE, boolean(true));
    set(headers, UPLOAD_VERSION, &INTEROP_VERSION.to_string());
}

/// The path of an upload's resource, which an interim response names.
pub(super) fn upload_of(interim: &Response<()>) -> Option<String> {
    let headers = interim.headers();
    if interim.status() != RESUMPTION_SUPPORTED || !upload_fields(headers).same_version {
        return None;
    }
    let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    // An upload on another host is another server's to judge.
    let path = location.path_and_query()?.as_str();
    path.starts_with('/').then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interim_response_of_another_version_names_nothing() {
        let interim = |status: u16, version: &str, location: &str| {
            let response = Response::builder()
                .status(status)
                .header(UPLOAD_VERSION, version)
                .header(LOCATION, location);
            upload_of(&response.body(()).unwrap())
        };
        let path = Some("/a/b".to_owned());
        assert_eq!(interim(104, "8", "/a/b"), path);
        assert_eq!(interim(104, "8", "https://host/a/b"), path);
        assert_eq!(interim(104, "7", "/a/b"), None);
        assert_eq!(interim(103, "8", "/a/b"), None);
        assert_eq!(interim(104, "8", "a b"), None);
    }
}
