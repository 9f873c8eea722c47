package source

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// FuzzDecompress looks for input that makes more of itself than the limits
// allow, that panics, or that is refused without a reason.
func FuzzDecompress(f *testing.F) {
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	w, err := zstd.NewWriter(&zst)
	if err != nil {
		f.Fatal(err)
	}
	_, err1 := z.Write([]byte("\x00asm\x01\x00\x00\x00"))
	_, err2 := w.Write([]byte("\x00asm\x01\x00\x00\x00"))
	if err := errors.Join(err1, err2, z.Close(), w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(gz.Bytes(), true)
	f.Add(zst.Bytes(), false)
	limits := Limits{MaxModule: 4096, MaxCompressed: 8192, MaxConfig: 1}
	f.Fuzz(func(t *testing.T, stored []byte, isGzip bool) {
		key := "a.wasm.zst"
		if isGzip {
			key = "a.wasm.gz"
		}
		bundle, err := decompress(key, stored, limits)
		module := bundle.Module
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Reason == "" || module != nil) {
			t.Errorf("error %v with %d bytes", err, len(module))
		}
		if err == nil && (len(module) == 0 || len(module) > 4096) {
			t.Errorf("%d bytes without an error", len(module))
		}
	})
}
