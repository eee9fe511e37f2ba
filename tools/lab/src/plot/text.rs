//! Texts in pictures: headlines that fit, and short numbers.

/// Fits a headline into one line, or into two if the letters would be small. Returns the lines and
/// the letters' size.
pub(super) fn headline(title: &str, width: f64) -> (Vec<String>, f64) {
    let letters = title.chars().count();
    if fitting(letters, width) >= 14.0 {
        return (vec![title.to_owned()], fitting(letters, width).min(22.0));
    }
    let (mut first, mut second) = (String::new(), String::new());
    for word in title.split_whitespace() {
        let line = if 2 * first.chars().count() < letters && second.is_empty() {
            &mut first
        } else {
            &mut second
        };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let longer = first.chars().count().max(second.chars().count());
    (vec![first, second], fitting(longer, width).min(16.0))
}

/// Returns the size at which this number of letters fits. A letter's width is about 0.6 of its
/// size.
pub(super) fn fitting(letters: usize, width: f64) -> f64 {
    width / letters.max(1) as f64 / 0.6
}

/// Returns the shortest form of a number: `0.25`, `300`, `1e-5`, `1e9`.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rounds a number to the precision of a plot.
pub(super) fn three_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().max(1e-300).log10().floor() - 2.0);
    (value / unit).round() * unit
}
