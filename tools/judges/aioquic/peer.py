"""aioquic behind TCP connections on loopback, so that tests can use it like their own library.

It prints the TCP port that it listens at, and ends with its standard input. Each TCP connection
begins with one line of JSON that says what to do; the answer is one line as well, {"failed": why}
if it could not be done. What follows depends on it:

- serve, client: begin an endpoint. It lives as long as the TCP connection.
- accept, connect: wait for a connection of an endpoint whose handshake is complete.
- connect_early: begin a connection and wait for nothing; early: wait for its handshake, and tell
  whether the server took early data.
- open, take: a stream of a connection, opened here or by the peer. The TCP connection is the stream
  from then on: bytes and their end both ways. Where the stream ends early, so does it, by a reset.
- rebind, address, update_keys: see their functions.
"""

import asyncio
import itertools
import json
import resource
import socket
import struct
import sys

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite
from cryptography import x509
from cryptography.hazmat.primitives import serialization

# Bytes that are taken from a TCP connection at a time.
PIECE = 65536
# Bytes that wait to be sent or acknowledged on a stream before no more are taken.
AHEAD = 4 << 20
# Error code of streams whose TCP connection ended early.
GIVEN_UP = 1

numbers = itertools.count(1)
# Endpoints and connections by the numbers that the tests know them by.
endpoints = {}
connections = {}


class Stream:
    """What arrives on a stream: kept until someone takes the stream."""

    def __init__(self):
        self.waiting = []
        self.ended = False
        self.broken = False
        self.tcp = None
        self.over = asyncio.Event()

    def arrived(self, data, ended):
        self.ended = self.ended or ended
        if self.tcp is None:
            self.waiting.append(data)
        else:
            self.pass_on(data)

    def pass_on(self, data):
        if data:
            self.tcp.write(data)
        if self.ended:
            self.tcp.write_eof()
            self.over.set()

    def give(self, tcp):
        """From now on this TCP connection gets what arrives."""
        self.tcp = tcp
        self.pass_on(b"".join(self.waiting))
        self.waiting.clear()
        if self.broken:
            self.cut()

    def cut(self):
        """Nothing more will come, though the end did not."""
        if not self.ended:
            self.broken = True
            self.over.set()
            if self.tcp is not None:
                cut(self.tcp)


def cut(tcp):
    """Ends a TCP connection by a reset, which the peer does not take for the end of the data."""
    if tcp.is_closing():
        return
    linger = struct.pack("ii", 1, 0)
    tcp.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    tcp.transport.abort()


class Connection(QuicConnectionProtocol):
    """A connection, and what its peer opens."""

    def __init__(self, quic, stream_handler=None):
        super().__init__(quic, stream_handler)
        self.number = next(numbers)
        connections[self.number] = self
        self.streams = {}
        # Streams that the peer opened: bidirectional, unidirectional.
        self.opened = (asyncio.Queue(), asyncio.Queue())
        self.complete = asyncio.get_running_loop().create_future()
        self.early_data_accepted = False

    def quic_event_received(self, event):
        match event:
            case events.HandshakeCompleted():
                self.early_data_accepted = event.early_data_accepted
                if not self.complete.done():
                    self.complete.set_result(event.session_resumed)
            case events.StreamDataReceived():
                stream = self.stream(event.stream_id)
                stream.arrived(event.data, event.end_stream)
            case events.StreamReset():
                self.stream(event.stream_id).cut()
            case events.ConnectionTerminated():
                if not self.complete.done():
                    why = f"{event.error_code}: {event.reason_phrase}"
                    self.complete.set_exception(ConnectionError(why))
                    # Without this, asyncio logs an exception that no task awaits.
                    self.complete.exception()
                for stream in self.streams.values():
                    stream.cut()
                connections.pop(self.number, None)

    def stream(self, number):
        """The stream of this number; one that is new is the peer's."""
        if number not in self.streams:
            self.streams[number] = Stream()
            self.opened[number >> 1 & 1].put_nowait(number)
        return self.streams[number]

    def open(self, unidirectional):
        number = self._quic.get_next_available_stream_id(unidirectional)
        self.streams[number] = Stream()
        # The number is taken only once something is to be sent.
        self._quic.send_stream_data(number, b"")
        return number

    def can_send(self, number):
        ours = (number & 1 == 0) == self._quic.configuration.is_client
        return ours or number & 2 == 0

    def can_receive(self, number):
        ours = (number & 1 == 0) == self._quic.configuration.is_client
        return not ours or number & 2 == 0

    async def carry(self, number, reader, writer):
        """Joins a stream and a TCP connection until both are over."""
        if self.can_receive(number):
            self.streams[number].give(writer)
        if self.can_send(number):
            await self.send(number, reader)
        if self.can_receive(number):
            await self.streams[number].over.wait()
        del self.streams[number]

    async def send(self, number, reader):
        """Sends what a TCP connection brings."""
        try:
            while data := await reader.read(PIECE):
                self._quic.send_stream_data(number, data)
                self.transmit()
                await self.room(number)
            self._quic.send_stream_data(number, b"", end_stream=True)
        except ConnectionError:
            self._quic.reset_stream(number, GIVEN_UP)
        self.transmit()

    async def room(self, number):
        """Waits while much is buffered. There is no public figure of it, and no event."""
        while (stream := self._quic._streams.get(number)) and len(stream.sender._buffer) > AHEAD:
            await asyncio.sleep(0.005)


class Server(QuicServer):
    """A server that remembers its sessions, and its connections in order."""

    def __init__(self, **options):
        self.tickets = {}
        self.handshakes = asyncio.Queue()
        super().__init__(
            create_protocol=self.connection,
            session_ticket_fetcher=lambda label: self.tickets.pop(label, None),
            session_ticket_handler=self.remember,
            **options,
        )

    def remember(self, ticket):
        self.tickets[ticket.ticket] = ticket

    def connection(self, quic, stream_handler=None):
        connection = Connection(quic, stream_handler)
        connection.complete.add_done_callback(
            lambda done: done.exception() or self.handshakes.put_nowait(connection)
        )
        return connection


class Client:
    """A client: where it connects from, and the session that it remembers."""

    def __init__(self, host, configuration):
        self.host = host
        self.configuration = configuration
        self.connections = []

    def remember(self, ticket):
        self.configuration["session_ticket"] = ticket

    async def begin(self, to):
        """A connection whose handshake has begun."""
        configuration = QuicConfiguration(is_client=True, **self.configuration)
        quic = QuicConnection(configuration=configuration, session_ticket_handler=self.remember)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_datagram_endpoint(
            lambda: Connection(quic), local_addr=(self.host, 0)
        )
        self.connections.append(connection)
        connection.connect(address(to))
        return connection

    async def connect(self, to):
        connection = await self.begin(to)
        await connection.complete
        return connection

    async def rebind(self, to):
        """The last connection goes on at another address of this host."""
        connection = self.connections[-1]
        former = connection._transport
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: connection, local_addr=address(to))
        former.close()
        connection.change_connection_id()

    def close(self):
        for connection in self.connections:
            connection.close()
            connection._transport.close()


def address(text):
    """In the form in which addresses arrive: aioquic compares them."""
    host, _, port = text.rpartition(":")
    if host.startswith("["):
        return host.strip("[]"), int(port), 0, 0
    return host, int(port)


def common(asked):
    """What both ends are configured with."""
    return {
        "alpn_protocols": [asked["alpn"]],
        "idle_timeout": asked["idle"],
        "supported_versions": [QuicProtocolVersion.VERSION_1],
    }


async def serve(asked):
    chain = [x509.load_der_x509_certificate(bytes.fromhex(der)) for der in asked["chain"]]
    key = serialization.load_der_private_key(bytes.fromhex(asked["key"]), None)
    configuration = QuicConfiguration(
        is_client=False,
        certificate=chain[0],
        certificate_chain=chain[1:],
        private_key=key,
        **common(asked),
    )
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Server(configuration=configuration, retry=asked["retry"]),
        local_addr=(asked["host"], 0),
    )
    return server, {"port": transport.get_extra_info("sockname")[1]}


async def client(asked):
    authority = x509.load_der_x509_certificate(bytes.fromhex(asked["authority"]))
    configuration = {
        "cadata": authority.public_bytes(serialization.Encoding.PEM),
        "server_name": asked["name"],
        **common(asked),
    }
    if asked["chacha20"]:
        configuration["cipher_suites"] = [CipherSuite.CHACHA20_POLY1305_SHA256]
    return Client(asked["host"], configuration), {}


async def live(endpoint, answer, reader, writer):
    """Keeps an endpoint as long as the TCP connection."""
    number = next(numbers)
    endpoints[number] = endpoint
    reply(writer, {"endpoint": number, **answer})
    await reader.read()
    del endpoints[number]
    endpoint.close()


def reply(writer, answer):
    writer.write(json.dumps(answer).encode() + b"\n")


def connected(connection):
    resumed = connection.complete.result()
    return {"connection": connection.number, "resumed": resumed}


async def obey(asked, reader, writer):
    """Does what one TCP connection asks for."""
    match asked["do"]:
        case "serve":
            await live(*await serve(asked), reader, writer)
        case "client":
            await live(*await client(asked), reader, writer)
        case "accept":
            reply(writer, connected(await endpoints[asked["endpoint"]].handshakes.get()))
        case "connect":
            reply(writer, connected(await endpoints[asked["endpoint"]].connect(asked["to"])))
        case "connect_early":
            connection = await endpoints[asked["endpoint"]].begin(asked["to"])
            reply(writer, {"connection": connection.number})
        case "early":
            connection = connections[asked["connection"]]
            await connection.complete
            reply(writer, {"accepted": connection.early_data_accepted})
        case "rebind":
            await endpoints[asked["endpoint"]].rebind(asked["to"])
            reply(writer, {})
        case "address":
            # Where the connection's peer is now.
            peer = connections[asked["connection"]]._quic.get_peer_address()
            reply(writer, {"host": peer[0], "port": peer[1]})
        case "update_keys":
            connection = connections[asked["connection"]]
            connection._quic.request_key_update()
            connection.transmit()
            reply(writer, {})
        case "open" | "take":
            connection = connections[asked["connection"]]
            if asked["do"] == "open":
                number = connection.open(asked["unidirectional"])
            else:
                number = await connection.opened[asked["unidirectional"]].get()
            reply(writer, {})
            await connection.carry(number, reader, writer)


async def talk(reader, writer):
    try:
        await obey(json.loads(await reader.readline()), reader, writer)
    except Exception as error:
        reply(writer, {"failed": repr(error)})
    except asyncio.CancelledError:
        # The process ends.
        pass
    finally:
        writer.close()


async def main():
    # Each stream takes a TCP connection.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    print(listener.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.buffer.read)


asyncio.run(main())
