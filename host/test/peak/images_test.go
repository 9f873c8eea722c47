package peak_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/test/sparse"
)

const (
	mebibyte  = 1 << 20
	layerGzip = "application/vnd.oci.image.layer.v1.tar+gzip"
	layerZstd = "application/vnd.oci.image.layer.v1.tar+zstd"
	layerTar  = "application/vnd.oci.image.layer.v1.tar"
	wasm      = "\x00asm\x01\x00\x00\x00"
)

// imageCases are what a registry, or who may push to it, can have the manager read.
func imageCases() []peakCase {
	layer := func(media string, data []byte) http.Handler { return fakeRegistry(manifestOf(media, data), data) }
	good := func(t *testing.T) http.Handler { return layer(layerGzip, gzipped(t, tarOf(t, moduleFile()))) }
	refused := func(name, reason string, most int, hostile func(t *testing.T) http.Handler) peakCase {
		return peakCase{Name: name, Most: most, Read: func(t *testing.T, is bool) {
			if !is {
				readImage(t, good(t), "")
				return
			}
			readImage(t, hostile(t), reason)
		}}
	}
	invalid := func(name string, most int, hostile func(t *testing.T) http.Handler) peakCase {
		return refused(name, registry.ReasonInvalid, most, hostile)
	}
	answers := func(name, reason string, hostile http.HandlerFunc) peakCase {
		return refused(name, reason, 16, func(*testing.T) http.Handler { return hostile })
	}
	return []peakCase{
		invalid("a layer of holes", 16, func(t *testing.T) http.Handler {
			return layer(layerGzip, gzipped(t, bytes.NewReader(sparse.Tar(sparse.PAX10, "provider.wasm.part", 24, 64*mebibyte))))
		}),
		invalid("a layer of old holes", 16, func(t *testing.T) http.Handler {
			return layer(layerGzip, gzipped(t, bytes.NewReader(sparse.Tar(sparse.Old, "provider.wasm.part", 24, 64*mebibyte))))
		}),
		invalid("a layer that unpacks to 1 GiB, gzip", 16, func(t *testing.T) http.Handler {
			return layer(layerGzip, gzipped(t, zeros("sub/zeros", 1<<30)))
		}),
		invalid("a layer that unpacks to 1 GiB, zstd", 40, func(t *testing.T) http.Handler {
			return layer(layerZstd, zstandard(t, zeros("sub/zeros", 1<<30)))
		}),
		invalid("a layer with a window of 1 GiB", 16, func(*testing.T) http.Handler {
			return layer(layerZstd, []byte("\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00"))
		}),
		invalid("a layer that says more than it has", 72, func(t *testing.T) http.Handler {
			data, err := io.ReadAll(io.LimitReader(zeros("provider.wasm", 64*mebibyte), 600))
			if err != nil {
				t.Fatal(err)
			}
			return layer(layerTar, data)
		}),
		refused("a layer of 900 files of 60 MiB together", source.ReasonUnknownKey, 80, func(t *testing.T) http.Handler {
			return layer(layerGzip, gzipped(t, tarOf(t, manyFiles(900)...)))
		}),
		refused("a layer of headers", source.ReasonUnknownKey, 80, func(t *testing.T) http.Handler {
			return layer(layerGzip, gzipped(t, paxHeaders(64)))
		}),
		invalid("a manifest of 10,000 layers", 16, func(*testing.T) http.Handler {
			return fakeRegistry([]byte(`{"schemaVersion":2,"layers":[`+strings.Repeat("{},", 10_000)+`{}]}`), nil)
		}),
		invalid("a manifest that is nested", 16, func(*testing.T) http.Handler {
			return fakeRegistry([]byte(`{"annotations":`+strings.Repeat("[", 30_000)), nil)
		}),
		answers("a manifest without an end", registry.ReasonInvalid, endless),
		answers("a token without an end", registry.ReasonInvalid, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				endless(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
		}),
		answers("an error without an end", registry.ReasonUnavailable, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			endless(w, r)
		}),
		invalid("a token without an end beside a large layer", 16, func(*testing.T) http.Handler { return tokenForLayer() }),
	}
}

// tokenForLayer is a registry that wants another token for a layer of 64 MiB.
func tokenForLayer() http.Handler {
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[{"mediaType":"application/wasm","digest":%q,"size":%d}]}`, digestOf([]byte("x")), 64*mebibyte)
	inner, asked := fakeRegistry(manifest, nil), false
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token" && asked:
			endless(w, r)
		case r.URL.Path == "/token":
			_, _ = io.WriteString(w, `{"token":"first"}`)
		case strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get("Authorization") == "":
			asked = strings.Contains(r.URL.Path, "/blobs/")
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			inner.ServeHTTP(w, r)
		}
	})
}

// readImage reads an image as the manager does, and wants that reason; "" is none.
func readImage(t *testing.T, h http.Handler, reason string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	ref, err := registry.ParseReference(server.Listener.Addr().String() + "/p:v1")
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, first(t, source.NewOCI(source.OCIOptions{Reference: ref})), reason)
}

// first is what a source tells first.
func first(t *testing.T, from source.Source) (told error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from.Run(ctx, func(_ source.Bundle, err error) {
		told = err
		cancel()
	})
	return told
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var known *source.Error
	if errors.As(err, &known) && known.Reason == reason || err == nil && reason == "" {
		return
	}
	t.Fatalf("error %v, want one of the reason %q", err, reason)
}

// fakeRegistry has one image with one layer.
func fakeRegistry(manifest, layer []byte) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v2/p/manifests/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if ref := r.PathValue("ref"); ref != "v1" && ref != digestOf(manifest) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", digestOf(manifest))
		w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(manifest)
		}
	})
	mux.HandleFunc("/v2/p/blobs/{digest}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(layer) })
	return mux
}

func manifestOf(media string, layer []byte) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`, media, digestOf(layer), len(layer))
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// endless answers for ever.
func endless(w http.ResponseWriter, r *http.Request) {
	chunk := bytes.Repeat([]byte(`{"token":"`), 6400)
	for r.Context().Err() == nil && r.Method == http.MethodGet {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// zeros is a tar with one file of zeros, which is not held.
func zeros(name string, size int64) io.Reader {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	_ = w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg}) // into memory
	return io.MultiReader(&head, io.LimitReader(zero{}, size), io.LimitReader(zero{}, 1024))
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func moduleFile() tar.Header { return tar.Header{Name: "provider.wasm", Size: int64(len(wasm))} }

// manyFiles are of 64 KiB each, and no module.
func manyFiles(n int) (files []tar.Header) {
	for i := range n {
		files = append(files, tar.Header{Name: fmt.Sprint("file-", i), Size: 64 << 10})
	}
	return files
}

// tarOf is a tar of files, each of which begins as a module does.
func tarOf(t *testing.T, files ...tar.Header) io.Reader {
	t.Helper()
	out, in := io.Pipe()
	go func() {
		w := tar.NewWriter(in)
		for _, f := range files {
			f.Typeflag, f.Mode = tar.TypeReg, 0o644
			content := make([]byte, f.Size)
			copy(content, wasm)
			if err := w.WriteHeader(&f); err != nil {
				in.CloseWithError(err)
				return
			}
			_, _ = w.Write(content) // the pipe's error is Close's
		}
		in.CloseWithError(w.Close())
	}()
	return out
}

// paxHeaders is a tar of empty files, each with nearly 1 MiB of records.
func paxHeaders(files int) io.Reader {
	record := func(i int) string { return fmt.Sprintf("17 x.%08d=v\n", i)[:16] + "\n" }
	var all strings.Builder
	for i := range 61_000 {
		all.WriteString(record(i))
	}
	head := func(kind byte, name string, size int) []byte {
		block := make([]byte, 512)
		copy(block, name)
		copy(block[100:], "0000644\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", size))
		block[156] = kind
		copy(block[257:], "ustar\x0000")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		return block
	}
	var readers []io.Reader
	for i := range files {
		text := all.String()
		readers = append(readers, bytes.NewReader(head('x', "pax", len(text))), strings.NewReader(text), io.LimitReader(zero{}, int64((512-len(text)%512)%512)), bytes.NewReader(head('0', fmt.Sprint("f", i), 0)))
	}
	return io.MultiReader(append(readers, io.LimitReader(zero{}, 1024))...)
}

func gzipped(t *testing.T, from io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = io.Copy(w, from)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t *testing.T, from io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(mebibyte))
	if err == nil {
		_, err = io.Copy(w, from)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
