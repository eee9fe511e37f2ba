"""curl as an HTTP/3 client of the origin.

http3.py FILES, where FILES is the program of apps/http3/examples/files.rs. It prints a line for
each case, and fails with the first that fails.
"""

import base64
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from curl_cffi import CurlHttpVersion, CurlOpt, requests

LARGE = random.Random(1).randbytes(3_000_000)


def done(case):
    print(f"curl http3: {case}", flush=True)


def judge(port, certificate, directory):
    session = requests.Session(http_version=CurlHttpVersion.V3ONLY, verify=str(certificate))

    def ask(method, path, content=None, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        url = f"https://localhost:{port}{path}"
        response = session.request(method, url, data=content, headers=fields, timeout=20)
        assert response.http_version == CurlHttpVersion.V3, response.http_version
        return response

    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(LARGE).digest()).decode()}:"
    whole = ask("GET", "/large")
    assert (whole.status_code, whole.content) == (200, LARGE)
    done("get")
    tag = whole.headers["etag"]
    # A file that has just been written has a weak tag, with which no range can be requested. No
    # event reports that the tag has become strong.
    for _ in range(500):
        if not tag.startswith("W/"):
            break
        time.sleep(0.01)
        tag = ask("HEAD", "/large").headers["etag"]
    part = ask("GET", "/large", range="bytes=2000000-", if_range=tag)
    assert (part.status_code, part.content) == (206, LARGE[2000000:])
    other = ask("GET", "/large", range="bytes=2000000-", if_range='"other"')
    assert (other.status_code, other.content) == (200, LARGE)
    beyond = ask("GET", "/large", range="bytes=3000000-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */3000000")
    done("range")
    head = ask("HEAD", "/large", want_repr_digest="sha-256=1")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(LARGE))
    assert head.headers["repr-digest"] == digest
    done("head")
    known = ask("GET", "/large", if_none_match=tag)
    assert (known.status_code, known.content) == (304, b"")
    done("not modified")
    listing = ask("GET", "/", accept="application/json")
    assert [entry["name"] for entry in json.loads(listing.content)["entries"]] == ["large"]
    page = ask("GET", "/", accept="text/html")
    assert '<a href="./large">' in page.text
    done("list")
    stored = ask("PUT", "/stored%20here", LARGE, if_none_match="*", repr_digest=digest)
    assert stored.status_code == 201, stored.text
    assert (directory / "stored here").read_bytes() == LARGE
    again = ask("PUT", "/stored%20here", LARGE, if_none_match="*")
    assert again.status_code == 412, again.text
    done("put")
    pinned(port, certificate)
    missing = ask("GET", "/nothing")
    assert missing.status_code == 404 and json.loads(missing.content)["status"] == 404
    done("problem details")


def pinned(port, certificate):
    """The server is known by the hash of its public key alone, as `--pinnedpubkey` has it."""
    pem = subprocess.check_output(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"])
    der = subprocess.check_output(["openssl", "pkey", "-pubin", "-outform", "DER"], input=pem)

    def get(key):
        pin = b"sha256//" + base64.b64encode(hashlib.sha256(key).digest())
        options = {CurlOpt.PINNEDPUBLICKEY: pin}
        version = CurlHttpVersion.V3ONLY
        session = requests.Session(http_version=version, verify=False, curl_options=options)
        return session.get(f"https://localhost:{port}/large", timeout=20)

    assert get(der).content == LARGE
    try:
        get(b"another key")
    except requests.exceptions.SSLError:
        return done("a pinned key")
    raise AssertionError("another key is trusted")


def main(files):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        directory, certificate = place / "files", place / "origin.pem"
        os.mkdir(directory)
        (directory / "large").write_bytes(LARGE)
        origin = subprocess.Popen(
            [files, "serve", directory, certificate], stdout=subprocess.PIPE, text=True
        )
        try:
            judge(int(origin.stdout.readline()), certificate, directory)
        finally:
            origin.kill()
            origin.wait()


main(sys.argv[1])
