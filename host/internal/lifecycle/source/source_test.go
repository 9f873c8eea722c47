package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// offered is one call of a handler.
type offered struct {
	bundle source.Bundle
	err    error
}

// run runs a source until the test ends and returns what it offers.
func run(t *testing.T, src source.Source) <-chan offered {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	offers := make(chan offered)
	var inHandler sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() {
		src.Run(ctx, func(bundle source.Bundle, err error) {
			if !inHandler.TryLock() {
				t.Error("the handler is called concurrently")
				return
			}
			defer inHandler.Unlock()
			select {
			case offers <- offered{bundle, err}:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return offers
}

func next(t *testing.T, offers <-chan offered) offered {
	t.Helper()
	select {
	case o := <-offers:
		return o
	case <-time.After(20 * time.Second):
		t.Fatal("the source offers nothing")
		return offered{}
	}
}

func wantBundle(t *testing.T, offers <-chan offered, module, config string) source.Bundle {
	t.Helper()
	o := next(t, offers)
	if o.err != nil {
		t.Fatalf("error %v, want module %.40q", o.err, module)
	}
	if string(o.bundle.Module) != module || string(o.bundle.Config) != config || o.bundle.Revision == "" || o.bundle.Origin == "" {
		t.Fatalf("module %.40q, configuration %.40q, revision %q, origin %q; want module %.40q, configuration %.40q",
			o.bundle.Module, o.bundle.Config, o.bundle.Revision, o.bundle.Origin, module, config)
	}
	return o.bundle
}

// wantSignature takes "" for none.
func wantSignature(t *testing.T, bundle source.Bundle, signature string) {
	t.Helper()
	if string(bundle.Signature) != signature || (signature == "") != (bundle.Signature == nil) {
		t.Errorf("signature %.40q, want %.40q", bundle.Signature, signature)
	}
}

func wantError(t *testing.T, offers <-chan offered, reason, text string) source.Bundle {
	t.Helper()
	o := next(t, offers)
	checkError(t, o.err, reason, text)
	if o.bundle.Module != nil || o.bundle.Config != nil || o.bundle.Signature != nil || o.bundle.Revision != "" {
		t.Errorf("an error comes with content: %.40q", o.bundle.Module)
	}
	return o.bundle
}

func checkError(t *testing.T, err error, reason, text string) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(err.Error(), text) {
		t.Fatalf("error %v (%+v), want reason %s with %q", err, e, reason, text)
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, data []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

type content struct {
	name      string
	files     map[string][]byte
	module    string
	config    string
	signature string
	reason    string // instead of a module
	text      string
}

// contents are the same for ConfigMaps and directories, with a limit of 1000
// bytes for a module, 200 for a compressed one and 100 for a configuration.
func contents(t *testing.T) []content {
	limits := [3]int{1000, 200, 100}
	m := []byte("module")
	return []content{
		{name: "plain", files: map[string][]byte{"provider.wasm": m}, module: "module"},
		{name: "gzip", files: map[string][]byte{"provider.wasm.gz": gzipped(t, m)}, module: "module"},
		{name: "zstd", files: map[string][]byte{"a.b.wasm.zst": zstded(t, m)}, module: "module"},
		{name: "with config.yaml", files: map[string][]byte{"p.wasm": m, "config.yaml": []byte("a: b")}, module: "module", config: "a: b"},
		{name: "with cloud.conf", files: map[string][]byte{"p.wasm": m, "cloud.conf": []byte("a")}, module: "module", config: "a"},
		{name: "named like a configuration", files: map[string][]byte{"config.wasm": m, "config.json": []byte("{}")}, module: "module", config: "{}"},
		{name: "exactly the limit", files: map[string][]byte{"p.wasm.zst": zstded(t, make([]byte, limits[0]))}, module: string(make([]byte, limits[0]))},
		{name: "exactly the limit, gzip", files: map[string][]byte{"p.wasm.gz": gzipped(t, make([]byte, limits[0]))}, module: string(make([]byte, limits[0]))},
		{name: "signature", files: map[string][]byte{"p.wasm": m, "p.wasm.sig": []byte("MEU=\n")}, module: "module", signature: "MEU=\n"},
		{name: "signature of a compressed module", files: map[string][]byte{"p.wasm.zst": zstded(t, m), "p.wasm.sig": []byte("MEU=")}, module: "module", signature: "MEU="},
		{name: "bundle of cosign", files: map[string][]byte{"p.wasm.gz": gzipped(t, m), "p.wasm.sigstore.json": []byte("{}"), "cloud.conf": []byte("a")}, module: "module", config: "a", signature: "{}"},
		{name: "signature of what is named like a configuration", files: map[string][]byte{"config.wasm": m, "config.wasm.sig": []byte("MEU="), "config.yaml": []byte("a")}, module: "module", config: "a", signature: "MEU="},
		{name: "largest signature", files: map[string][]byte{"p.wasm": m, "p.wasm.sig": make([]byte, 64<<10)}, module: "module", signature: string(make([]byte, 64<<10))},
		{name: "large signature", files: map[string][]byte{"p.wasm": m, "p.wasm.sig": make([]byte, 64<<10+1)}, reason: source.ReasonSignatureTooLarge, text: "p.wasm.sig is larger than 65536 bytes"},
		{name: "signature of another module", files: map[string][]byte{"p.wasm.gz": gzipped(t, m), "q.wasm.sig": m}, reason: source.ReasonSignatureOfAnotherModule, text: "q.wasm.sig is not the signature of p.wasm.gz: name it p.wasm.sig or p.wasm.sigstore.json"},
		{name: "signature of the compressed module", files: map[string][]byte{"p.wasm.gz": gzipped(t, m), "p.wasm.gz.sig": m}, reason: source.ReasonUnknownKey, text: "p.wasm.gz.sig"},
		{name: "two signatures", files: map[string][]byte{"p.wasm": m, "p.wasm.sig": m, "p.wasm.sigstore.json": m}, reason: source.ReasonSignatureKeyAmbiguous, text: "(p.wasm.sig, p.wasm.sigstore.json)"},
		{name: "signature only", files: map[string][]byte{"p.wasm.sig": m}, reason: source.ReasonModuleKeyMissing, text: "no module"},
		{name: "module and index", files: map[string][]byte{"p.wasm": m, "p.wasm.zst.parts": indexOf(t, m)}, reason: source.ReasonModuleKeyAmbiguous, text: "(p.wasm, p.wasm.zst.parts)"},
		{name: "two indexes", files: map[string][]byte{"p.wasm.parts": indexOf(t, m), "p.wasm.gz.parts": indexOf(t, m)}, reason: source.ReasonModuleKeyAmbiguous, text: "(p.wasm.gz.parts, p.wasm.parts)"},
		{name: "no index", files: map[string][]byte{"p.wasm.parts": m}, reason: source.ReasonModuleIndexInvalid, text: "p.wasm.parts is not an index of a module"},
		{name: "large index", files: map[string][]byte{"p.wasm.parts": make([]byte, 64<<10+1)}, reason: source.ReasonModuleIndexInvalid, text: "larger than 65536 bytes"},
		{name: "index without its parts", files: map[string][]byte{"p.wasm.parts": indexOf(t, m)}, reason: source.ReasonModuleIncomplete, text: "part 1 of 1 (ConfigMap part-0): it does not exist"},
		{name: "nothing", files: nil, reason: source.ReasonModuleKeyMissing, text: "exactly one key must end in .wasm"},
		{name: "configuration only", files: map[string][]byte{"config.yaml": m}, reason: source.ReasonModuleKeyMissing, text: "no module"},
		{name: "index of another compression", files: map[string][]byte{"p.wasm.xz.parts": m}, reason: source.ReasonUnknownKey, text: "p.wasm.xz.parts"},
		{name: "two modules", files: map[string][]byte{"b.wasm": m, "a.wasm.gz": gzipped(t, m)}, reason: source.ReasonModuleKeyAmbiguous, text: "(a.wasm.gz, b.wasm)"},
		{name: "two configurations", files: map[string][]byte{"a.wasm": m, "config.yaml": m, "cloud.conf": m}, reason: source.ReasonConfigKeyAmbiguous, text: "(cloud.conf, config.yaml)"},
		{name: "misspelt configuration", files: map[string][]byte{"a.wasm": m, "confg.yaml": m}, reason: source.ReasonUnknownKey, text: "confg.yaml"},
		{name: "another compression", files: map[string][]byte{"a.wasm.xz": m}, reason: source.ReasonUnknownKey, text: "a.wasm.xz"},
		{name: "empty", files: map[string][]byte{"a.wasm": {}}, reason: source.ReasonModuleEmpty, text: "a.wasm is empty"},
		{name: "empty inside", files: map[string][]byte{"a.wasm.gz": gzipped(t, nil)}, reason: source.ReasonModuleEmpty, text: "after decompression"},
		{name: "large", files: map[string][]byte{"a.wasm": make([]byte, 1001)}, reason: source.ReasonModuleTooLarge, text: "more than 1000 bytes: make it smaller, or raise limits.module"},
		{name: "large configuration", files: map[string][]byte{"a.wasm": m, "config.x": make([]byte, 101)}, reason: source.ReasonConfigTooLarge, text: "config.x is larger than 100"},
		{name: "large before decompression", files: map[string][]byte{"a.wasm.gz": make([]byte, 201)}, reason: source.ReasonModuleTooLarge, text: "larger than 200 bytes"},
		{name: "gzip bomb", files: map[string][]byte{"a.wasm.gz": gzipped(t, make([]byte, 100_000))}, reason: source.ReasonModuleTooLarge, text: "1000"},
		{name: "zstd bomb", files: map[string][]byte{"a.wasm.zst": zstded(t, make([]byte, 1<<20))}, reason: source.ReasonModuleTooLarge, text: "1000"},
		{name: "truncated gzip", files: map[string][]byte{"a.wasm.gz": gzipped(t, m)[:20]}, reason: source.ReasonModuleCompressionInvalid, text: "a.wasm.gz does not decompress"},
		{name: "truncated zstd", files: map[string][]byte{"a.wasm.zst": zstded(t, m)[:8]}, reason: source.ReasonModuleCompressionInvalid, text: "zstd"},
		{name: "not gzip", files: map[string][]byte{"a.wasm.gz": m}, reason: source.ReasonModuleCompressionInvalid, text: "gzip"},
		{name: "not zstd", files: map[string][]byte{"a.wasm.zst": m}, reason: source.ReasonModuleCompressionInvalid, text: "zstd"},
		{name: "garbage behind gzip", files: map[string][]byte{"a.wasm.gz": join(gzipped(t, m), []byte("xyz"))}, reason: source.ReasonModuleCompressionInvalid, text: "3 bytes follow"},
		{name: "zeros behind gzip", files: map[string][]byte{"a.wasm.gz": join(gzipped(t, m), make([]byte, 5))}, reason: source.ReasonModuleCompressionInvalid, text: "5 bytes follow"},
		{name: "second gzip member", files: map[string][]byte{"a.wasm.gz": join(gzipped(t, m), gzipped(t, m))}, reason: source.ReasonModuleCompressionInvalid, text: "follow"},
		{name: "garbage behind zstd", files: map[string][]byte{"a.wasm.zst": join(zstded(t, m), []byte("garbage"))}, reason: source.ReasonModuleCompressionInvalid, text: "zstd"},
		{name: "zstd window", files: map[string][]byte{"a.wasm.zst": zstdHeader}, reason: source.ReasonModuleCompressionInvalid, text: "--long"},
	}
}

// zstdHeader asks for a window of 1 GiB: magic, a descriptor without single
// segment, exponent 20 of the window, then an empty last block.
var zstdHeader = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00}

var testLimits = source.Limits{MaxModule: 1000, ModuleSetting: "limits.module", MaxCompressed: 200, MaxConfig: 100}

// indexOf returns an index of parts in ConfigMaps part-0, part-1 and so on.
func indexOf(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	type part struct {
		ConfigMap string `json:"configMap"`
		Digest    string `json:"digest"`
	}
	var list []part
	for i, data := range parts {
		list = append(list, part{fmt.Sprint("part-", i), digestOf(data)})
	}
	text, err := json.Marshal(map[string]any{"digest": digestOf(parts...), "parts": list})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// digestOf returns the digest of parts that are joined.
func digestOf(parts ...[]byte) string {
	sum := sha256.Sum256(join(parts...))
	return "sha256:" + hex.EncodeToString(sum[:])
}
