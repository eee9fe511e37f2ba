use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn read(text: &str) -> anyhow::Result<Clients> {
    let here = tempfile::tempdir().unwrap();
    for (name, token, mode) in [
        ("one", "secret-of-client-1\n", 0o600),
        ("two", "secret-of-client-2", 0o640),
        ("bad", "two words", 0o600),
        ("short", "15-are-too-few!", 0o600),
        ("open", "secret-of-client-3", 0o644),
    ] {
        let path = here.path().join(name);
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let path = here.path().join("clients.toml");
    std::fs::write(&path, text).unwrap();
    Clients::read(&path, here.path())
}

fn request(authorization: Option<&str>) -> Request<()> {
    let mut request = Request::builder();
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    request.body(()).unwrap()
}

#[test]
fn requests_belong_to_the_client_of_their_token() {
    let clients = read(
        "[[client]]\nname = \"one\"\ntoken-file = \"one\"\nrights = [\"get\"]\n\
         prefix = \"/a/b\"\nquota = \"1MB\"\nrate = \"1MB/s\"\n\
         [[client]]\nname = \"two\"\ntoken-file = \"two\"\nrights = [\"put\", \"overwrite\"]\n",
    )
    .unwrap();
    let name = |value: Option<&str>| clients.name(&request(value), None).map(ToOwned::to_owned);
    assert_eq!(
        name(Some("Bearer secret-of-client-1")).as_deref(),
        Some("one")
    );
    assert_eq!(
        name(Some("bearer  secret-of-client-2")).as_deref(),
        Some("two")
    );
    for none in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer secret-of-client-3"),
        Some("Basic secret-of-client-1"),
    ] {
        assert_eq!(name(none), None, "{none:?}");
        let reply = clients.admit(&request(none), None).unwrap_err();
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
        assert!(reply.headers.contains_key(WWW_AUTHENTICATE));
    }
    let grant = clients
        .admit(&request(Some("Bearer secret-of-client-1")), None)
        .unwrap();
    assert!(grant.rules.get && !grant.rules.list && grant.rules.put == PutRights::None);
    assert_eq!(grant.rules.prefix, [b"a", b"b"]);
    assert!(grant.pace.is_some() && grant.quota.is_some());

    let anyone = read("[[client]]\nname = \"anyone\"\nrights = [\"list\"]\n").unwrap();
    assert_eq!(anyone.name(&request(None), None), Some("anyone"));
    assert_eq!(
        anyone.name(&request(Some("Bearer secret-of-client-1")), None),
        None
    );
}

#[test]
fn connections_belong_to_the_client_of_their_certificate() {
    let (pin, other) = (Pin::new([7; 32]), Pin::new([8; 32]));
    let clients = read(&format!(
        "[[client]]\nname = \"one\"\ntoken-file = \"one\"\nrights = [\"get\"]\n\
         [[client]]\nname = \"pinned\"\npin = \"sha256:{pin}\"\nrights = [\"get\"]\n"
    ))
    .unwrap();
    assert!(clients.have_pins());
    let name = |value, shown| clients.name(&request(value), shown);
    assert_eq!(name(None, Some(pin)), Some("pinned"));
    assert_eq!(name(None, Some(other)), None);
    assert_eq!(name(None, None), None);
    assert_eq!(
        name(Some("Bearer secret-of-client-1"), Some(pin)),
        Some("one")
    );
    assert_eq!(name(Some("Bearer wrong"), Some(pin)), None);
}

#[test]
fn what_is_wrong_is_named_with_its_line_or_client() {
    let rights = |right: &str| format!("[[client]]\nname = \"a\"\nrights = [\"{right}\"]\n");
    let with = |more: &str| format!("{}{more}\n", rights("get"));
    let both = format!("token-file = \"one\"\npin = \"{}\"", "0".repeat(64));
    for (text, word) in [
        (with("color = 1"), "line 4"),
        (rights("fly"), "line 3"),
        ("[[client]]\nname = \"a\"\n".to_owned(), "rights"),
        (with("token-file = \"none\""), "none"),
        (with("token-file = \"bad\""), "visible"),
        (with("token-file = \"short\""), "16 characters at least"),
        (with("token-file = \"open\""), "all users can read"),
        (with("token-env = \"NO_SUCH_TOKEN\""), "NO_SUCH_TOKEN"),
        (with("token-file = 'one'\ntoken-env = 'X'"), "one of them"),
        (with("pin = \"sha256:12\""), "64 hexadecimal"),
        (with(&both), "a token and a pin"),
        (with("prefix = \"a/../b\""), "prefix"),
        (with("quota = \"much\""), "much"),
        (with("rate = \"10\""), "1kB"),
        (with("") + &with(""), "same name"),
        (rights("overwrite"), "without put"),
    ] {
        let error = format!("{:#}", read(&text).unwrap_err());
        let is_named = error.contains(word) && error.contains("clients.toml");
        assert!(is_named, "{error}");
    }
}
