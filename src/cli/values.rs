//! Values with units on the command line.

use std::time::Duration;

use pathmark_cc::Algorithm;

/// A number of bytes: `1500`, `5_000_000`, `64KiB`, `1GB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let digits = plain
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(plain.len());
    let (number, unit) = plain.split_at(digits);
    let scale: f64 = match unit.trim() {
        "" | "B" => 1.0,
        "k" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        other => {
            return Err(format!(
                "unknown unit `{other}`; try kB, MB, GB, KiB, MiB or GiB"
            ));
        }
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is no number of bytes such as 5_000_000 or 5MB"))?;
    // Below 2^53 a float holds each byte; larger transfers are not to the byte in floating units
    // anyway.
    Ok((number * scale).round() as u64)
}

/// A length of time: `30s`, `250ms`, `2m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no length of time such as 30s, 250ms or 2m");
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "s" | "" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())
}

/// A congestion controller's name with its options.
pub(super) fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::parse(text).map_err(|error| error.to_string())
}

/// Congestion controllers, in the order that they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Algorithms(pub(super) Vec<Algorithm>);

/// Names with their options between commas: `vcp[alpha=1.0,t_rho=200ms],xcp`.
pub(super) fn algorithms(text: &str) -> Result<Algorithms, String> {
    let mut depth = 0_u32;
    let names = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    names
        .map(algorithm)
        .collect::<Result<_, _>>()
        .map(Algorithms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(bytes("5_000_000"), Ok(5_000_000));
        assert_eq!(bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert!(bytes("5 parsecs").unwrap_err().contains("parsecs"));
        assert!(bytes("MB").is_err());
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("soon").is_err());
        assert!(algorithm("vpc").unwrap_err().contains("vcp"));
        let list = |text| algorithms(text).unwrap().0;
        let shown: Vec<String> = list("vcp[alpha=2,t_rho=100ms],xcp")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["vcp[alpha=2,t_rho=100ms]", "xcp"]);
        assert_eq!(list("cubic").len(), 1);
        for wrong in ["", "cubic,", "vcp[alpha=2,cubic", "cubic xcp", "xcp],cubic"] {
            assert!(algorithms(wrong).is_err(), "{wrong}");
        }
    }
}
