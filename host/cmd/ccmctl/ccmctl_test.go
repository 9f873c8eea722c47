package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// bench is a directory with a real module.wasm.
type bench struct {
	dir    string
	module []byte
}

func newBench(t *testing.T) bench {
	t.Helper()
	// Not the variable of the user who runs the tests.
	t.Setenv(passwordVariable, "")
	if err := os.Unsetenv(passwordVariable); err != nil {
		t.Fatal(err)
	}
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../build"
	}
	module, err := os.ReadFile(filepath.Join(build, "static.wasm"))
	if err != nil {
		t.Fatalf("%v; run make guests", err)
	}
	b := bench{t.TempDir(), module}
	b.write(t, "module.wasm", module)
	return b
}

func (b bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b bench) write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(b.path(name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return b.path(name)
}

// kubeconfig is for an API server without authentication.
func (b bench) kubeconfig(t *testing.T, server string) string {
	t.Helper()
	return b.write(t, "kubeconfig", []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "`+server+`"}}], users: [{name: u, user: {}}]}`))
}

func (b bench) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ccmctl returns a command's output.
func ccmctl(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.Execute()
	return out.String(), err
}

func mustCcmctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := ccmctl(args...)
	if err != nil {
		t.Fatalf("ccmctl %v: %v", args, err)
	}
	return out
}

// wantFailure requires an error with this text.
func wantFailure(t *testing.T, says string, args ...string) {
	t.Helper()
	out, err := ccmctl(args...)
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("ccmctl %v = %q, %v; want an error with %q", args, out, err, says)
		return
	}
	var said strings.Builder
	complain(&said, err)
	if line := said.String(); strings.Count(line, "\n") != 1 || len(line) > 600 {
		t.Errorf("the error is not one short line: %q", line)
	}
}

func (b bench) openssl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl %v: %v; install openssl", args, err)
	}
	return out
}

func (b bench) generate(t *testing.T, name string) (private, public string) {
	t.Helper()
	mustCcmctl(t, "generate-key-pair", "--output-key-prefix", b.path(name))
	return b.path(name + ".key"), b.path(name + ".pub")
}

func (b bench) compressed(t *testing.T) (gz, zst string) {
	t.Helper()
	var buffer bytes.Buffer
	z := gzip.NewWriter(&buffer)
	if _, err := z.Write(b.module); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	return b.write(t, "module.wasm.gz", buffer.Bytes()), b.write(t, "module.wasm.zst", enc.EncodeAll(b.module, nil))
}

func TestDigest(t *testing.T) {
	b := newBench(t)
	m, err := readManifest(b.module)
	if err != nil {
		t.Fatal(err)
	}
	// openssl computes the digest independently.
	sum := strings.Fields(string(b.openssl(t, "dgst", "-sha256", "-r", "module.wasm")))[0]
	gz, zst := b.compressed(t)
	for _, file := range []string{b.path("module.wasm"), gz, zst} {
		out := mustCcmctl(t, "digest", file)
		for _, want := range []string{"sha256:" + sum, m.Name, m.Version, fmt.Sprintf("%d to %d", m.ABI.Min, m.ABI.Max), strings.Join(m.Ops, ", "), "capabilities:"} {
			if !strings.Contains(out, want) {
				t.Errorf("digest %s: %q is missing in\n%s", file, want, out)
			}
		}
	}
}

func TestDigestRefuses(t *testing.T) {
	b := newBench(t)
	header := b.module[:8]
	wantFailure(t, "no such file", "digest", b.path("nothing.wasm"))
	wantFailure(t, "rename the file", "digest", b.write(t, "module.so", b.module))
	wantFailure(t, "has no manifest", "digest", b.write(t, "bare.wasm", header))
	wantFailure(t, "not a WebAssembly module", "digest", b.write(t, "text.wasm", []byte("text")))
	wantFailure(t, "is empty", "digest", b.write(t, "empty.wasm", nil))
	wantFailure(t, "does not decompress", "digest", b.write(t, "plain.wasm.gz", b.module))
	wantFailure(t, "accepts 1 arg(s), received 0: ccmctl digest ", "digest")
}

func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	var said strings.Builder
	complain(&said, errors.Join(errors.New("a\x1b[2J\u009b\r"), errors.New("b")))
	if want := "error: a?[2J? ; b\n"; said.String() != want {
		t.Errorf("the error is %q, want %q", said.String(), want)
	}
}

func TestGenerateKeyPair(t *testing.T) {
	b := newBench(t)
	private, public := b.generate(t, "k")
	info, err := os.Stat(private)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of %s: %v, %v, want 0600", private, info.Mode(), err)
	}
	if got := b.openssl(t, "pkey", "-in", private, "-pubout"); !bytes.Equal(got, b.read(t, "k.pub")) {
		t.Errorf("openssl makes another public key of %s", private)
	}
	if _, err := provenance.New(nil, []string{string(b.read(t, "k.pub"))}); err != nil {
		t.Errorf("the manager does not take %s: %v", public, err)
	}
	before := b.read(t, "k.key")
	wantFailure(t, "k.key exists", "generate-key-pair", "--output-key-prefix", b.path("k"))
	if err := os.Remove(private); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, "k.pub exists", "generate-key-pair", "--output-key-prefix", b.path("k"))
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half of a pair was left behind: %v", err)
	}
	if b.write(t, "k.key", before); !bytes.Equal(b.read(t, "k.key"), before) {
		t.Error("the key was overwritten")
	}
	wantFailure(t, "choose a directory", "generate-key-pair", "--output-key-prefix", b.path("no/k"))
}

func TestSignAndVerify(t *testing.T) {
	b := newBench(t)
	private, public := b.generate(t, "k")
	module := b.path("module.wasm")
	out := mustCcmctl(t, "sign", "--key", private, module)
	if !strings.Contains(out, provenance.Digest(b.module)) {
		t.Errorf("sign does not name the digest: %q", out)
	}
	mustCcmctl(t, "verify", "--key", public, module)

	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b.read(t, "module.wasm.sig"))))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "raw", raw)
	if got := b.openssl(t, "dgst", "-sha256", "-verify", "k.pub", "-signature", "raw", "module.wasm"); !strings.Contains(string(got), "Verified OK") {
		t.Errorf("openssl: %s", got)
	}

	// One signature is valid for the plain and the compressed modules.
	gz, zst := b.compressed(t)
	mustCcmctl(t, "verify", "--key", public, gz)
	mustCcmctl(t, "verify", "--key", public, zst)
	mustCcmctl(t, "sign", "--key", private, zst)
	mustCcmctl(t, "verify", "--key", public, module)
	mustCcmctl(t, "sign", "--key", private, "-o", b.path("elsewhere"), gz)
	mustCcmctl(t, "verify", "--key", public, "--signature", b.path("elsewhere"), module)

	_, other := b.generate(t, "other")
	wantFailure(t, "not made over this module", "verify", "--key", other, module)
	tampered := bytes.Clone(b.module)
	tampered[len(tampered)/2] ^= 1
	wantFailure(t, "not made over this module", "verify", "--key", public, "--signature", b.path("module.wasm.sig"), b.write(t, "tampered.wasm", tampered))
	wantFailure(t, "tampered.wasm.sig: no such file", "verify", "--key", public, b.path("tampered.wasm"))
	wantFailure(t, "another type", "verify", "--key", private, module)
	wantFailure(t, "not a private key", "sign", "--key", public, module)
	wantFailure(t, `required flag(s) "key"`, "sign", module)
	wantFailure(t, "choose another file", "sign", "--key", private, "-o", b.path("no/sig"), module)
}

func TestVerifyTakesSignaturesOfOpenSSL(t *testing.T) {
	b := newBench(t)
	b.openssl(t, "genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "o.key")
	b.write(t, "o.pub", b.openssl(t, "pkey", "-in", "o.key", "-pubout"))
	raw := b.openssl(t, "dgst", "-sha256", "-sign", "o.key", "module.wasm")
	b.write(t, "module.wasm.sig", []byte(base64.StdEncoding.EncodeToString(raw)))
	mustCcmctl(t, "verify", "--key", b.path("o.pub"), b.path("module.wasm"))
}

func TestSignWithOtherKeys(t *testing.T) {
	b := newBench(t)
	for name, args := range map[string][]string{
		"ed25519": {"-algorithm", "ED25519"},
		"p384":    {"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"},
		"rsa":     {"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
	} {
		b.openssl(t, append([]string{"genpkey", "-quiet", "-out", name + ".key"}, args...)...)
		b.write(t, name+".pub", b.openssl(t, "pkey", "-in", name+".key", "-pubout"))
		mustCcmctl(t, "sign", "--key", b.path(name+".key"), b.path("module.wasm"))
		mustCcmctl(t, "verify", "--key", b.path(name+".pub"), b.path("module.wasm"))
	}
	b.openssl(t, "genpkey", "-quiet", "-out", "weak.key", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-224")
	wantFailure(t, "the manager would not take", "sign", "--key", b.path("weak.key"), b.path("module.wasm"))
}

func TestEncryptedKey(t *testing.T) {
	b := newBench(t)
	t.Setenv(passwordVariable, "correct horse")
	private, public := b.generate(t, "k")
	text := b.read(t, "k.key")
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" {
		t.Fatalf("the key is not encrypted as cosign does: %.40s", text)
	}
	mustCcmctl(t, "sign", "--key", private, b.path("module.wasm"))
	mustCcmctl(t, "verify", "--key", public, b.path("module.wasm"))
	// The type's name in older versions of cosign.
	older := b.write(t, "older.key", bytes.ReplaceAll(text, []byte("SIGSTORE"), []byte("COSIGN")))
	mustCcmctl(t, "sign", "--key", older, b.path("module.wasm"))

	t.Setenv(passwordVariable, "wrong")
	wantFailure(t, passwordVariable, "sign", "--key", private, b.path("module.wasm"))
	if err := os.Unsetenv(passwordVariable); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, "set "+passwordVariable, "sign", "--key", private, b.path("module.wasm"))
}

// The manager can read the output.
func TestSplit(t *testing.T) {
	b := newBench(t)
	private, public := b.generate(t, "k")
	module := b.path("module.wasm")
	mustCcmctl(t, "sign", "--key", private, module)
	config := b.write(t, "cloud.conf", []byte("a: b\n"))
	large, err := manifest.Append(append(bytes.Clone(b.module), noise(2<<20)...), must(manifest.Section(b.module)))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "large.wasm", large)
	mustCcmctl(t, "sign", "--key", private, b.path("large.wasm"))
	policy, err := provenance.New(nil, []string{string(b.read(t, filepath.Base(public)))})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"module.wasm": b.module, "large.wasm": large} {
		maps := decode(t, mustCcmctl(t, "split", "--name", "p", "--namespace", "kube-system", "--config", config, b.path(name)))
		byName := map[string]*corev1.ConfigMap{}
		for i, cm := range maps {
			byName[cm.Name] = &maps[i]
			if cm.Kind != "ConfigMap" || cm.APIVersion != "v1" || cm.Namespace != "kube-system" {
				t.Errorf("%s: %s %s in %s", cm.Name, cm.APIVersion, cm.Kind, cm.Namespace)
			}
		}
		find := func(name string) (*corev1.ConfigMap, error) { return byName[name], nil }
		bundle, err := source.Join(byName["p"], find, source.Limits{MaxCompressed: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bundle.Module, want) || string(bundle.Config) != "a: b\n" {
			t.Errorf("%s: another module (%d bytes) or configuration (%q) is read", name, len(bundle.Module), bundle.Config)
		}
		if err := policy.Check(bundle.Module, bundle.Signature); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if several := len(maps) > 1; several != (name == "large.wasm") {
			t.Errorf("%s: %d ConfigMaps", name, len(maps))
		}
	}
	wantFailure(t, "is not the name of a ConfigMap", "split", "--name", "P!", "--namespace", "n", module)
	wantFailure(t, "no such file", "split", "--name", "p", "--namespace", "n", "--config", b.path("no"), module)
	wantFailure(t, "no such file", "split", "--name", "p", "--namespace", "n", "--signature", b.path("no"), module)
}

func must(section []byte, _ bool, err error) []byte {
	if err != nil {
		panic(err)
	}
	return section
}

// noise is an incompressible custom section.
func noise(n int) []byte {
	content := make([]byte, n)
	x := uint32(1)
	for i := range content {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		content[i] = byte(x >> 11)
	}
	content[0] = 0 // an empty name
	size := []byte{byte(n&0x7f | 0x80), byte(n>>7&0x7f | 0x80), byte(n>>14&0x7f | 0x80), byte(n >> 21)}
	return append(append([]byte{0}, size...), content...)
}

func decode(t *testing.T, text string) []corev1.ConfigMap {
	t.Helper()
	d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var maps []corev1.ConfigMap
	for {
		var cm corev1.ConfigMap
		err := d.Decode(&cm)
		if errors.Is(err, io.EOF) {
			return maps
		}
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, cm)
	}
}

func TestVersion(t *testing.T) {
	if out := mustCcmctl(t, "version"); !strings.HasPrefix(out, "ccmctl v") {
		t.Errorf("version = %q", out)
	}
}

func TestUnknownCommand(t *testing.T) {
	wantFailure(t, "unknown command", "digets")
}
