"""Chromium as a client of `pathmark serve`: it opens the page of a directory and downloads a file.

listing.py PATHMARK CHROMIUM PLACE PICTURE, where PLACE is an empty directory. It prints a line for
each case, fails with the first that fails, and leaves a screenshot in the file PICTURE.
"""

import base64
import fcntl
import hashlib
import json
import os
import pathlib
import random
import select
import subprocess
import sys
import time
import urllib.parse

LARGE = random.Random(1).randbytes(3_000_000)
PATIENCE = 30
# Names as bytes, with what the page shows for each.
FILES = {
    b"plain.txt": "plain.txt",
    b"two words.bin": "two words.bin",
    "Käse & <b>Brot<b>.iso".encode(): "Käse & <b>Brot<b>.iso",
    b"bell\a\x1b[31m": "bell\\u{7}\\u{1b}[31m",
    b"not\xffUTF-8": "not\\xffUTF-8",
    b"a:b?c=d#e%20": "a:b?c=d#e%20",
}


def content(name):
    return LARGE if name == b"two words.bin" else name


def done(case):
    print(f"chromium: {case}", flush=True)


class Browser:
    """The browser, driven by the DevTools protocol over pipes: objects in JSON, each with a NUL."""

    def __init__(self, program, profile, *flags):
        def ends():
            """A pipe whose ends are not among the numbers that the browser expects."""
            return [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in os.pipe()]

        (reads, self.into), (self.out, writes) = ends(), ends()

        def numbers():
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        flags = [f"--user-data-dir={profile}", "--remote-debugging-pipe", *flags]
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", *flags, "about:blank"],
            close_fds=False,
            preexec_fn=numbers,
            stderr=open(pathlib.Path(profile).with_suffix(".log"), "wb"),
        )
        os.close(reads)
        os.close(writes)
        self.buffer, self.events, self.last, self.session = b"", [], 0, None

    def read(self, until):
        """The next message."""
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.out], [], [], left)[0]:
                data = os.read(self.out, 1 << 20)
                assert data, "the browser has ended"
                self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.into, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self.read(until)
            if message.get("id") == self.last:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def event(self, method, condition=lambda _: True):
        """The next event of a kind that has arrived, or arrives."""
        until = time.monotonic() + PATIENCE
        while True:
            for place, event in enumerate(self.events):
                if event.get("method") == method and condition(event["params"]):
                    del self.events[: place + 1]
                    return event["params"]
            self.events.append(self.read(until))

    def evaluate(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def open_page(self):
        target = self.call("Target.createTarget", url="about:blank", width=900, height=700)
        target = target["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Page.enable")

    def go(self, url):
        self.events.clear()
        gone = self.call("Page.navigate", url=url)
        assert "errorText" not in gone, gone
        self.event("Page.loadEventFired")

    def click(self, url):
        self.events.clear()
        find = f"[...document.links].find(link => link.href == {json.dumps(url)}).click()"
        found = self.call("Runtime.evaluate", expression=find)
        assert "exceptionDetails" not in found, (url, found)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))


def key_hash(key):
    """SHA-256 of the public key of a certificate in PEM, as Chromium names it."""
    pem = subprocess.check_output(["openssl", "x509", "-in", key, "-pubkey", "-noout"])
    der = subprocess.check_output(["openssl", "pkey", "-pubin", "-outform", "DER"], input=pem)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def judge(browser, origin, place, picture):
    browser.open_page()
    browser.go(f"{origin}/")
    navigation = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
    assert browser.evaluate(navigation) == "h3", browser.evaluate(navigation)
    done("a page over h3")

    links = "[...document.querySelectorAll('a')].map(link => [link.textContent, link.href])"
    links = dict(browser.evaluate(links))
    for name, shown in FILES.items():
        path = links[shown].removeprefix(f"{origin}/")
        assert urllib.parse.unquote_to_bytes(path) == name, (path, name)
    assert "inner/" in links, links
    # What is text in a name is no element of the page.
    assert browser.evaluate("document.querySelectorAll('b').length") == 0
    done("names with spaces, umlauts, control characters and markup")
    browser.screenshot(picture)

    browser.click(f"{origin}/inner/")
    browser.event("Page.loadEventFired")
    assert browser.evaluate("location.pathname") == "/inner/"
    browser.click(f"{origin}/")
    browser.event("Page.loadEventFired")
    assert browser.evaluate("location.pathname") == "/"
    done("a directory and back")

    # The second time the browser has the page, and asks whether it has changed.
    for _ in range(2):
        browser.go(f"{origin}/plain.txt")
        assert browser.evaluate("document.body.innerText") == "plain.txt"
    browser.go(f"{origin}/")

    stored = place / "downloads"
    stored.mkdir()
    browser.call(
        "Browser.setDownloadBehavior",
        behavior="allowAndName",
        downloadPath=str(stored),
        eventsEnabled=True,
    )
    for name, shown in FILES.items():
        if name.endswith(b".txt"):
            continue
        browser.click(links[shown])
        end = browser.event(
            "Browser.downloadProgress", lambda progress: progress["state"] != "inProgress"
        )
        assert end["state"] == "completed", end
        assert (stored / end["guid"]).read_bytes() == content(name), name
    done("downloads")


def main(pathmark, chromium, place, picture):
    place = pathlib.Path(place)
    files, log, profile = place / "files", place / "access.json", place / "profile"
    (files / "inner").mkdir(parents=True)
    for name in FILES:
        files.joinpath(os.fsdecode(name)).write_bytes(content(name))
    command = [pathmark, "serve", "--json", "--listen", "127.0.0.1:0", "--dir", files]
    command += ["--access-log", log]
    environment = {**os.environ, "RUST_LOG": "warn"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    browser = None
    try:
        address = json.loads(server.stdout.readline())["listening"]
        browser = Browser(
            chromium,
            profile,
            f"--origin-to-force-quic-on={address}",
            f"--ignore-certificate-errors-spki-list={key_hash(place / '.pathmark-files.key')}",
        )
        judge(browser, f"https://{address}", place, picture)
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait(PATIENCE)
    finally:
        if browser and browser.process.poll() is None:
            browser.process.kill()
        server.terminate()
        assert server.wait(PATIENCE) == 0
    # The server takes nothing but HTTP/3.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = {(line["method"], line["path"], line["status"], line["bytes"]) for line in lines}
    assert ("GET", "/plain.txt", 304, 0) in lines, lines
    assert ("GET", "/two%20words.bin", 200, len(LARGE)) in lines, lines
    assert any(line[:3] == ("GET", "/inner/", 200) for line in lines), lines
    done("the server's access log has the requests, one of them for a page that has not changed")


main(*sys.argv[1:])
