//! Options in brackets. Each is a row of a table with its key, the field that it sets, its values,
//! and its accepted values in words.

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

/// An option of several laws, which have different fields for it.
pub(crate) struct Shared<V> {
    pub(crate) key: &'static str,
    pub(crate) values: V,
    /// Accepted values, which complete "write …" in an error.
    pub(crate) expects: &'static str,
}

/// A row of a table: an option that sets one field. This is either a shared option
/// (`field: SHARED`), or one with its own key, values and accepted values in words
/// (`field: "key", values, "a number from …"`).
macro_rules! knob {
    ($($field:ident).+: $shared:expr) => {
        $crate::names::knob::Knob {
            key: $shared.key,
            expects: $shared.expects,
            set: |config, text| {
                config.$($field).+ = $crate::names::value::Values::read(&$shared.values, text)?;
                Some(())
            },
            show: |config| {
                $crate::names::value::Values::show(&$shared.values, &config.$($field).+)
            },
        }
    };
    ($($field:ident).+: $key:literal, $values:expr, $expects:expr) => {
        knob! {
            $($field).+: $crate::names::knob::Shared {
                key: $key,
                values: $values,
                expects: $expects,
            }
        }
    };
}
pub(crate) use knob;

/// The values of a law's options.
pub(crate) trait Options: Default + 'static {
    /// Options that the law has in any case.
    const TABLE: &'static [Knob<Self>] = &[];

    /// Tables of further options.
    fn further(&self) -> &'static [&'static [Knob<Self>]] {
        &[]
    }

    /// The values of the same law without options in brackets.
    fn defaults(&self) -> Self {
        Self::default()
    }
}

/// No options.
impl Options for () {}

fn all<C: Options>(config: &C) -> impl Iterator<Item = &'static Knob<C>> + use<C> {
    let further = config.further().iter().copied().flatten();
    C::TABLE.iter().chain(further)
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

/// Applies `options` (`key=value,key=value`) to `config` in the given order.
pub(crate) fn apply<C: Options>(
    name: &'static str,
    mut config: C,
    options: Option<&str>,
) -> Result<C, ParseError> {
    let mut seen: Vec<&'static str> = Vec::new();
    let parts = options.unwrap_or("").split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, given) = part.split_once('=').unwrap_or((part, ""));
        let (key, given) = (key.trim_end(), given.trim_start());
        let Some(knob) = all(&config).find(|knob| knob.key == key) else {
            let keys = all(&config).map(|knob| knob.key);
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
        (knob.set)(&mut config, given).ok_or_else(|| ParseError::BadValue {
            option: knob.key,
            given: given.to_owned(),
            expects: knob.expects,
        })?;
    }
    Ok(config)
}

/// Prints `name` and all options that differ from their defaults.
pub(crate) fn show<C: Options>(f: &mut fmt::Formatter<'_>, name: &str, config: &C) -> fmt::Result {
    f.write_str(name)?;
    let default = config.defaults();
    let mut separator = '[';
    for knob in all(config) {
        let text = (knob.show)(config);
        if text != (knob.show)(&default) {
            write!(f, "{separator}{}={text}", knob.key)?;
            separator = ',';
        }
    }
    if separator == ',' {
        f.write_str("]")?;
    }
    Ok(())
}
