package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// proxyClient is a connection to `pathmark proxy`.
type proxyClient struct {
	address    string
	connection *http3.ClientConn
}

func dialProxy(address, pin string) *proxyClient {
	config := pinned(pin)
	config.NextProtos = []string{http3.NextProtoH3}
	ctx, cancel := step()
	defer cancel()
	connection, err := quic.DialAddr(ctx, address, config, &quic.Config{EnableDatagrams: true})
	must(err)
	transport := &http3.Transport{EnableDatagrams: true}
	client := transport.NewClientConn(connection)
	select {
	case <-client.ReceivedSettings():
	case <-ctx.Done():
		must(ctx.Err())
	}
	settings := client.Settings()
	check(settings.EnableDatagrams && settings.EnableExtendedConnect, *settings)
	return &proxyClient{address, client}
}

// open asks for a flow.
func (c *proxyClient) open(r *http.Request) (*http3.RequestStream, *http.Response) {
	ctx, cancel := step()
	defer cancel()
	flow, err := c.connection.OpenRequestStream(ctx)
	must(err)
	must(flow.SetDeadline(time.Now().Add(patience)))
	must(flow.SendRequestHeader(r))
	response, err := flow.ReadResponse()
	must(err)
	return flow, response
}

func authorization(token string) http.Header {
	return http.Header{"Proxy-Authorization": {"Bearer " + token}}
}

func (c *proxyClient) tcp(port int, token string) (*http3.RequestStream, *http.Response) {
	host := fmt.Sprintf("127.0.0.1:%d", port)
	return c.open(&http.Request{
		Method: http.MethodConnect,
		Host:   host,
		URL:    &url.URL{Scheme: "https", Host: host},
		Header: authorization(token),
	})
}

func (c *proxyClient) udp(host string, port int) (*http3.RequestStream, *http.Response) {
	path := fmt.Sprintf("/.well-known/masque/udp/%s/%d/", host, port)
	header := authorization(token)
	header.Set(http3.CapsuleProtocolHeader, "?1")
	return c.open(&http.Request{
		Method: http.MethodConnect,
		Proto:  "connect-udp",
		Host:   c.address,
		URL:    &url.URL{Scheme: "https", Host: c.address, Path: path},
		Header: header,
	})
}

func judgeProxy(place string) {
	tcp, udp := targets()
	tokens := filepath.Join(place, "tokens")
	must(os.WriteFile(tokens, []byte("judge "+token+"\n"), 0o600))
	var said struct{ Listening, Pin string }
	process := serve(&said, "proxy", "--json", "--listen", "127.0.0.1:0", "--token-file", tokens,
		"--allow", "127.0.0.1")
	client := dialProxy(said.Listening, said.Pin)

	flow, answer := client.tcp(tcp, token)
	check(answer.StatusCode == 200, answer)
	back := exchange(flow, flow.Close, large)
	check(bytes.Equal(back, large), len(back))
	done("a client of proxy: CONNECT, bytes both ways and half-close")

	flow, answer = client.tcp(tcp, token)
	check(answer.StatusCode == 200, answer)
	_, err := flow.Write([]byte("reset\n"))
	must(err)
	_, err = io.ReadAll(flow)
	var reset *http3.Error
	check(errors.As(err, &reset) && reset.ErrorCode == http3.ErrCodeConnectError, err)
	done("a client of proxy: CONNECT, a target's reset")

	_, answer = client.tcp(closedPort, token)
	status := answer.Header.Get("Proxy-Status")
	check(answer.StatusCode == 502, answer)
	check(bytes.Contains([]byte(status), []byte("error=connection_refused")), status)
	done("a client of proxy: CONNECT, a target that refuses")

	_, answer = client.tcp(tcp, "another token")
	check(answer.StatusCode == 407, answer)
	_, answer = client.tcp(tcp, "")
	check(answer.StatusCode == 407, answer)
	done("a client of proxy: a wrong token")

	flow, answer = client.udp("127.0.0.1", udp)
	check(answer.StatusCode == 200, answer)
	check(answer.Header.Get(http3.CapsuleProtocolHeader) == "?1", answer.Header)
	must(sendPayload(flow, []byte("ping")))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	datagram, err := flow.ReceiveDatagram(ctx)
	must(err)
	check(string(datagram) == "\x00ping", datagram)
	done("a client of proxy: CONNECT-UDP, a datagram both ways")

	must(sendPayload(flow, large[:9000]))
	arrived := errors.New("arrived")
	err = payloads(flow, func(payload []byte) error {
		check(bytes.Equal(payload, large[:9000]), len(payload))
		return arrived
	})
	check(err == arrived, err)
	must(flow.Close())
	done("a client of proxy: CONNECT-UDP, a capsule both ways")

	_, answer = client.udp("10.0.0.1", 53)
	status = answer.Header.Get("Proxy-Status")
	check(answer.StatusCode == 502, answer)
	check(bytes.Contains([]byte(status), []byte("error=destination_ip_prohibited")), status)
	_, answer = client.udp("127.0.0.1", 0)
	check(answer.StatusCode == 400, answer)
	done("a client of proxy: CONNECT-UDP, targets that are refused")
	must(client.connection.CloseWithError(0x100, ""))
	stop(process)
}
