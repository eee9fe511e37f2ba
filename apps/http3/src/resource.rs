//! A file's attributes, without an open file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::fields::EntityTag;

/// Hash bytes in an entity tag.
const TAG_BYTES: usize = 16;
/// Two changes of a file within this time may get the same timestamp, since a tick of Linux is
/// at most 10 ms.
const TICK: Duration = Duration::from_millis(20);
/// The same for file systems whose timestamps are whole seconds, or even two seconds.
const COARSE_TICK: Duration = Duration::from_secs(2);
/// The prefix of names that pathmark reserves, see [`is_reserved`].
pub const RESERVED_PREFIX: &[u8] = b".pathmark-";
/// The suffix of unfinished uploads and downloads.
pub const TEMPORARY_SUFFIX: &[u8] = b".part";
/// The suffix of notes on uploads.
const NOTE_SUFFIX: &[u8] = b"-put.part";

/// Returns true for names of any client's unfinished files and of servers' keys. An origin never
/// lists, serves or stores them.
pub fn is_reserved(name: &[u8]) -> bool {
    // Some file systems ignore case.
    let prefix = name.get(..RESERVED_PREFIX.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(RESERVED_PREFIX))
}

/// Characters of a [`Token`].
const TOKEN: usize = 32;

/// The name of a resumable upload: 128 random bits in lowercase hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(String);

impl Token {
    /// Creates a token from these bits.
    pub fn of(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    /// Extracts the token from the name of an upload.
    pub fn in_name(name: &[u8]) -> Option<Self> {
        Self::between(name, TEMPORARY_SUFFIX)
    }

    /// Extracts the token from the name of a note on an upload.
    pub fn in_note(name: &[u8]) -> Option<Self> {
        Self::between(name, NOTE_SUFFIX)
    }

    fn between(name: &[u8], suffix: &[u8]) -> Option<Self> {
        let token = name.strip_prefix(RESERVED_PREFIX)?.strip_suffix(suffix)?;
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = token.len() == TOKEN && token.iter().all(digit);
        fits.then(|| String::from_utf8(token.to_vec()).ok().map(Self))?
    }

    /// Returns the upload's name, both of its resource and of the file with its bytes.
    pub fn name(&self) -> Vec<u8> {
        [RESERVED_PREFIX, self.0.as_bytes(), TEMPORARY_SUFFIX].concat()
    }

    /// Returns the name of the note.
    pub fn note(&self) -> Vec<u8> {
        [RESERVED_PREFIX, self.0.as_bytes(), NOTE_SUFFIX].concat()
    }
}

/// A timestamp relative to the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds, which are negative before the epoch.
    pub seconds: i64,
    /// Nanoseconds after this second.
    pub nanoseconds: u32,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, socket or pipe.
    Special,
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: Kind,
    /// The size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The modification time, which programs can set.
    pub modified: Time,
    /// The time when content or metadata last changed, which programs can't set.
    pub changed: Time,
    /// The file system's device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The bytes that it takes on disk, which are fewer than its size if it has holes.
    pub taken: u64,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its metadata. For a symbolic link, this is the metadata of the link itself.
    pub stat: Stat,
    /// The target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

impl Time {
    /// Converts to the standard library's type, as closely as possible.
    pub fn to_system(self) -> SystemTime {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = if self.seconds < 0 {
            UNIX_EPOCH.checked_sub(seconds)
        } else {
            UNIX_EPOCH.checked_add(seconds)
        };
        let fraction = Duration::from_nanos(self.nanoseconds.into());
        whole
            .and_then(|whole| whole.checked_add(fraction))
            .unwrap_or(UNIX_EPOCH)
    }
}

impl Stat {
    /// Returns the entity tag at the time `now`. The tag is strong if any later change of the
    /// content results in a different tag. It is weak while a change could still leave the same
    /// timestamps.
    pub fn tag(&self, now: SystemTime) -> EntityTag {
        let mut hasher = Sha256::new();
        for number in [self.device, self.inode, self.size] {
            hasher.update(number.to_be_bytes());
        }
        for time in [self.modified, self.changed] {
            hasher.update(time.seconds.to_be_bytes());
            hasher.update(time.nanoseconds.to_be_bytes());
        }
        let hash = hasher.finalize();
        let hash = hash.get(..TAG_BYTES).unwrap_or_default();
        EntityTag::from_hash(!self.is_settled(now), hash)
    }

    /// Returns true if the last change is old enough that the next change gets a different
    /// timestamp.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let coarse = self.changed.nanoseconds == 0 && self.modified.nanoseconds == 0;
        let tick = if coarse { COARSE_TICK } else { TICK };
        let since = now.duration_since(self.changed.to_system());
        since.is_ok_and(|since| since > tick)
    }

    /// Returns true if both are the same file with the same content, judging by the metadata.
    pub fn is_same_version(&self, other: &Self) -> bool {
        let version = |stat: &Self| {
            let file = (stat.device, stat.inode);
            (file, stat.size, stat.modified, stat.changed)
        };
        version(self) == version(other)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn time(seconds: i64, nanoseconds: u32) -> Time {
        Time {
            seconds,
            nanoseconds,
        }
    }

    /// Returns a regular file that was changed 1000.5 s after the epoch.
    pub(crate) fn regular(size: u64) -> Stat {
        let changed = time(1000, 500_000_000);
        Stat {
            kind: Kind::File,
            size,
            mode: 0o644,
            modified: changed,
            changed,
            device: 1,
            inode: 2,
            taken: size,
        }
    }

    /// Returns a time long after the last change of [`regular`].
    pub(crate) fn later() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(2000)
    }

    #[test]
    fn tags_change_with_every_part_of_a_version() {
        let stat = regular(7);
        let tag = stat.tag(later());
        assert!(tag.is_strong() && tag == stat.tag(later()));
        let changes: [fn(&mut Stat); 6] = [
            |stat| stat.size = 8,
            |stat| stat.modified = time(1000, 1),
            |stat| stat.changed = time(1000, 1),
            |stat| stat.inode = 3,
            |stat| stat.device = 3,
            |stat| stat.mode = 0o600,
        ];
        for change in changes {
            let mut other = stat;
            change(&mut other);
            // A mode belongs to no version.
            let same = other.mode != stat.mode;
            assert_eq!(other.tag(later()) == tag, same, "{other:?}");
            assert!(same || !other.is_same_version(&stat), "{other:?}");
        }
    }

    #[test]
    fn a_tag_is_weak_until_the_clock_has_moved_on() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let stat = regular(7);
        assert!(!stat.tag(at(1_000_510)).is_strong());
        assert!(stat.tag(at(1_000_530)).is_strong());
        // The clock was set back.
        assert!(!stat.tag(at(999_000)).is_strong());
        let mut coarse = stat;
        (coarse.modified, coarse.changed) = (time(1000, 0), time(1000, 0));
        assert!(!coarse.tag(at(1_001_900)).is_strong());
        assert!(coarse.tag(at(1_002_100)).is_strong());
    }

    #[test]
    fn names_of_unfinished_files_and_keys_are_reserved() {
        assert!(is_reserved(b".pathmark-0.part") && is_reserved(b".pathmark-data.key"));
        let folded = is_reserved(b".PathMark-0.part");
        assert!(folded, "where a file system folds case");
        assert!(!is_reserved(b"pathmark-0.part") && !is_reserved(b"a.part"));
    }

    #[test]
    fn a_token_is_in_the_names_of_its_files() {
        let token = Token::of(0xfeed);
        assert_eq!(Token::in_name(&token.name()), Some(token.clone()));
        assert_eq!(Token::in_note(&token.note()), Some(token.clone()));
        assert!(is_reserved(&token.name()) && is_reserved(&token.note()));
        assert_eq!(Token::in_name(&token.note()), None);
        for other in [".pathmark-0.part", ".pathmark-.part", "name", ""] {
            assert_eq!(Token::in_name(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn times_before_the_epoch_are_represented() {
        let early = time(-1, 500_000_000);
        assert_eq!(early.to_system(), UNIX_EPOCH - Duration::from_millis(500));
        let never = time(i64::MIN, 0);
        let _ = never.to_system();
    }
}
