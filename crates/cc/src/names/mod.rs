//! Names of laws as people write them: `cubic`, `vcp+bise+wlte[alpha=1,t_rho=200ms]`.
//!
//! [`Algorithm`] names a sender's law, and [`LinkAlgorithm`] a port's. By parsing text, you get
//! either of these or an error that suggests the nearest known word. Both print as the shortest
//! text with the same meaning, and can build the controller.

mod knob;
mod own;
mod port;
mod register;
mod sender;
mod standard;
mod vcp;
mod xcp;

#[cfg(test)]
mod tests;

pub use port::LinkAlgorithm;
pub use register::RegisterError;
pub use sender::Algorithm;

// Errors in names of algorithms.

/// Error in the name of an algorithm, or in an option in its brackets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// There's no algorithm with this name.
    #[error("unknown algorithm `{given}`{} are {}", hint(.given, .nearest), .known.join(", "))]
    UnknownName {
        /// The name that was given.
        given: String,
        /// The known name that is most similar.
        nearest: &'static str,
        /// All known names.
        known: &'static [&'static str],
    },
    /// The algorithm doesn't have this option.
    #[error("`{name}` has no option `{given}`: did you mean `{nearest}`?")]
    UnknownOption {
        /// The algorithm's name.
        name: &'static str,
        /// The option that was given.
        given: String,
        /// The known option that is most similar.
        nearest: &'static str,
    },
    /// The algorithm doesn't have any options.
    #[error("`{name}` takes no options: write `{name}` without brackets")]
    NoOptions {
        /// The algorithm's name.
        name: &'static str,
    },
    /// The value of an option can't be parsed or is out of range.
    #[error("option `{option}` cannot be `{given}`: write {expects}")]
    BadValue {
        /// The option's name.
        option: &'static str,
        /// The value that was given.
        given: String,
        /// The values that it accepts.
        expects: &'static str,
    },
    /// An option is given twice.
    #[error("option `{option}` is given twice: keep one")]
    Repeated {
        /// The option's name.
        option: &'static str,
    },
    /// Options exclude each other, or require another one.
    #[error("options do not fit together: {why}")]
    Conflict {
        /// Description of the problem and its solution.
        why: &'static str,
    },
    /// Brackets or separators are missing or misplaced.
    #[error("cannot read `{given}`: write NAME or NAME[option=value,option=value]")]
    Syntax {
        /// The text that was given.
        given: String,
    },
}

/// Suggests the name that was probably meant, and introduces the known names.
fn hint(given: &str, nearest: &str) -> String {
    let edits = strsim::levenshtein(&given.to_ascii_lowercase(), nearest);
    if edits <= (nearest.len() / 2).max(2) {
        format!(": did you mean `{nearest}`? Known")
    } else {
        ": known".to_owned()
    }
}
