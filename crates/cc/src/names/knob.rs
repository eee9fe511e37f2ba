//! Options in brackets. Each is a row of a table with its key, its accepted values, and how to
//! parse and print it.

use core::fmt;

use super::error::ParseError;
use super::value;

pub(crate) struct Knob<C> {
    pub(crate) key: &'static str,
    /// Accepted values, which complete "write …" in an error.
    pub(crate) expects: &'static str,
    /// Sets the option from text. Returns `None` if the text can't be parsed or is out of range.
    pub(crate) set: fn(&mut C, &str) -> Option<()>,
    /// Returns the text that sets the option to its current value.
    pub(crate) show: fn(&C) -> String,
}

/// Splits `NAME[options]` into the name and the text between the brackets.
pub(crate) fn split(text: &str) -> Result<(&str, Option<&str>), ParseError> {
    let syntax = || ParseError::Syntax {
        given: text.to_owned(),
    };
    let text = text.trim();
    match text.split_once('[') {
        None if text.contains(']') => Err(syntax()),
        None => Ok((text, None)),
        Some((name, rest)) => {
            let options = rest.strip_suffix(']').ok_or_else(syntax)?;
            if options.contains(['[', ']']) {
                return Err(syntax());
            }
            Ok((name.trim_end(), Some(options)))
        }
    }
}

/// A table of options, whose parts may be shared by several algorithms.
pub(crate) type Knobs<'a, C> = &'a [&'static [Knob<C>]];

/// Applies `options` (`key=value,key=value`) to `config` in the given order.
pub(crate) fn apply<C>(
    name: &'static str,
    knobs: Knobs<'_, C>,
    config: &mut C,
    options: Option<&str>,
) -> Result<(), ParseError> {
    let mut seen: Vec<&'static str> = Vec::new();
    let parts = options.unwrap_or("").split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, given) = part.split_once('=').unwrap_or((part, ""));
        let (key, given) = (key.trim_end(), given.trim_start());
        let Some(knob) = knobs.iter().copied().flatten().find(|knob| knob.key == key) else {
            let keys = knobs.iter().copied().flatten().map(|knob| knob.key);
            return Err(match value::nearest(key, keys) {
                Some(nearest) => ParseError::UnknownOption {
                    name,
                    given: key.to_owned(),
                    nearest,
                },
                None => ParseError::NoOptions { name },
            });
        };
        if seen.contains(&knob.key) {
            return Err(ParseError::Repeated { option: knob.key });
        }
        seen.push(knob.key);
        (knob.set)(config, given).ok_or_else(|| ParseError::BadValue {
            option: knob.key,
            given: given.to_owned(),
            expects: knob.expects,
        })?;
    }
    Ok(())
}

/// Prints `name` and all options that differ from `default`.
pub(crate) fn show<C>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    knobs: Knobs<'_, C>,
    config: &C,
    default: &C,
) -> fmt::Result {
    f.write_str(name)?;
    let mut separator = '[';
    for knob in knobs.iter().copied().flatten() {
        let text = (knob.show)(config);
        if text != (knob.show)(default) {
            write!(f, "{separator}{}={text}", knob.key)?;
            separator = ',';
        }
    }
    if separator == ',' {
        f.write_str("]")?;
    }
    Ok(())
}
