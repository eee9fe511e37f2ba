//! Records uploads beyond the end of a connection: their resource and the version of the source.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use http::Uri;
use sha2::{Digest, Sha256};

use crate::blocking::blocking;
use crate::resource::Stat;
use crate::root::Existing;

/// Keeps short texts under keys for as long as an upload can be resumed. Its methods may block.
pub trait Ledger: Debug + Send + Sync {
    /// Returns the text for a key.
    fn find(&self, key: &str) -> Option<String>;

    /// Keeps a text, replacing the previous text. If this fails, the upload just can't be resumed.
    fn keep(&self, key: &str, text: &str);

    /// Removes the text for a key.
    fn forget(&self, key: &str);
}

/// The ledger's page for one upload.
#[derive(Clone, Debug)]
pub(super) struct Page {
    ledger: Arc<dyn Ledger>,
    key: String,
    version: String,
}

impl Page {
    /// Returns the page for uploading a source to a URI.
    pub(super) fn of(
        ledger: &Arc<dyn Ledger>,
        uri: &Uri,
        existing: Existing,
        source: &Stat,
    ) -> Self {
        let file = (source.device, source.inode);
        let key = Sha256::digest(format!("{uri} {existing:?} {file:?}"));
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (modified, changed) = (source.modified, source.changed);
        Self {
            ledger: Arc::clone(ledger),
            key,
            version: format!(
                "{} {}.{:09} {}.{:09}",
                source.size,
                modified.seconds,
                modified.nanoseconds,
                changed.seconds,
                changed.nanoseconds
            ),
        }
    }

    /// Returns the path of the upload's resource, and whether the source is unchanged.
    pub(super) async fn find(&self) -> io::Result<Option<(String, bool)>> {
        let page = self.clone();
        let text = blocking(move || page.ledger.find(&page.key)).await?;
        let found = text
            .as_deref()
            .and_then(|text| text.trim_end().split_once('\n'));
        Ok(found.map(|(version, path)| (path.to_owned(), version == self.version)))
    }

    pub(super) async fn keep(&self, path: &str) -> io::Result<()> {
        let (page, text) = (self.clone(), format!("{}\n{path}\n", self.version));
        blocking(move || page.ledger.keep(&page.key, &text)).await
    }

    pub(super) async fn forget(&self) -> io::Result<()> {
        let page = self.clone();
        blocking(move || page.ledger.forget(&page.key)).await
    }
}
