//! What can be wrong with an algorithm's name.

/// A name of an algorithm, or an option in its brackets, that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No such algorithm.
    #[error("unknown algorithm `{given}`{} are {}", hint(.given, .nearest), .known.join(", "))]
    UnknownName {
        /// What was asked for.
        given: String,
        /// The known name that looks most like it.
        nearest: &'static str,
        /// All known names.
        known: &'static [&'static str],
    },
    /// The algorithm has no such option.
    #[error("`{name}` has no option `{given}`: did you mean `{nearest}`?")]
    UnknownOption {
        /// The algorithm.
        name: &'static str,
        /// What was asked for.
        given: String,
        /// The known option that looks most like it.
        nearest: &'static str,
    },
    /// The algorithm has no options at all.
    #[error("`{name}` takes no options: write `{name}` without brackets")]
    NoOptions {
        /// The algorithm.
        name: &'static str,
    },
    /// An option's value cannot be understood or is out of range.
    #[error("option `{option}` cannot be `{given}`: write {expects}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// Its value.
        given: String,
        /// What it takes.
        expects: &'static str,
    },
    /// An option stands twice.
    #[error("option `{option}` is given twice: keep one")]
    Repeated {
        /// The option.
        option: &'static str,
    },
    /// Options that exclude each other, or miss something.
    #[error("options do not fit together: {why}")]
    Conflict {
        /// What is wrong and what to do.
        why: &'static str,
    },
    /// Brackets or separators are out of place.
    #[error("cannot read `{given}`: write NAME or NAME[option=value,option=value]")]
    Syntax {
        /// What was given.
        given: String,
    },
}

/// The name that was probably meant, and the introduction of the known ones.
fn hint(given: &str, nearest: &str) -> String {
    let edits = strsim::levenshtein(&given.to_ascii_lowercase(), nearest);
    if edits <= (nearest.len() / 2).max(2) {
        format!(": did you mean `{nearest}`? Known")
    } else {
        ": known".to_owned()
    }
}
