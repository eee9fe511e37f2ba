use super::*;

const EQUATIONS: &str = FILES[0];
const RFC: &str = FILES[3];

fn entries(file: &'static str, text: &str) -> Citable {
    let mut entries = Citable::default();
    entries.add(file, text).unwrap();
    entries
}

const TWO: &str = "['P eq. 1']\nsays = 'a'\n['P eq. 2']\nsays = 'b'\nexception = 'a proof'\n";

const SOURCE: &str = "\
/// Computes [P eq. 1].
fn f() {
let a = \"[P eq. 8]\"; // [P eq. 2]
}

#[cfg(test)]
mod tests {
/// An oracle of [P eq. 3].
fn g() {}

/// A test of [P eq. 1].
#[test]
fn h() {
    // [P eq. 4], not [Q eq. 1], [P eq. 7](a.md) or a[0].
}

proptest! {
    /// [P eq. 5]
    fn i(n in 0..1) {}
}
}
";

fn found(compiled: bool) -> Vec<(String, Place, String)> {
    let found = entries(EQUATIONS, TWO).in_rust(Path::new("a.rs"), SOURCE, compiled);
    let found = found.unwrap().into_iter();
    found
        .map(|citation| {
            let at = format!("{}:{}", citation.path.display(), citation.line);
            (citation.key, citation.place, at)
        })
        .collect()
}

#[test]
fn citations_are_of_code_or_of_tests() {
    let at = |key: &str, place, line: usize| (key.to_owned(), place, format!("a.rs:{line}"));
    let in_tests = [
        at("P eq. 3", Place::Elsewhere, 8),
        at("P eq. 1", Place::Test, 11),
        at("P eq. 4", Place::Test, 14),
        at("P eq. 5", Place::Test, 18),
    ];
    let code = |place| [at("P eq. 1", place, 1), at("P eq. 2", place, 3)];
    assert_eq!(found(true), [&code(Place::Code)[..], &in_tests].concat());
    let elsewhere = code(Place::Elsewhere);
    assert_eq!(found(false), [&elsewhere[..], &in_tests].concat());
}

fn cited(key: &str, place: Place) -> Citation {
    Citation {
        key: key.to_owned(),
        place,
        path: "a.rs".into(),
        line: 1,
    }
}

#[test]
fn each_equation_needs_code_and_a_test() {
    let entries = entries(EQUATIONS, TWO);
    let faults = |places: &[Place]| {
        let citations = places.iter().map(|place| cited("P eq. 1", *place));
        entries.faults(&citations.collect::<Vec<_>>())
    };
    assert_eq!(faults(&[Place::Code, Place::Test]), [""; 0]);
    let fault = |missing| [format!("{EQUATIONS}: P eq. 1: no {missing} cites it")];
    assert_eq!(faults(&[Place::Code]), fault("test"));
    assert_eq!(faults(&[Place::Test]), fault("code"));
    assert_eq!(faults(&[Place::Elsewhere]), fault("code and no test"));
}

#[test]
fn an_unknown_key_and_a_stale_exception_are_faults() {
    let entries = entries(EQUATIONS, TWO);
    let citations = [
        cited("P eq. 1", Place::Code),
        cited("P eq. 1", Place::Test),
        cited("P eq. 2", Place::Code),
        cited("P eq. 2", Place::Test),
        cited("P eq. 9", Place::Elsewhere),
    ];
    assert_eq!(
        entries.faults(&citations),
        [
            format!("{EQUATIONS}: P eq. 2: cited, so the exception is stale"),
            "a.rs:1: [P eq. 9] has no entry".to_owned(),
        ]
    );
}

#[test]
fn an_entry_has_a_paraphrase_and_no_unknown_field() {
    let entries = entries(EQUATIONS, "['P 1']\nexception = ' '\nnote = 'c'\n");
    assert_eq!(
        entries.faults(&[]),
        [
            format!("{EQUATIONS}: P 1: `exception` is unknown or empty"),
            format!("{EQUATIONS}: P 1: `note` is unknown or empty"),
            format!("{EQUATIONS}: P 1: `says` is missing"),
        ]
    );
}

/// A complete requirement.
const WHOLE: &str = "['9002 1.1 a']\nlevel = 'MUST'\nwho = 'client'\nsays = 'It counts.'\n";

#[test]
fn a_requirement_has_a_level_a_role_and_few_words() {
    let long = "a ".repeat(26);
    let text = format!("['9000 1 a']\nlevel = 'MAY'\nsays = '{long}'\n{WHOLE}");
    assert_eq!(
        entries(RFC, &text).faults(&[cited("9002 1.1 a", Place::Code)]),
        [
            format!("{RFC}: 9000 1 a: the key is not `RFC section slug`"),
            format!("{RFC}: 9000 1 a: `level` is none of [\"MUST\", \"MUST NOT\"]"),
            format!("{RFC}: 9000 1 a: `who` is none of {ROLES:?}"),
            format!("{RFC}: 9000 1 a: `says` has 26 words, more than 25"),
            format!("{RFC}: 9000 1 a: no code and no test cites it"),
            format!("{RFC}: 9002 1.1 a: no test cites it"),
        ]
    );
}

#[test]
fn two_entries_of_one_text_are_a_fault() {
    let text = format!("{WHOLE}{}", WHOLE.replace("1.1 a", "1.2 a"));
    let keys = ["9002 1.1 a", "9002 1.2 a"];
    let places = [Place::Code, Place::Test];
    let citations = places.map(|place| keys.map(|key| cited(key, place)));
    let citations: Vec<Citation> = citations.into_iter().flatten().collect();
    let fault = format!("{RFC}: 9002 1.2 a: says what 9002 1.1 a says");
    assert_eq!(entries(RFC, &text).faults(&citations), [fault]);
}

#[test]
fn lines_that_only_cite_are_known() {
    assert!(only_cites("    // [9000 4.1 a] [9000 4.2 b-c]"));
    assert!(only_cites("// [P eq. 1]"));
    let others = "// [9000 4.1 a] limits\n// [`a`]\na[0]\nx(); // [P 1]\n// []";
    assert!(!others.lines().any(only_cites));
}
