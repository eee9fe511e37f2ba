//! A program's arguments: options by name, most of which have a value.

use std::process::ExitCode;

/// The given options, all of which are known and have a value if they need one.
#[derive(Debug)]
pub(crate) struct Arguments {
    given: Vec<(String, String)>,
    usage: &'static str,
}

impl Arguments {
    /// Parses the program's arguments. `options` have a value, and `flags` have none.
    ///
    /// # Errors
    /// Exit code 2, after printing the usage.
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

    /// Prints the wrong argument and the usage.
    fn refuse(&self, wrong: &str) -> ExitCode {
        eprintln!("{wrong}: not understood\nusage: {}", self.usage);
        ExitCode::from(2)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().find(|(given, _)| given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// Returns the value of an option as a number.
    ///
    /// # Errors
    /// As for [`read`](Self::read), if the value is not a number.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, ExitCode> {
        self.text(name).map_or(Ok(default), |text| {
            let number = text.parse();
            number.map_err(|_| self.refuse(&format!("{name} {text}")))
        })
    }
}
