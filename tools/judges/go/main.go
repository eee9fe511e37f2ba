// The judge is quic-go and quic-go/http3 as clients and servers of this project's commands.
//
//	judge PATHMARK DIRECTORY
//
// PATHMARK is the command, DIRECTORY an empty one. The judge prints a line for each case, and
// fails with the first that fails.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"math/big"
	mathrand "math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	// patience is the longest time of one step.
	patience = 20 * time.Second
	// longest is the longest time of all cases.
	longest = 100 * time.Second
)

var (
	pathmark string
	large    = content(3_000_000)
)

func content(length int) []byte {
	bytes := make([]byte, length)
	mathrand.New(mathrand.NewSource(1)).Read(bytes)
	return bytes
}

func done(case_ string) {
	fmt.Println("go:", case_)
}

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func check(holds bool, found ...any) {
	if !holds {
		log.Output(2, "this does not hold: "+fmt.Sprint(found...))
		os.Exit(1)
	}
}

func step() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// start runs a command that ends with the judge.
func start(out *os.File, arguments ...string) *exec.Cmd {
	command := exec.Command(pathmark, arguments...)
	command.Stdout, command.Stderr = out, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(command.Start())
	return command
}

// serve runs a command that serves, and returns the object that it prints first.
func serve(said any, arguments ...string) *exec.Cmd {
	read, write, err := os.Pipe()
	must(err)
	defer read.Close()
	command := start(write, arguments...)
	write.Close()
	must(read.SetReadDeadline(time.Now().Add(patience)))
	must(json.NewDecoder(read).Decode(said))
	return command
}

// stop ends a server with SIGTERM.
func stop(command *exec.Cmd) {
	must(command.Process.Signal(syscall.SIGTERM))
	must(command.Wait())
}

// run runs a command to its end: its exit code, stdout and stderr.
func run(input string, arguments ...string) (int, string, string) {
	ctx, cancel := step()
	defer cancel()
	var out, errors_ bytes.Buffer
	command := exec.CommandContext(ctx, pathmark, arguments...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errors_
	var failed *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &failed) {
		must(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errors_.String()
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// pinned is a client's configuration that believes one certificate.
func pinned(pin string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			sum := sha256.Sum256(state.PeerCertificates[0].Raw)
			if hex.EncodeToString(sum[:]) != pin {
				return errors.New("the certificate has another SHA-256")
			}
			return nil
		},
	}
}

// issue makes a certificate; without an issuer, that of an authority.
func issue(name string, issuer *tls.Certificate) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  issuer == nil,
		BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey.(*ecdsa.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(err)
	leaf, err := x509.ParseCertificate(der)
	must(err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// identity is a certificate of localhost, the PEM of its authority, and its own SHA-256.
func identity() (tls.Certificate, []byte, string) {
	authority := issue("authority", nil)
	certificate := issue("localhost", authority)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Leaf.Raw})
	sum := sha256.Sum256(certificate.Leaf.Raw)
	return *certificate, text, hex.EncodeToString(sum[:])
}

// listen serves HTTP/3 on a port of loopback, which it returns.
func listen(certificate tls.Certificate, handler http.Handler) (int, *http3.Server) {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(err)
	server := &http3.Server{
		Handler:         handler,
		TLSConfig:       &tls.Config{Certificates: []tls.Certificate{certificate}},
		QUICConfig:      &quic.Config{EnableDatagrams: true},
		EnableDatagrams: true,
	}
	go server.Serve(socket)
	return socket.LocalAddr().(*net.UDPAddr).Port, server
}

func main() {
	log.SetFlags(log.Lshortfile)
	// Commands end with the thread that started them.
	runtime.LockOSThread()
	time.AfterFunc(longest, func() { log.Fatal("the cases take too long") })
	must(os.Setenv("RUST_LOG", "warn"))
	pathmark = os.Args[1]
	directory := os.Args[2]
	for _, of := range []struct {
		name  string
		judge func(string)
	}{
		{"origin", judgeOrigin},
		{"client", judgeClient},
		{"proxy", judgeProxy},
		{"tunnel", judgeTunnel},
	} {
		place := filepath.Join(directory, of.name)
		must(os.Mkdir(place, 0o755))
		of.judge(place)
	}
}
