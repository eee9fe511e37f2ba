//! Bit errors of a fading radio link, by its antennas.

/// Antennas of the sender and of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Antennas {
    /// They share the power. With an orthogonal space-time block code, each is a separate path.
    pub send: u8,
    /// Their signals are combined.
    pub receive: u8,
}

impl Antennas {
    /// More per side than any full-rate block code supports.
    pub const MOST: u8 = 8;
}

/// The bit error rate at a mean signal-to-noise ratio of `snr_db` per bit: coherent QPSK over
/// independent Rayleigh fading on each of send × receive paths, with maximum-ratio combining
/// (Proakis, Digital Communications, §14.4).
pub fn bit_error_rate(snr_db: f64, antennas: Antennas) -> f64 {
    let ways = u32::from(antennas.send.max(1)) * u32::from(antennas.receive.max(1));
    let snr = libm::pow(10.0, snr_db / 10.0) / f64::from(antennas.send.max(1));
    let mu = (snr / (1.0 + snr)).sqrt();
    // (1 − µ) / 2 without cancellation, because 1 − µ² = 1 / (1 + SNR).
    let wrong = 0.5 / ((1.0 + snr) * (1.0 + mu));
    let right = 1.0 - wrong;
    let (mut sum, mut term) = (0.0, 1.0);
    for k in 0..ways {
        sum += term;
        // C(ways − 1 + k, k) · right^k, each computed from the previous one.
        term *= right * f64::from(ways + k) / f64::from(k + 1);
    }
    libm::pow(wrong, f64::from(ways)) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(snr_db: f64, send: u8, receive: u8) -> f64 {
        bit_error_rate(snr_db, Antennas { send, receive })
    }

    /// Polynomials in p = ½ (1 − √(γ / (1 + γ))) for one, two and four paths.
    #[test]
    fn known_answers() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        for snr_db in [0.0, 10.0, 20.0] {
            let p = |ratio: f64| {
                let snr = ratio * 10f64.powf(snr_db / 10.0);
                0.5 * (1.0 - (snr / (1.0 + snr)).sqrt())
            };
            let two = |p: f64| p * p * (3.0 - 2.0 * p);
            let four = |p: f64| p.powi(4) * (35.0 - 84.0 * p + 70.0 * p * p - 20.0 * p.powi(3));
            close(at(snr_db, 1, 1), p(1.0));
            close(at(snr_db, 1, 2), two(p(1.0)));
            close(at(snr_db, 2, 1), two(p(0.5)));
            close(at(snr_db, 2, 2), four(p(0.5)));
        }
        close(at(10.0, 1, 1), 0.023_268_705_377_203_72);
        // Asymptotically, 1 / (4 γ) and 35 / (4 γ / 2)^4.
        assert!((at(60.0, 1, 1) / 2.5e-7 - 1.0).abs() < 1e-5);
        assert!((at(60.0, 2, 2) / (35.0 / 2e6f64.powi(4)) - 1.0).abs() < 1e-5);
    }

    /// "1x1, 2x1, 1x2 and 2x2 in ascending order" (VCP Linux paper, §IV-B).
    #[test]
    fn more_antennas_err_less() {
        for snr_db in 0..50 {
            let rates = [(1, 1), (2, 1), (1, 2), (2, 2)].map(|(s, r)| at(f64::from(snr_db), s, r));
            assert!(rates.is_sorted_by(|a, b| a > b), "{snr_db} dB: {rates:?}");
        }
    }
}
