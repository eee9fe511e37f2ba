//! Mechanisms that aren't from any paper or RFC, and can be switched off for experiments.
//!
//! Without the crate's feature `ablate`, [`without`] is a constant `false`, so the compiler removes
//! the check. With this feature, it reads an atomic number that `remove` sets.

/// Declares mechanisms with variant, name on the command line, and description.
macro_rules! mechanisms {
    ($($variant:ident $name:literal $what:literal;)+) => {
        /// A mechanism that can be switched off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mechanism {
            $(#[doc = $what] $variant,)+
        }

        impl Mechanism {
            /// All mechanisms.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns a short description.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)+
                }
            }
        }
    };
}

mechanisms! {
    Correlation "correlation" "detector: losses correlated with long delays are a queue's";
    Train "train" "detector: packets sent at once measure the narrowest hop";
    HighLoss "high-loss" "detector: a round trip that loses 10 % holds the window to what arrived";
    LossTrial "loss-trial" "detector: a trial attests loss as random; without: CUBIC at once";
    Twice "twice" "detector: bursty loss needs a second trial";
    Wait "wait" "detector: declared loss waits for growth before a trial";
    Departures "departures" "XCP port: the rate of flows that end is given in addition";
    Newcomers "newcomers" "XCP port: more is shuffled while flows are young";
    Known "known" "XCP port: the headers of a new flow count for nothing in its first interval";
    Factor "factor" "VCP port: each flow has an r of its own";
    Spared "spared" "VCP port: a flow with less than 7/8 of the level receives HIGH for OVER";
    Lift "lift" "VCP port: a flow with less than 1/4 of the level grows as in slow start";
    Foresee "foresee" "VCP port: r falls with the bytes of the running interval";
    Burst "burst" "Quick-Start port: flows that ask together share what one gives back";
    Keep "keep" "Quick-Start sender: a flow asks whether it may keep its grant";
}

impl std::str::FromStr for Mechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.iter().copied();
        all.find(|known| known.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|known| known.name()).collect();
            format!(
                "there is no mechanism `{text}`: name one of {}",
                names.join(", ")
            )
        })
    }
}

#[cfg(feature = "ablate")]
static REMOVED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Switches mechanisms off in this process from now on. Laws that are already running keep the
/// state that results from them.
#[cfg(feature = "ablate")]
pub fn remove(mechanisms: &[Mechanism]) {
    let bits = mechanisms
        .iter()
        .fold(0, |bits, each| bits | 1 << *each as u32);
    REMOVED.store(bits, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "ablate")]
thread_local! {
    static ASKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Runs `work` in this thread, and returns the mechanisms that it has checked. Without any of the
/// others, it would do the same.
#[cfg(feature = "ablate")]
pub fn asked<T>(work: impl FnOnce() -> T) -> (T, Vec<Mechanism>) {
    ASKED.set(0);
    let result = work();
    let bits = ASKED.get();
    let asked = |each: &Mechanism| bits & 1 << *each as u32 != 0;
    (
        result,
        Mechanism::ALL.iter().copied().filter(asked).collect(),
    )
}

/// Returns true if the mechanism is switched off. A mechanism must be checked last, only if it
/// would have an effect.
#[cfg(feature = "ablate")]
pub(crate) fn without(mechanism: Mechanism) -> bool {
    ASKED.set(ASKED.get() | 1 << mechanism as u32);
    REMOVED.load(std::sync::atomic::Ordering::Relaxed) & 1 << mechanism as u32 != 0
}

/// Returns true if the mechanism is switched off, which is never the case in this build.
#[cfg(not(feature = "ablate"))]
#[inline(always)]
pub(crate) const fn without(_: Mechanism) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_parse_back() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.name().parse(), Ok(*mechanism));
        }
        let error = "nothing".parse::<Mechanism>().unwrap_err();
        assert!(error.contains("correlation, train"), "{error}");
        assert!(Mechanism::ALL.len() <= 32, "one bit each");
    }

    #[cfg(not(feature = "ablate"))]
    #[test]
    fn no_mechanism_is_missing_without_the_feature() {
        assert!(!Mechanism::ALL.iter().any(|each| without(*each)));
    }
}
