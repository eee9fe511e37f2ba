//! The client's offer to resume an upload, and the server's answer
//! (draft-ietf-httpbis-resumable-upload-12).

use http::header::LOCATION;
use http::{HeaderMap, Response, Uri};

use super::get::set;
use crate::fields::{INTEROP_VERSION, boolean};
use crate::plan::{RESUMPTION_SUPPORTED, UPLOAD_COMPLETE, UPLOAD_VERSION, upload_fields};

/// Requests that the server keep incomplete content. This request carries all of the content.
pub(super) fn resumable(headers: &mut HeaderMap) {
    set(headers, UPLOAD_COMPLETE, boolean(true));
    set(headers, UPLOAD_VERSION, &INTEROP_VERSION.to_string());
}

/// Returns the path of the upload's resource, if the interim response names one.
pub(super) fn upload_of(interim: &Response<()>) -> Option<String> {
    let headers = interim.headers();
    if interim.status() != RESUMPTION_SUPPORTED || !upload_fields(headers).same_version {
        return None;
    }
    let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    // The path is always used on the same host, because another host is not trusted with the
    // upload.
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
