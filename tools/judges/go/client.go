package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// fileServer is net/http's server of files, with what `pathmark get -r` and `put` ask for.
type fileServer struct {
	files string
	// asked counts requests, resumed those with a range.
	asked, resumed atomic.Int64
	// cut is a directory of the client while the next response breaks off.
	cut atomic.Pointer[string]
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	if r.Header.Get("Range") != "" {
		s.resumed.Add(1)
	}
	path := filepath.Join(s.files, filepath.Clean(r.URL.Path))
	stat, err := os.Stat(path)
	switch {
	case r.Method == "PUT":
		s.put(w, r, path)
	case err != nil:
		http.NotFound(w, r)
	case stat.IsDir():
		list(w, path)
	default:
		file, err := os.Open(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		defer file.Close()
		w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, stat.Size(), stat.ModTime().UnixNano()))
		if into := s.cut.Swap(nil); into != nil {
			w = &breaking{ResponseWriter: w, client: *into}
		}
		http.ServeContent(w, r, "", stat.ModTime(), file)
	}
}

func (s *fileServer) put(w http.ResponseWriter, r *http.Request, path string) {
	content, err := io.ReadAll(r.Body)
	given := r.Header.Get("Repr-Digest") + r.Trailer.Get("Repr-Digest")
	if err != nil || r.Header.Get("If-None-Match") != "*" || given != digest(content) {
		http.Error(w, "content, condition or digest", http.StatusBadRequest)
		return
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	w.Header().Set("Repr-Digest", given)
	w.WriteHeader(http.StatusCreated)
}

// list is a directory in the form that docs/files.md names, without modes and times.
func list(w http.ResponseWriter, path string) {
	type row struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
		Size int64  `json:"size"`
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	rows := []row{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		kind := "file"
		if entry.IsDir() {
			kind = "directory"
		}
		escaped := strings.ReplaceAll(entry.Name(), " ", "%20")
		rows = append(rows, row{escaped, kind, info.Size()})
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"entries": rows})
}

// breaking resets the stream once the client has stored some of what was written.
type breaking struct {
	http.ResponseWriter
	client  string
	written int
}

func (b *breaking) Write(data []byte) (int, error) {
	if b.written < 1_000_000 {
		b.written += len(data)
		return b.ResponseWriter.Write(data)
	}
	b.ResponseWriter.(http.Flusher).Flush()
	for until := time.Now().Add(patience); time.Now().Before(until); {
		parts, _ := filepath.Glob(filepath.Join(b.client, ".pathmark-*.part"))
		for _, part := range parts {
			if stat, err := os.Stat(part); err == nil && stat.Size() > 500_000 {
				panic(http.ErrAbortHandler)
			}
		}
		time.Sleep(time.Millisecond)
	}
	panic("the client stores nothing")
}

func judgeClient(place string) {
	files, into := filepath.Join(place, "files"), filepath.Join(place, "into")
	must(os.MkdirAll(filepath.Join(files, "tree", "inner"), 0o755))
	must(os.MkdirAll(into, 0o755))
	must(os.WriteFile(filepath.Join(files, "large"), large, 0o644))
	must(os.WriteFile(filepath.Join(files, "tree", "one file"), []byte("one"), 0o644))
	must(os.WriteFile(filepath.Join(files, "tree", "inner", "two"), []byte("two"), 0o644))
	certificate, text, pin := identity()
	authority := filepath.Join(place, "authority.pem")
	must(os.WriteFile(authority, text, 0o644))
	handler := &fileServer{files: files}
	port, server := listen(certificate, handler)
	defer server.Close()
	host := fmt.Sprintf("127.0.0.1:%d", port)
	get := func(arguments ...string) (int, string, string) {
		arguments = append([]string{"get", "--json", "--no-state", "-o", into}, arguments...)
		return run("", arguments...)
	}
	same := func(path string, wanted []byte) {
		content, err := os.ReadFile(filepath.Join(into, path))
		must(err)
		check(bytes.Equal(content, wanted), path)
	}

	code, _, said := get("--pin", strings.Repeat("0", 64), host+"/large")
	check(code == 1 && handler.asked.Load() == 0, code, said)
	check(strings.Contains(said, "certificate"), said)
	done("a server of get: a wrong pin is refused")

	handler.cut.Store(&into)
	code, _, said = get("--pin", pin, host+"/large")
	check(code == 1 && said != "", code, said)
	_, err := os.Stat(filepath.Join(into, "large"))
	check(os.IsNotExist(err), err)
	done("a server of get: a transfer is cut")

	code, out, said := get("--pin", pin, host+"/large")
	check(code == 0 && handler.resumed.Load() == 1, code, said)
	var figures struct {
		Files []struct {
			Resumed int64 `json:"resumed_bytes"`
		}
	}
	must(json.Unmarshal([]byte(out), &figures))
	check(len(figures.Files) == 1 && figures.Files[0].Resumed > 500_000, out)
	same("large", large)
	done("a server of get: resume by range")

	must(os.Remove(filepath.Join(into, "large")))
	code, _, said = get("--ca", authority, fmt.Sprintf("https://localhost:%d/large", port))
	check(code == 0, code, said)
	same("large", large)
	done("a server of get: correct bytes, by an authority")

	code, _, said = get("--pin", pin, host+"/nothing")
	check(code == 1 && strings.Contains(said, "404"), code, said)
	done("a server of get: a name that is not there")

	code, _, said = get("--pin", pin, "-r", host+"/tree")
	check(code == 0, code, said)
	same("tree/one file", []byte("one"))
	same("tree/inner/two", []byte("two"))
	done("a server of get: a directory by its listing")

	source := filepath.Join(into, "large")
	code, _, said = run("", "put", "--no-state", "--pin", pin, source, host+"/stored")
	check(code == 0, code, said)
	stored, err := os.ReadFile(filepath.Join(files, "stored"))
	must(err)
	check(bytes.Equal(stored, large), "the stored bytes")
	done("a server of put: correct bytes")

	// Nothing but what net/http offers: no tag, a page for a directory.
	port, plain := listen(certificate, http.FileServer(http.Dir(files)))
	defer plain.Close()
	host = fmt.Sprintf("127.0.0.1:%d", port)
	must(os.Remove(source))
	code, _, said = get("--pin", pin, host+"/large")
	check(code == 0, code, said)
	same("large", large)
	code, _, said = run("", "ls", "--no-state", "--pin", pin, host+"/tree/")
	check(code == 1 && strings.Contains(said, "JSON"), code, said)
	done("a server of get: net/http's FileServer, whose page is no listing")
}
