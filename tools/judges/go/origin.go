package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// origin is `pathmark serve`, with a client of it.
type origin struct {
	process *exec.Cmd
	address string
	client  http.Client
}

func (o *origin) start(address, files string) {
	var said struct{ Listening, Pin string }
	o.process = serve(&said, "serve", "--json", "--allow-put", "--listen", address, "--dir", files)
	o.address = said.Listening
	transport := &http3.Transport{TLSClientConfig: pinned(said.Pin), DisableCompression: true}
	o.client = http.Client{Transport: transport, Timeout: patience}
}

// open sends a request; the caller reads the content.
func (o *origin) open(method, path string, body io.Reader, fields ...string) *http.Response {
	request, err := http.NewRequest(method, "https://"+o.address+path, body)
	must(err)
	for ; len(fields) > 0; fields = fields[2:] {
		request.Header.Set(fields[0], fields[1])
	}
	response, err := o.client.Do(request)
	must(err)
	check(response.Proto == "HTTP/3.0", response.Proto)
	return response
}

func (o *origin) ask(method, path string, body io.Reader, fields ...string) (*http.Response, []byte) {
	response := o.open(method, path, body, fields...)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(err)
	return response, content
}

// names are those of files, each as bytes, in a path, and as the page shows it.
var names = [][3]string{
	{"two words", "two%20words", "two words"},
	{"Käse & <Brot>", "K%C3%A4se%20%26%20%3CBrot%3E", "Käse &amp; &lt;Brot&gt;"},
	{"bell\a\x1b[31m", "bell%07%1B%5B31m", "bell\\u{7}\\u{1b}[31m"},
	{"not\xffUTF-8", "not%FFUTF-8", "not\\xffUTF-8"},
}

func judgeOrigin(place string) {
	files := filepath.Join(place, "files")
	must(os.MkdirAll(filepath.Join(files, "names"), 0o755))
	must(os.WriteFile(filepath.Join(files, "large"), large, 0o644))
	for _, name := range names {
		must(os.WriteFile(filepath.Join(files, "names", name[0]), []byte(name[0]), 0o644))
	}
	o := &origin{}
	o.start("127.0.0.1:0", files)

	whole, content := o.ask("GET", "/large", nil, "Want-Repr-Digest", "sha-256=1")
	check(whole.StatusCode == 200 && bytes.Equal(content, large), whole)
	given := whole.Header.Get("Repr-Digest") + whole.Trailer.Get("Repr-Digest")
	check(given == digest(large), given)
	head, content := o.ask("HEAD", "/large", nil)
	check(head.StatusCode == 200 && len(content) == 0, head)
	check(head.ContentLength == int64(len(large)), head.ContentLength)
	done("a client of serve: get")

	tag := whole.Header.Get("ETag")
	// A file that has just been written has a weak tag, with which no range can be requested. No
	// event reports that the tag has become strong.
	for tries := 0; tries < 500 && strings.HasPrefix(tag, "W/"); tries++ {
		time.Sleep(10 * time.Millisecond)
		head, _ = o.ask("HEAD", "/large", nil)
		tag = head.Header.Get("ETag")
	}
	part, content := o.ask("GET", "/large", nil, "Range", "bytes=2000000-2000999")
	check(part.StatusCode == 206 && bytes.Equal(content, large[2_000_000:2_001_000]), part)
	check(part.Header.Get("Content-Range") == "bytes 2000000-2000999/3000000", part.Header)
	beyond, _ := o.ask("GET", "/large", nil, "Range", "bytes=3000000-")
	check(beyond.StatusCode == 416, beyond)
	o.several()
	done("a client of serve: range")

	known, content := o.ask("GET", "/large", nil, "If-None-Match", tag)
	check(known.StatusCode == 304 && len(content) == 0, known)
	other, _ := o.ask("GET", "/large", nil, "If-Match", `"other"`)
	check(other.StatusCode == 412, other)
	newer, content := o.ask("GET", "/large", nil, "Range", "bytes=1-", "If-Range", `"other"`)
	check(newer.StatusCode == 200 && bytes.Equal(content, large), newer)
	done("a client of serve: conditional requests")

	o.list()
	done("a client of serve: list")

	stored, answer := o.ask("PUT", "/new%20file", bytes.NewReader(large), "If-None-Match", "*",
		"Repr-Digest", digest(large))
	check(stored.StatusCode == 201, stored, string(answer))
	content, err := os.ReadFile(filepath.Join(files, "new file"))
	must(err)
	check(bytes.Equal(content, large), "the stored bytes")
	again, _ := o.ask("PUT", "/new%20file", bytes.NewReader(large), "If-None-Match", "*")
	check(again.StatusCode == 412, again)
	// A reader of unknown length: no Content-Length.
	unknown := io.MultiReader(bytes.NewReader(large))
	stored, answer = o.ask("PUT", "/stream", unknown, "If-None-Match", "*")
	check(stored.StatusCode == 201, stored, string(answer))
	content, err = os.ReadFile(filepath.Join(files, "stream"))
	must(err)
	check(bytes.Equal(content, large), "the stored bytes")
	wrong, _ := o.ask("PUT", "/wrong", bytes.NewReader(large), "Repr-Digest", digest(nil))
	check(wrong.StatusCode >= 400, wrong)
	_, err = os.Stat(filepath.Join(files, "wrong"))
	check(os.IsNotExist(err), err)
	done("a client of serve: put")

	missing, content := o.ask("GET", "/nothing", nil)
	var problem struct{ Status int }
	must(json.Unmarshal(content, &problem))
	check(missing.StatusCode == 404 && problem.Status == 404, missing)
	done("a client of serve: problem details")

	o.resume(tag, files)
	done("a client of serve: resume by range, after a restart of the server")
	stop(o.process)
}

// several asks for several ranges at once.
func (o *origin) several() {
	response := o.open("GET", "/large", nil, "Range", "bytes=0-9,2999990-")
	defer response.Body.Close()
	kind, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	must(err)
	check(response.StatusCode == 206 && kind == "multipart/byteranges", response)
	reader := multipart.NewReader(response.Body, parameters["boundary"])
	for _, wanted := range [][]byte{large[:10], large[2_999_990:]} {
		part, err := reader.NextPart()
		must(err)
		content, err := io.ReadAll(part)
		must(err)
		check(bytes.Equal(content, wanted), part.Header)
	}
	_, err = reader.NextPart()
	check(err == io.EOF, err)
}

func (o *origin) list() {
	_, content := o.ask("GET", "/names/", nil, "Accept", "application/json")
	var listing struct{ Entries []struct{ Name string } }
	must(json.Unmarshal(content, &listing))
	check(len(listing.Entries) == len(names), string(content))
	response, page := o.ask("GET", "/names/", nil, "Accept", "text/html")
	check(strings.HasPrefix(response.Header.Get("Content-Type"), "text/html"), response.Header)
	for _, name := range names {
		found := false
		for _, entry := range listing.Entries {
			found = found || entry.Name == name[1]
		}
		check(found, name[1], string(content))
		check(strings.Contains(string(page), `href="./`+name[1]+`">`+name[2]+"<"), string(page))
		_, content := o.ask("GET", "/names/"+name[1], nil)
		check(string(content) == name[0], content)
	}
}

// resume reads a part of a file; the server is killed and started, and the rest is asked for.
func (o *origin) resume(tag, files string) {
	cut := o.open("GET", "/large", nil)
	first := make([]byte, 1_000_000)
	_, err := io.ReadFull(cut.Body, first)
	must(err)
	must(o.process.Process.Kill())
	check(o.process.Wait() != nil, "the server was killed")
	o.start(o.address, files)
	rest, content := o.ask("GET", "/large", nil, "Range", "bytes=1000000-", "If-Range", tag)
	check(rest.StatusCode == http.StatusPartialContent, rest)
	check(bytes.Equal(append(first, content...), large), "both parts")
	cut.Body.Close()
	check(o.process.Process.Signal(syscall.Signal(0)) == nil, "the server has ended")
}
