"""aioquic as a client of the proxy, and as a proxy for the tunnel.

proxy.py PATHMARK FLOWS, where FLOWS is the program of apps/proxy/examples/flows.rs. It prints a
line for each case, and fails with the first that fails.
"""

import asyncio
import contextlib
import json
import pathlib
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import urllib.parse

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, DatagramReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamReset

from http3 import identity

TOKEN = "0123456789abcdef"
CONNECT_ERROR = 0x10F


def http(quic):
    """Of both sides: SETTINGS with extended CONNECT and HTTP datagrams."""
    return H3Connection(quic, enable_webtransport=True)


def capsule(payload):
    """A DATAGRAM capsule of a UDP payload."""
    value = b"\0" + payload
    return b"\0" + encode_uint_var(len(value)) + value


def take_capsule(content):
    """The UDP payload of the first capsule; None while it is not whole."""
    try:
        buffer = Buffer(data=content)
        assert buffer.pull_uint_var() == 0
        value = buffer.pull_bytes(buffer.pull_uint_var())
    except Exception:
        return None
    return value[1:]


class Flow:
    """What arrives for a stream."""

    def __init__(self):
        self.head = None
        self.content = b""
        self.datagrams = []
        self.ended = False
        self.reset = None
        self.changed = asyncio.Event()

    async def until(self, condition):
        async def wait():
            while not condition():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), 20)


class Peer(QuicConnectionProtocol):
    """Flows on one connection, of either side."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = http(self._quic)
        self.flows = {}

    def flow(self, stream):
        return self.flows.setdefault(stream, Flow())

    def opened(self, stream):
        """A server's request has arrived."""

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            flow = self.flow(event.stream_id)
            flow.reset = event.error_code
            flow.changed.set()
        for part in self.http.handle_event(event):
            flow = self.flow(part.stream_id)
            match part:
                case HeadersReceived():
                    flow.head = dict(part.headers)
                    self.opened(part.stream_id)
                case DataReceived():
                    flow.content += part.data
                case DatagramReceived():
                    flow.datagrams.append(part.data)
            flow.ended |= getattr(part, "stream_ended", False)
            flow.changed.set()

    async def request(self, head, token=TOKEN):
        stream = self._quic.get_next_available_stream_id()
        head = [(name.encode(), value.encode()) for name, value in head]
        head.append((b"proxy-authorization", b"Bearer " + token.encode()))
        self.http.send_headers(stream, head)
        self.transmit()
        flow = self.flow(stream)
        await flow.until(lambda: flow.head or flow.reset is not None)
        return stream, flow

    async def tcp(self, port, **more):
        head = [(":method", "CONNECT"), (":authority", f"127.0.0.1:{port}")]
        return await self.request(head, **more)

    async def udp(self, port, host="127.0.0.1"):
        return await self.request(
            [
                (":method", "CONNECT"),
                (":protocol", "connect-udp"),
                (":scheme", "https"),
                (":authority", "proxy"),
                (":path", f"/.well-known/masque/udp/{host}/{port}/"),
                ("capsule-protocol", "?1"),
            ]
        )

    def send(self, stream, data, end=False):
        self.http.send_data(stream, data, end)
        self.transmit()

    def send_datagram(self, stream, payload):
        self.http.send_datagram(stream, b"\0" + payload)
        self.transmit()


def done(case):
    print(f"aioquic proxy: {case}", flush=True)


async def echo(reader, writer):
    """Echoes up to the end, or resets after a line `reset`."""
    while data := await reader.read(65536):
        if data == b"reset\n":
            linger = struct.pack("ii", 1, 0)
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return
        writer.write(data)
    writer.write_eof()


class UdpEcho(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


@contextlib.asynccontextmanager
async def targets():
    """The ports of a TCP and a UDP target."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(UdpEcho, local_addr=("127.0.0.1", 0))
    try:
        yield server.sockets[0].getsockname()[1], udp.get_extra_info("sockname")[1]
    finally:
        udp.close()
        server.close()


async def judge_proxy(port, tcp, udp):
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=H3_ALPN,
        verify_mode=ssl.CERT_NONE,
        max_datagram_frame_size=65536,
    )
    protocol = {"configuration": configuration, "create_protocol": Peer}
    async with connect("127.0.0.1", port, **protocol) as client:
        stream, flow = await client.tcp(tcp)
        assert flow.head[b":status"] == b"200", flow.head
        data = bytes(range(256)) * 4000
        client.send(stream, data, end=True)
        await flow.until(lambda: flow.ended)
        assert flow.content == data
        done("CONNECT: bytes and half-close")

        stream, flow = await client.tcp(tcp)
        client.send(stream, b"reset\n")
        await flow.until(lambda: flow.reset is not None)
        assert flow.reset == CONNECT_ERROR, flow.reset
        done("CONNECT: a target's reset")

        _, flow = await client.tcp(1)
        assert flow.head[b":status"] == b"502", flow.head
        assert b"error=connection_refused" in flow.head[b"proxy-status"]
        done("CONNECT: refused")

        _, flow = await client.tcp(tcp, token="no" * 10)
        assert flow.head[b":status"] == b"407", flow.head
        done("CONNECT: a wrong token")

        stream, flow = await client.udp(udp)
        assert flow.head[b":status"] == b"200", flow.head
        assert flow.head[b"capsule-protocol"] == b"?1", flow.head
        client.send_datagram(stream, b"ping")
        await flow.until(lambda: flow.datagrams)
        assert flow.datagrams == [b"\0ping"]
        done("CONNECT-UDP: a datagram")

        large = bytes(9000)
        client.send(stream, capsule(large))
        await flow.until(lambda: take_capsule(flow.content) is not None)
        assert take_capsule(flow.content) == large
        done("CONNECT-UDP: a capsule")

        _, flow = await client.udp(53, "10.0.0.1")
        assert flow.head[b":status"] == b"502", flow.head
        assert b"error=destination_ip_prohibited" in flow.head[b"proxy-status"]
        done("CONNECT-UDP: a denied address")


class Proxy(Peer):
    """A proxy that trusts all who have the token."""

    def opened(self, stream):
        asyncio.ensure_future(self.serve(stream))

    async def serve(self, stream):
        flow = self.flow(stream)
        head = flow.head
        assert head[b"proxy-authorization"] == f"Bearer {TOKEN}".encode()
        if b":protocol" in head:
            assert head[b":protocol"] == b"connect-udp"
            *_, host, port, _ = head[b":path"].decode().split("/")
            return await self.relay_udp(stream, flow, urllib.parse.unquote(host), int(port))
        assert b":scheme" not in head and b":path" not in head, head
        host, _, port = head[b":authority"].decode().rpartition(":")
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
        except ConnectionRefusedError:
            status = b"aioquic; error=connection_refused"
            fields = [(b":status", b"502"), (b"proxy-status", status)]
            self.http.send_headers(stream, fields, end_stream=True)
            return self.transmit()
        self.http.send_headers(stream, [(b":status", b"200")])
        self.transmit()
        up = asyncio.ensure_future(self.relay_up(flow, writer))
        try:
            while data := await reader.read(65536):
                self.send(stream, data)
            self.send(stream, b"", end=True)
            await up
        except ConnectionResetError:
            self._quic.reset_stream(stream, CONNECT_ERROR)
            self.transmit()

    async def relay_up(self, flow, writer):
        while True:
            data, flow.content = flow.content, b""
            writer.write(data)
            if flow.ended and not flow.content:
                return writer.write_eof()
            await flow.until(lambda: flow.content or flow.ended)

    async def relay_udp(self, stream, flow, host, port):
        peer, back = self, asyncio.Queue()

        class Socket(asyncio.DatagramProtocol):
            def datagram_received(self, data, _):
                back.put_nowait(data)

        loop = asyncio.get_running_loop()
        out, _ = await loop.create_datagram_endpoint(Socket, remote_addr=(host, port))
        fields = [(b":status", b"200"), (b"capsule-protocol", b"?1")]
        self.http.send_headers(stream, fields)
        self.transmit()
        while not flow.ended:
            await flow.until(lambda: flow.datagrams or flow.content or flow.ended)
            if flow.datagrams:
                out.sendto(flow.datagrams.pop(0)[1:])
                peer.send_datagram(stream, await back.get())
            elif (payload := take_capsule(flow.content)) is not None:
                flow.content = b""
                out.sendto(payload)
                peer.send(stream, capsule(await back.get()))
            else:
                flow.changed.clear()
                await flow.changed.wait()


async def judge_tunnel(flows, place, tcp, udp):
    chain, secret, pin = identity(place)
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=H3_ALPN, max_datagram_frame_size=65536
    )
    configuration.load_cert_chain(chain, secret)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Proxy)
    port = server._transport.get_extra_info("sockname")[1]
    uri = f"pathmark://{TOKEN}@127.0.0.1:{port}?pin={pin}"
    process = await asyncio.create_subprocess_exec(
        flows, f"127.0.0.1:{tcp}", f"127.0.0.1:{udp}", stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(uri.encode()), 30)
    assert process.returncode == 0, output
    for case in output.decode().splitlines():
        done(f"the tunnel at aioquic: {case}")
    server.close()


async def main(pathmark, flows):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        tokens = place / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(f"judge {TOKEN}\n")
        async with targets() as (tcp, udp):
            command = [pathmark, "proxy", "--listen", "127.0.0.1:0", "--token-file", tokens]
            command += ["--allow", "127.0.0.1", "--json"]
            proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                listening = json.loads(proxy.stdout.readline())["listening"]
                await judge_proxy(int(listening.rpartition(":")[2]), tcp, udp)
            finally:
                proxy.terminate()
                assert proxy.wait() == 0
            await judge_tunnel(flows, place, tcp, udp)


asyncio.run(main(sys.argv[1], sys.argv[2]))
