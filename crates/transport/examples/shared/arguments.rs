//! What a program is called with: options by name, most with a value.

use std::process::ExitCode;

/// The options that were given, each known and with a value where it has one.
#[derive(Debug)]
pub(crate) struct Arguments {
    given: Vec<(String, String)>,
    usage: &'static str,
}

impl Arguments {
    /// `options` have a value, `flags` have none.
    ///
    /// # Errors
    /// The exit code 2, after the usage was printed.
    pub(crate) fn read(
        usage: &'static str,
        options: &[&str],
        flags: &[&str],
    ) -> Result<Self, ExitCode> {
        let mut read = Self {
            given: Vec::new(),
            usage,
        };
        let mut rest = std::env::args().skip(1);
        while let Some(name) = rest.next() {
            let value = if flags.contains(&name.as_str()) {
                Some(String::new())
            } else if options.contains(&name.as_str()) {
                rest.next()
            } else {
                None
            };
            let value = value.ok_or_else(|| read.refuse(&name))?;
            read.given.push((name, value));
        }
        Ok(read)
    }

    /// Says what was wrong and how the program is called.
    fn refuse(&self, wrong: &str) -> ExitCode {
        eprintln!("{wrong}: not understood\nusage: {}", self.usage);
        ExitCode::from(2)
    }

    /// The value of an option.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().find(|(given, _)| given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// # Errors
    /// As [`read`](Self::read), if the value is no number.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, ExitCode> {
        self.text(name).map_or(Ok(default), |text| {
            let number = text.parse();
            number.map_err(|_| self.refuse(&format!("{name} {text}")))
        })
    }
}
