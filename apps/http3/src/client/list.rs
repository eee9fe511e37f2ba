//! Reads directory listings in the form that this crate's origin writes.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;

use super::plan::GetError;
use super::request::Client;
use crate::fields::{PathName, decode_bytes};
use crate::resource::{Entry, Kind, Time};

/// Maximum size of a listing in bytes, enough for about 500,000 entries.
const MAX_LISTING: usize = 64 << 20;
/// Maximum size of an entry in bytes: a name of 255 bytes and a target of 4095, fully encoded.
const MAX_ENTRY: usize = 32 << 10;
/// Maximum length of a link's target in bytes (`PATH_MAX` of Linux).
const MAX_TARGET: usize = 4095;
/// The text before the first entry, without whitespace.
const BEGIN: &[u8] = b"{\"entries\":[";
/// The error for a listing in any other form.
const FORM: &str = "it is no listing of this server's form";

/// An entry of a directory on a server. Its name always denotes a file directly inside this
/// directory, because names that contain a slash and the names `.` and `..` are rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The file name.
    pub name: Vec<u8>,
    /// The kind of file.
    pub kind: Kind,
    /// The size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The last modification time.
    pub modified: Time,
    /// The target of a symbolic link, which can be outside the served directory.
    pub target: Option<Vec<u8>>,
}

impl From<Entry> for Listed {
    fn from(entry: Entry) -> Self {
        let Entry { name, stat, target } = entry;
        Self {
            name,
            kind: stat.kind,
            size: stat.size,
            mode: stat.mode,
            modified: stat.modified,
            target,
        }
    }
}

/// Reads a listing piece by piece. It must have the form that this crate's origin writes: an
/// object whose first member, `entries`, is an array of objects.
#[derive(Debug, Default)]
pub struct ListingReader {
    place: Place,
    /// Bytes of [`BEGIN`] read so far.
    begun: usize,
    /// The bytes of the current entry.
    entry: Vec<u8>,
    /// Open brackets in the entry.
    depth: usize,
    /// Whether the next byte is inside a string.
    string: bool,
    /// Whether the next byte follows a backslash.
    escaped: bool,
}

/// The position of the next byte in a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the array.
    #[default]
    Begin,
    /// Before an entry. If true, an entry must follow.
    Between(bool),
    /// Inside an entry.
    Entry,
    /// After an entry.
    Behind,
    /// After the array.
    Rest,
    /// After the object.
    End,
}

/// An entry in JSON. Other servers can omit the members that have a default.
#[derive(Deserialize)]
struct Row {
    name: String,
    kind: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    time: i64,
    #[serde(default)]
    nanoseconds: u32,
    target: Option<String>,
}

impl Client {
    /// Lists the directory at `path`, in the server's order.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn list(&self, path: &PathName) -> Result<Vec<Listed>, GetError> {
        self.list_within(path, |_, _| Ok(())).await
    }

    /// Does the same, calling `check` for each piece that arrives with its number of bytes and
    /// the number of entries before it.
    pub(super) async fn list_within(
        &self,
        path: &PathName,
        mut check: impl FnMut(usize, usize) -> Result<(), GetError>,
    ) -> Result<Vec<Listed>, GetError> {
        let directory = PathName {
            names: path.names.clone(),
            slash: true,
        };
        let uri = self.uri(&directory).map_err(GetError::Name)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut exchange = self.request_bare(Method::GET, uri, headers).await?;
        let response = exchange.response().await?;
        if response.status() != StatusCode::OK {
            return Err(exchange.refusal(&response).await.into());
        }
        let media_type = response
            .headers()
            .get(CONTENT_TYPE)
            .map(HeaderValue::as_bytes);
        if !media_type.is_some_and(|media_type| media_type.starts_with(b"application/json")) {
            return Err(GetError::Response("it is no listing in JSON"));
        }
        let (mut reader, mut entries, mut bytes) = (ListingReader::default(), Vec::new(), 0);
        while let Some(data) = exchange.data().await? {
            bytes += data.len();
            if bytes > MAX_LISTING {
                return Err(GetError::Response("it is a listing of more than 64 MiB"));
            }
            check(data.len(), entries.len())?;
            reader
                .feed(&data, &mut entries)
                .map_err(GetError::Response)?;
        }
        reader.finish().map_err(GetError::Response)?;
        Ok(entries)
    }
}

/// Parses a complete listing in JSON.
///
/// # Errors
/// Describes the fault in the listing.
pub fn parse_listing(content: &[u8]) -> Result<Vec<Listed>, &'static str> {
    let (mut reader, mut entries) = (ListingReader::default(), Vec::new());
    reader.feed(content, &mut entries)?;
    reader.finish()?;
    Ok(entries)
}

impl ListingReader {
    /// Reads the next bytes of a listing, and appends the entries that are complete.
    ///
    /// # Errors
    /// Describes the fault in the bytes.
    pub fn feed(&mut self, bytes: &[u8], entries: &mut Vec<Listed>) -> Result<(), &'static str> {
        for byte in bytes {
            if self.place != Place::Entry && byte.is_ascii_whitespace() {
                continue;
            }
            self.place = match (self.place, byte) {
                (Place::Begin, byte) if BEGIN.get(self.begun) == Some(byte) => {
                    self.begun += 1;
                    if self.begun == BEGIN.len() {
                        Place::Between(false)
                    } else {
                        Place::Begin
                    }
                }
                (Place::Between(_), b'{') => {
                    self.entry.clear();
                    self.within(b'{')?;
                    Place::Entry
                }
                (Place::Between(false) | Place::Behind, b']') => Place::Rest,
                (Place::Behind, b',') => Place::Between(true),
                (Place::Entry, byte) => {
                    self.within(*byte)?;
                    match self.depth {
                        0 => {
                            let row = serde_json::from_slice(&self.entry).map_err(|_| FORM)?;
                            entries.push(listed(row)?);
                            Place::Behind
                        }
                        _ => Place::Entry,
                    }
                }
                (Place::Rest, b'}') => Place::End,
                _ => return Err(FORM),
            };
        }
        Ok(())
    }

    /// Checks that the listing is complete.
    ///
    /// # Errors
    /// Fails if the end of the listing is missing.
    pub fn finish(self) -> Result<(), &'static str> {
        match self.place {
            Place::End => Ok(()),
            _ => Err(FORM),
        }
    }

    /// Appends a byte to the current entry.
    fn within(&mut self, byte: u8) -> Result<(), &'static str> {
        if self.entry.len() == MAX_ENTRY {
            return Err("it has an entry of more than 32 KiB");
        }
        self.entry.push(byte);
        match (self.string, byte) {
            (true, _) if self.escaped => self.escaped = false,
            (true, b'\\') => self.escaped = true,
            (_, b'"') => self.string = !self.string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }
}

fn listed(row: Row) -> Result<Listed, &'static str> {
    const NAME: &str = "it lists a name that no file has";
    let path = format!("/{}", row.name);
    let path = PathName::parse(path.as_bytes()).map_err(|_| NAME)?;
    let [name] = <[Vec<u8>; 1]>::try_from(path.names).map_err(|_| NAME)?;
    if path.slash {
        return Err(NAME);
    }
    let kind = match row.kind.as_str() {
        "file" => Kind::File,
        "directory" => Kind::Directory,
        "symlink" => Kind::Symlink,
        _ => Kind::Special,
    };
    // Other servers may omit modes.
    let usual = if kind == Kind::Directory {
        0o755
    } else {
        0o644
    };
    let mode = u32::from_str_radix(&row.mode, 8).unwrap_or(usual);
    let target = row.target.filter(|_| kind == Kind::Symlink);
    let target = target.map(|target| decode_bytes(target.as_bytes()));
    let modified = Time {
        seconds: row.time,
        nanoseconds: row.nanoseconds.min(999_999_999),
    };
    let target = target
        .transpose()
        .ok()
        .filter(|target| {
            target
                .as_ref()
                .is_none_or(|target| target.len() <= MAX_TARGET)
        })
        .ok_or("it has a link whose target no file system takes")?;
    Ok(Listed {
        name,
        kind,
        size: row.size,
        mode: mode & 0o7777,
        modified,
        target,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fields::Form;
    use crate::plan::listing;
    use crate::resource::Entry;
    use crate::resource::tests::regular;

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "", ".", "..", "a/b", "a%2Fb", "%2e%2e", "/etc", "a/", "%00", "%",
        ] {
            let content = format!("{{\"entries\":[{{\"name\":\"{name}\",\"kind\":\"file\"}}]}}");
            assert!(parse_listing(content.as_bytes()).is_err(), "{name}");
        }
        let content = br#"{"entries":[{"name":"a","kind":"pipe","target":"x","more":1}]}"#;
        let entries = parse_listing(content).unwrap();
        let first = (entries[0].kind, entries[0].target.as_ref());
        assert_eq!(first, (Kind::Special, None));
        let bad = r#"|[]|{}|{"entries":[{}]}|{"entries":[|{"entries":[]|{"entries":[]}}"#;
        for content in bad
            .split('|')
            .chain([r#"{"entries":[{"name":"a","kind":"file"},]}"#])
        {
            assert!(parse_listing(content.as_bytes()).is_err(), "{content}");
        }
    }

    fn entries() -> impl Strategy<Value = Entry> {
        let bytes = || proptest::collection::vec(1..=255_u8, 1..20);
        let name = bytes().prop_filter("a name", |name| {
            !name.contains(&b'/') && name != b"." && name != b".."
        });
        let target = proptest::option::of(bytes());
        (name, target, any::<u64>(), 0..0o10000_u32).prop_map(|(name, target, size, mode)| {
            let kind = if target.is_some() {
                Kind::Symlink
            } else {
                Kind::File
            };
            let mut stat = regular(0);
            (stat.kind, stat.size, stat.mode) = (kind, size, mode);
            Entry { name, stat, target }
        })
    }

    proptest! {
        /// The client reads the origin's listings without loss.
        #[test]
        fn listings_survive(entries in proptest::collection::vec(entries(), 0..5)) {
            let rows = entries.iter().enumerate();
            let rows: String =
                rows.map(|(n, entry)| listing::entry(Form::Json, n == 0, entry)).collect();
            let path = PathName::default();
            let text = listing::begin(Form::Json, &path) + &rows + listing::end(Form::Json);
            let read = parse_listing(text.as_bytes()).unwrap();
            prop_assert_eq!(read.len(), entries.len());
            let (mut reader, mut pieces) = (ListingReader::default(), Vec::new());
            for byte in text.as_bytes() {
                reader.feed(&[*byte], &mut pieces).unwrap();
            }
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert_eq!(&pieces, &read);
            for (read, entry) in read.into_iter().zip(entries) {
                let Entry { name, stat, target } = entry;
                let expected = Listed {
                    name,
                    kind: stat.kind,
                    size: stat.size,
                    mode: stat.mode,
                    modified: stat.modified,
                    target,
                };
                prop_assert_eq!(read, expected);
            }
        }
    }
}
