package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

const (
	token        = "0123456789abcdef"
	connectError = quic.StreamErrorCode(http3.ErrCodeConnectError)
	// closedPort has no listener.
	closedPort = 1
)

// targets are the ports of a TCP and a UDP target that echo. The TCP target resets after a line
// `reset`.
func targets() (int, int) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(err)
	go func() {
		for {
			connection, err := listener.AcceptTCP()
			must(err)
			go echo(connection)
		}
	}()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(err)
	go func() {
		buffer := make([]byte, 65536)
		for {
			length, from, err := socket.ReadFromUDP(buffer)
			must(err)
			socket.WriteToUDP(buffer[:length], from)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, socket.LocalAddr().(*net.UDPAddr).Port
}

func echo(connection *net.TCPConn) {
	defer connection.Close()
	buffer := make([]byte, 65536)
	for {
		length, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if string(buffer[:length]) == "reset\n" {
			connection.SetLinger(0)
			return
		}
		if _, err := connection.Write(buffer[:length]); err != nil {
			return
		}
	}
}

// stream is that of a flow, of either side.
type stream interface {
	io.ReadWriteCloser
	CancelRead(quic.StreamErrorCode)
	CancelWrite(quic.StreamErrorCode)
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
}

// sendPayload sends a UDP payload in a datagram, or in a capsule if none is large enough.
func sendPayload(to stream, payload []byte) error {
	value := append([]byte{0}, payload...)
	err := to.SendDatagram(value)
	var tooLarge *quic.DatagramTooLargeError
	if errors.As(err, &tooLarge) {
		return sendCapsule(to, payload)
	}
	return err
}

func sendCapsule(to stream, payload []byte) error {
	var capsule bytes.Buffer
	if err := http3.WriteCapsule(&capsule, 0, append([]byte{0}, payload...)); err != nil {
		return err
	}
	_, err := to.Write(capsule.Bytes())
	return err
}

// payloads calls `take` for the payload of each capsule, up to the end of the stream.
func payloads(from io.Reader, take func([]byte) error) error {
	parser := http3.NewCapsuleParser(quicvarint.NewReader(from))
	for {
		kind, reader, err := parser.Next()
		if err != nil {
			return err
		}
		value, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		if kind != 0 || len(value) == 0 || value[0] != 0 {
			continue
		}
		if err := take(value[1:]); err != nil {
			return err
		}
	}
}

// exchange writes all bytes and ends; what returns is read to its end.
func exchange(over io.ReadWriter, end func() error, data []byte) []byte {
	written := make(chan error, 1)
	go func() {
		_, err := over.Write(data)
		written <- errors.Join(err, end())
	}()
	back, err := io.ReadAll(over)
	must(err)
	must(<-written)
	return back
}

// judgeTunnel lets `pathmark tunnel` use a proxy on quic-go/http3.
func judgeTunnel(place string) {
	tcp, udp := targets()
	certificate, _, pin := identity()
	port, server := listen(certificate, newRelay())
	defer server.Close()
	uri := filepath.Join(place, "uri")
	text := fmt.Sprintf("pathmark://%s@127.0.0.1:%d?pin=%s\n", token, port, pin)
	must(os.WriteFile(uri, []byte(text), 0o600))
	var said struct {
		Listeners []struct{ Kind, Address, Target string }
	}
	process := serve(&said, "tunnel", "--json", "--uri-file", uri,
		"-L", fmt.Sprintf("127.0.0.1:0:127.0.0.1:%d", tcp),
		"-L", fmt.Sprintf("127.0.0.1:0:127.0.0.1:%d", closedPort),
		"-L", fmt.Sprintf("127.0.0.1:0:127.0.0.1:%d/udp", udp))
	listener := func(kind string, port int) string {
		for _, listener := range said.Listeners {
			if listener.Kind == kind && listener.Target == fmt.Sprintf("127.0.0.1:%d", port) {
				return listener.Address
			}
		}
		log.Fatal("no such listener: ", kind, port, said)
		return ""
	}
	dial := func() *net.TCPConn {
		connection, err := net.Dial("tcp4", listener("forward", tcp))
		must(err)
		must(connection.SetDeadline(time.Now().Add(patience)))
		return connection.(*net.TCPConn)
	}

	connection := dial()
	back := exchange(connection, connection.CloseWrite, large)
	check(bytes.Equal(back, large), len(back))
	done("a proxy for tunnel: CONNECT, bytes both ways and half-close")

	connection = dial()
	_, err := connection.Write([]byte("reset\n"))
	must(err)
	_, err = connection.Read(make([]byte, 1))
	check(errors.Is(err, syscall.ECONNRESET), err)
	done("a proxy for tunnel: CONNECT, a target's reset")

	// The reset may arrive before Dial looks at the connection.
	refused, err := net.Dial("tcp4", listener("forward", closedPort))
	if err == nil {
		must(refused.SetDeadline(time.Now().Add(patience)))
		_, err = refused.Read(make([]byte, 1))
	}
	check(errors.Is(err, syscall.ECONNRESET), err)
	code, _, why := run("", "tunnel", "connect", "--uri-file", uri, "127.0.0.1",
		fmt.Sprint(closedPort))
	check(code == 1 && bytes.Contains([]byte(why), []byte("refused")), code, why)
	done("a proxy for tunnel: CONNECT, a target that refuses")

	socket, err := net.Dial("udp4", listener("udp forward", udp))
	must(err)
	must(socket.SetDeadline(time.Now().Add(patience)))
	buffer := make([]byte, 65536)
	for _, length := range []int{100, 9000} {
		_, err := socket.Write(large[:length])
		must(err)
		got, err := socket.Read(buffer)
		must(err)
		check(bytes.Equal(buffer[:got], large[:length]), got)
	}
	done("a proxy for tunnel: CONNECT-UDP, a datagram and a capsule both ways")
	stop(process)
}
