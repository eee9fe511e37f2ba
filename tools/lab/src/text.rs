//! Formats figures and paragraphs as text.

/// Formats a rate in bits per second.
pub fn rate(bits_per_second: f64) -> String {
    let (scaled, unit) = match bits_per_second {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b => (b / 1e3, "kbit/s"),
    };
    format!("{scaled:.2} {unit}")
}

/// Placeholder for a missing figure.
pub fn dash() -> String {
    "-".to_owned()
}

/// Begins the text with a capital letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Wraps a paragraph at 100 columns. Longer words get a separate line.
pub fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > 100 {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_at_100_columns() {
        let text = format!("{}end", "word ".repeat(50));
        let lines: Vec<String> = wrapped(&text).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= 100));
        assert_eq!(lines.join(" "), text.trim());
        assert_eq!(wrapped(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(wrapped("  "), "");
    }
}
