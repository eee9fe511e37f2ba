package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go/http3"
)

// relay is a proxy for TCP (CONNECT) and UDP (RFC 9298) of clients with the token.
type relay struct{ mux http.ServeMux }

func newRelay() *relay {
	r := &relay{}
	r.mux.HandleFunc("/.well-known/masque/udp/{host}/{port}/", relayUDP)
	return r
}

func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch {
	case request.Header.Get("Proxy-Authorization") != "Bearer "+token:
		w.WriteHeader(http.StatusProxyAuthRequired)
	case request.Method != http.MethodConnect:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case request.Proto == "HTTP/3.0":
		relayTCP(w, request)
	case request.Proto == "connect-udp":
		r.mux.ServeHTTP(w, request)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func refuse(w http.ResponseWriter, err error) {
	why := "destination_unavailable"
	if errors.Is(err, syscall.ECONNREFUSED) {
		why = "connection_refused"
	}
	w.Header().Set("Proxy-Status", "judge; error="+why)
	w.WriteHeader(http.StatusBadGateway)
}

// hijack accepts a flow, whose stream it returns.
func hijack(w http.ResponseWriter) (*http3.Stream, error) {
	w.WriteHeader(http.StatusOK)
	return w.(http3.HTTPStreamer).HTTPStream()
}

func relayTCP(w http.ResponseWriter, request *http.Request) {
	connection, err := net.Dial("tcp", request.Host)
	if err != nil {
		refuse(w, err)
		return
	}
	defer connection.Close()
	target := connection.(*net.TCPConn)
	client, err := hijack(w)
	if err != nil {
		return
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(target, client); err != nil {
			client.CancelRead(connectError)
			target.SetLinger(0)
			target.Close()
			return
		}
		target.CloseWrite()
	}()
	if _, err := io.Copy(client, target); err != nil {
		client.CancelWrite(connectError)
		client.CancelRead(connectError)
	} else {
		client.Close()
	}
	<-up
}

func relayUDP(w http.ResponseWriter, request *http.Request) {
	host := strings.Trim(request.PathValue("host"), "[]")
	target, err := net.Dial("udp", net.JoinHostPort(host, request.PathValue("port")))
	if err != nil {
		refuse(w, err)
		return
	}
	defer target.Close()
	w.Header().Set(http3.CapsuleProtocolHeader, "?1")
	client, err := hijack(w)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	go func() {
		for {
			datagram, err := client.ReceiveDatagram(ctx)
			if err != nil {
				return
			}
			if len(datagram) > 0 && datagram[0] == 0 {
				target.Write(datagram[1:])
			}
		}
	}()
	go func() {
		buffer := make([]byte, 65536)
		for {
			length, err := target.Read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				sendPayload(client, buffer[:length])
			}
		}
	}()
	payloads(client, func(payload []byte) error {
		target.Write(payload)
		return nil
	})
	client.Close()
}
