//! Tests for the file's keys, values and errors.

use super::*;

const TOKEN: &str = "0123456789abcdef";

fn fails(text: &str) -> String {
    let path = Path::new("/etc/p.toml");
    Config::parse(path, text).unwrap_err().to_string()
}

#[test]
fn a_whole_file() {
    let text = "\
listen = ':4433'
tokens = 'tokens'
name = 'proxy.example'
cert = '/etc/c.pem'
key = 'k.pem'
cc = 'auto'
allow = ['10.0.0.0/8', '::1']
deny = ['10.1.0.0/16']
[limits]
flows = 5
flows_per_user = 2
[seconds]
connect = 3
udp_idle = 120
";
    let config = Config::parse(Path::new("/etc/p.toml"), text).unwrap();
    assert_eq!(config.tokens, Path::new("/etc/tokens"));
    let certificate = (PathBuf::from("/etc/c.pem"), PathBuf::from("/etc/k.pem"));
    assert_eq!(config.certificate, Some(certificate));
    assert_eq!(config.cc, Some(("auto".to_owned(), 6)));
    assert_eq!(config.policy.allow[1].to_string(), "::1/128");
    let access = config.access(&users("t", &format!("a {TOKEN}")).unwrap());
    assert_eq!((access.flows, access.flows_per_user), (5, 2));
    assert_eq!(access.users[0].name, "a");
    assert_eq!(config.times.connect, Duration::from_secs(3));
}

#[test]
fn faults_have_their_line() {
    let begin = "listen = ':1'\ntokens = 't'\n";
    for (more, expected) in [
        ("flow = 1", "/etc/p.toml:3: unknown field `flow`"),
        ("[limits]\nflows = -1", "/etc/p.toml:4: "),
        ("[seconds]\nudp_idle = 119", ":4: this time has 120 seconds"),
        ("allow = [\n'10.0.0.0/8',\n'x']", ":5: `x` is no prefix"),
        ("deny = ['10.0.0.1/8']", ":3: `10.0.0.1/8` is no prefix"),
        ("[user.a]\nrate = 0", "/etc/p.toml:4: "),
        ("[user.a]\nrates = 1", "/etc/p.toml:4: unknown field"),
        ("cert = 'x'", "`cert` and `key` go together"),
        ("name = ", "/etc/p.toml:3: "),
    ] {
        let said = fails(&format!("{begin}{more}"));
        assert!(said.contains(expected), "{said}");
    }
    assert!(fails("listen = ':1'").contains("missing field `tokens`"));
}

#[test]
fn users_have_names_and_tokens() {
    let pin = Pin::of(b"c");
    let text = format!("# users\n\na {TOKEN}\nb-1\t {TOKEN}x \nc sha256:{pin}\n");
    let read = users("tokens", &text).unwrap();
    let names: Vec<_> = read.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b-1", "c"]);
    let token = format!("{TOKEN}x").parse().unwrap();
    assert_eq!(read[1].1, Credential::Token(token));
    assert_eq!(read[2].1, Credential::Certificate(pin));
    for (text, expected) in [
        ("", "tokens:1: no user"),
        (TOKEN, "tokens:1: a line has"),
        ("a short", "tokens:1: a token has 16"),
        ("a sha256:12", "tokens:1: `sha256:` and 64"),
        ("é TOKEN", "tokens:1: a name has"),
        ("a TOKEN\na TOKENx", "tokens:2: another line has this name"),
        ("a TOKEN\nb TOKEN", "tokens:2: another line has this token"),
    ] {
        let said = users("tokens", &text.replace("TOKEN", TOKEN)).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(expected) && !said.contains("0123"), "{said}");
    }
}
