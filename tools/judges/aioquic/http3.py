"""aioquic as an HTTP/3 client of the origin, and as an HTTP/3 server of the client.

http3.py FILES, where FILES is the program of apps/http3/examples/files.rs. It prints a line for
each case, and fails with the first that fails. HEAD of a file is no case: aioquic 1.7.2 takes a
response with a Content-Length and no content for malformed, whatever its request was.
"""

import asyncio
import base64
import datetime
import hashlib
import json
import os
import pathlib
import random
import ssl
import subprocess
import sys
import tempfile

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamReset
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LARGE = random.Random(1).randbytes(3_000_000)


class Response:
    """A response of which more and more arrives."""

    def __init__(self):
        self.sections = []
        self.content = b""
        self.interim = asyncio.Event()
        self.whole = asyncio.get_running_loop().create_future()

    @property
    def status(self):
        return int(self.sections[0][b":status"])

    def field(self, name):
        return self.sections[0].get(name.encode(), b"").decode()


class Client(QuicConnectionProtocol):
    """Requests on one connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses = {}

    async def ask(self, method, path, fields=(), content=b""):
        stream = self.begin(method, path, fields, content, end=True)
        return await asyncio.wait_for(self.responses[stream].whole, 20)

    def begin(self, method, path, fields, content, end):
        stream = self._quic.get_next_available_stream_id()
        self.responses[stream] = Response()
        head = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", path.encode()),
        ]
        head += [(name.encode(), value.encode()) for name, value in fields]
        self.http.send_headers(stream, head, end_stream=end and not content)
        if content:
            self.http.send_data(stream, content, end_stream=end)
        self.transmit()
        return stream

    def break_off(self, stream):
        """Resets a request, whose response does not count any more."""
        self.responses.pop(stream)
        self._quic.reset_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
        self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            error = ConnectionError(f"reset with {event.error_code:#x}")
            self.responses[event.stream_id].whole.set_exception(error)
        for part in self.http.handle_event(event):
            response = self.responses.get(part.stream_id)
            if response is None:
                continue
            match part:
                case HeadersReceived() if dict(part.headers).get(b":status", b"").startswith(b"1"):
                    response.resource = dict(part.headers)[b"location"].decode()
                    response.interim.set()
                case HeadersReceived():
                    response.sections.append(dict(part.headers))
                case DataReceived():
                    response.content += part.data
            if part.stream_ended:
                response.whole.set_result(response)


class Server(QuicConnectionProtocol):
    """Serves LARGE with ranges. The first response of the process breaks off."""

    first = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            if isinstance(part, HeadersReceived):
                asyncio.ensure_future(self.respond(part.stream_id, dict(part.headers)))

    async def respond(self, stream, head):
        begin = int(head.get(b"range", b"bytes=0-")[6:-1])
        if begin and head.get(b"if-range") != b'"v1"':
            begin = 0
        content = LARGE[begin:]
        fields = [
            (b":status", b"206" if begin else b"200"),
            (b"content-length", str(len(content)).encode()),
            (b"etag", b'"v1"'),
            (b"repr-digest", digest(LARGE).encode()),
        ]
        if begin:
            value = f"bytes {begin}-{len(LARGE) - 1}/{len(LARGE)}"
            fields.append((b"content-range", value.encode()))
        self.http.send_headers(stream, fields)
        breaks, Server.first = Server.first, False
        if breaks:
            self.http.send_data(stream, content[:1_000_000], end_stream=False)
            self.transmit()
            await asyncio.sleep(1)
            self._quic.reset_stream(stream, ErrorCode.H3_INTERNAL_ERROR)
        else:
            self.http.send_data(stream, content, end_stream=True)
        self.transmit()


def digest(content):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def done(case):
    print(f"aioquic http3: {case}", flush=True)


async def strong_tag(client):
    """Returns the tag of the file once its last change is so old that it is strong."""
    for _ in range(100):
        start = await client.ask("GET", "/large", [("range", "bytes=0-0")])
        tag = start.field("etag")
        if not tag.startswith("W/"):
            return tag
        await asyncio.sleep(0.01)
    raise AssertionError("the tag stays weak")


async def judge_origin(port, certificate, directory):
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=H3_ALPN,
        cafile=str(certificate),
        server_name="localhost",
        verify_mode=ssl.CERT_REQUIRED,
    )
    protocol = {"configuration": configuration, "create_protocol": Client}
    async with connect("127.0.0.1", port, **protocol) as client:
        whole = await client.ask("GET", "/large", [("want-repr-digest", "sha-256=1")])
        assert (whole.status, whole.content) == (200, LARGE)
        assert whole.sections[-1][b"repr-digest"].decode() == digest(LARGE)
        done("get")
        tag = await strong_tag(client)
        fields = [("range", "bytes=2000000-"), ("if-range", tag)]
        part = await client.ask("GET", "/large", fields)
        assert (part.status, part.content) == (206, LARGE[2000000:])
        assert part.field("content-range") == "bytes 2000000-2999999/3000000"
        done("range")
        parts = await client.ask("GET", "/large", [("range", "bytes=0-1,-2")])
        assert parts.status == 206
        assert parts.field("content-type").startswith("multipart/byteranges")
        assert len(parts.content) == int(parts.field("content-length"))
        done("multipart ranges")
        many = [client.ask("GET", "/large") for _ in range(10)]
        assert all(one.content == LARGE for one in await asyncio.gather(*many))
        done("ten at once")
        listing = await client.ask("GET", "/")
        assert [entry["name"] for entry in json.loads(listing.content)["entries"]] == ["large"]
        done("list")
        fields = [("if-none-match", "*"), ("repr-digest", digest(LARGE))]
        stored = await client.ask("PUT", "/stored%20here", fields, LARGE)
        assert stored.status == 201, (stored.sections, stored.content)
        assert (directory / "stored here").read_bytes() == LARGE
        again = await client.ask("PUT", "/stored%20here", fields, LARGE)
        assert again.status == 412, again.sections
        done("put")
        missing = await client.ask("GET", "/nothing")
        assert missing.status == 404 and json.loads(missing.content)["status"] == 404
        done("problem details")
        await judge_upload(client, directory)


async def judge_upload(client, directory):
    """An upload that breaks off, and goes on (draft-ietf-httpbis-resumable-upload-12)."""
    version = ("upload-draft-interop-version", "8")
    first = [("upload-complete", "?1"), version, ("content-length", str(len(LARGE)))]
    first.append(("repr-digest", digest(LARGE)))
    stream = client.begin("PUT", "/upload", first, LARGE[:1_000_000], end=False)
    response = client.responses[stream]
    await asyncio.wait_for(response.interim.wait(), 20)
    client.break_off(stream)
    done("upload begun and broken off")
    state = await client.ask("HEAD", response.resource)
    assert state.status == 204, state.sections
    assert state.field("upload-complete") == "?0"
    assert state.field("upload-length") == str(len(LARGE))
    offset = int(state.field("upload-offset"))
    assert 0 < offset <= 1_000_000, offset
    assert not (directory / "upload").exists()
    done("upload asked for its offset")

    async def append(at, complete, content):
        fields = [("upload-complete", complete), ("upload-offset", str(at))]
        fields += [version, ("content-type", "application/partial-upload")]
        return await client.ask("PATCH", response.resource, fields, content)

    wrong = await append(offset + 1, "?1", LARGE[offset + 1 :])
    assert wrong.status == 409 and wrong.field("upload-offset") == str(offset), wrong.sections
    middle = await append(offset, "?0", LARGE[offset:2_000_000])
    assert middle.status == 204, (middle.sections, middle.content)
    assert middle.field("upload-offset") == "2000000"
    last = await append(2_000_000, "?1", LARGE[2_000_000:])
    assert last.status == 201, (last.sections, last.content)
    assert (directory / "upload").read_bytes() == LARGE
    done("upload completed")


def identity(place):
    """A certificate of a key, in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    alternatives = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(alternatives, False).sign(key, hashes.SHA256())
    chain, secret = place / "server.pem", place / "server.key"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pkcs8 = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    pin = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    return chain, secret, pin


async def judge_client(files, place):
    chain, secret, pin = identity(place)
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(chain, secret)
    server = await serve(
        "127.0.0.1", 0, configuration=configuration, create_protocol=Server
    )
    port = server._transport.get_extra_info("sockname")[1]
    target = place / "target"

    async def get():
        process = await asyncio.create_subprocess_exec(
            files, "get", str(port), pin, "/large", target, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        return process.returncode, output.decode().split()

    code, _ = await get()
    assert code != 0 and not target.exists()
    done("a response that breaks off")
    code, (size, resumed, verified) = await get()
    assert code == 0 and (int(size), verified) == (len(LARGE), "true")
    assert int(resumed) > 0, resumed
    assert target.read_bytes() == LARGE
    done("resume")
    server.close()


async def main(files):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        directory, certificate = place / "files", place / "origin.pem"
        os.mkdir(directory)
        (directory / "large").write_bytes(LARGE)
        origin = subprocess.Popen(
            [files, "serve", directory, certificate], stdout=subprocess.PIPE, text=True
        )
        try:
            port = int(origin.stdout.readline())
            await judge_origin(port, certificate, directory)
        finally:
            origin.kill()
            origin.wait()
        await judge_client(files, place)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
