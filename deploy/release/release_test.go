package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/attestation"
	"github.com/wasm-ccm/wasm-ccm/deploy/internal/sbom"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

func TestTheSamePartsMakeTheSameRelease(t *testing.T) {
	parts, key := fakeParts(t), newKey(t)
	first, second := packed(t, parts, key), packed(t, parts, key)
	sumsOfFirst, err := sums(first)
	if err != nil {
		t.Fatal(err)
	}
	sumsOfSecond, err := sums(second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sumsOfFirst, sumsOfSecond); diff != "" {
		t.Errorf("two releases of the same parts differ (-first +second):\n%s", diff)
	}
	var files []string
	for _, f := range sumsOfFirst {
		files = append(files, f.Name)
	}
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "ccm.yaml",
		"ccmctl-completion.bash", "ccmctl-completion.fish", "ccmctl-completion.zsh",
		"ccmctl-darwin-amd64", "ccmctl-darwin-amd64.spdx.json", "ccmctl-darwin-amd64.tar.gz", "ccmctl-darwin-arm64", "ccmctl-darwin-arm64.spdx.json", "ccmctl-darwin-arm64.tar.gz",
		"ccmctl-linux-amd64", "ccmctl-linux-amd64.spdx.json", "ccmctl-linux-amd64.tar.gz", "ccmctl-linux-arm64", "ccmctl-linux-arm64.spdx.json", "ccmctl-linux-arm64.tar.gz",
		"cloud-controller-manager-linux-amd64.spdx.json", "cloud-controller-manager-linux-arm64.spdx.json",
		"cloud-controller-manager-v1.2.3.oci.tar", "cloud-controller-manager-v1.2.3.sig.oci.tar",
		"go-modules-1.2.3.tgz",
		"openstack.wasm", "openstack.wasm.sig", "openstack.wasm.spdx.json", "provenance.intoto.json",
		"signer-cloudstack.wasm", "signer-cloudstack.wasm.sig", "signer-cloudstack.wasm.spdx.json",
		"signer-keystone.wasm", "signer-keystone.wasm.sig", "signer-keystone.wasm.spdx.json",
		"static.wasm", "static.wasm.sig", "static.wasm.spdx.json", "wasm-ccm-1.2.3.tgz",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files of the release (-want +got):\n%s", diff)
	}
}

// A user checks by programs that every system has.
func TestChecksumsAndSignatureByOtherPrograms(t *testing.T) {
	key := newKey(t)
	out := packed(t, fakeParts(t), key)
	if said, err := runIn(t, out, "sha256sum", "--strict", "-c", checksums); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, said)
	}
	listed := strings.Count(string(read(t, filepath.Join(out, checksums))), "\n")
	if entries, _ := os.ReadDir(out); listed != len(entries)-len(modules())-3 { // without signatures, and itself
		t.Errorf("%d of %d files are in %s", listed, len(entries), checksums)
	}
	verify := `base64 -d SHA256SUMS.sig >"$1/raw" && openssl dgst -sha256 -verify "$1/public.pem" -signature "$1/raw" SHA256SUMS`
	if said, err := runIn(t, out, "sh", "-c", verify, "sh", filepath.Dir(key)); err != nil || !strings.Contains(said, "Verified OK") {
		t.Errorf("openssl: %v\n%s", err, said)
	}
	if err := os.WriteFile(filepath.Join(out, "static.wasm"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := runIn(t, out, "sha256sum", "--strict", "-c", checksums); err == nil {
		t.Errorf("sha256sum takes a changed module:\n%s", said)
	}
}

func packed(t *testing.T, parts, key string) string {
	t.Helper()
	return releaseOf(t, "v1.2.3", parts, key)
}

func releaseOf(t *testing.T, version, parts, key string) string {
	t.Helper()
	sign, err := newSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	p := packer{
		version: version, image: "localhost/wasm-ccm/cloud-controller-manager", commit: testCommit, created: time.Unix(1_700_000_000, 0),
		debian: []attestation.Package{{Name: "llvm-19-dev", Version: "1:19.1.4-1"}}, tree: fakeTree(t), parts: parts, out: t.TempDir(), sign: sign,
	}
	if _, err := p.pack(); err != nil {
		t.Fatal(err)
	}
	return p.out
}

func fakeTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for name, content := range map[string]string{
		"../../LICENSE":       "the licence",
		"Chart.yaml":          "apiVersion: v2\nname: wasm-ccm\nversion: 0.0.1\n# The tag.\nappVersion: v0.0.1\n",
		"values.yaml":         "image: {}\n",
		"templates/some.yaml": "kind: ConfigMap\n",
	} {
		path := filepath.Join(tree, "deploy/chart", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestChartHasTheVersionOfTheRelease(t *testing.T) {
	out := packed(t, fakeParts(t), "")
	said, err := runIn(t, out, "sh", "-c", "tar -xzOf wasm-ccm-1.2.3.tgz wasm-ccm/Chart.yaml && TZ=UTC tar -tvzf wasm-ccm-1.2.3.tgz")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	want := `apiVersion: v2
name: wasm-ccm
version: 1.2.3
# The tag.
appVersion: v1.2.3
-rw-r--r-- 0/0              75 2023-11-14 22:13 wasm-ccm/Chart.yaml
-rw-r--r-- 0/0              16 2023-11-14 22:13 wasm-ccm/templates/some.yaml
-rw-r--r-- 0/0              10 2023-11-14 22:13 wasm-ccm/values.yaml
`
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("the chart (-want +got):\n%s", diff)
	}
}

// fakeParts are small programs in the place of the large ones.
func fakeParts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	programs := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		buildProgram(t, arch, filepath.Join(programs, arch))
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, goModules), 0o700), os.WriteFile(filepath.Join(dir, goModules, "list"), []byte("v1.2.3\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, target := range targets() { // for macOS, one for Linux does as well here
		if err := os.Link(filepath.Join(programs, target.arch), filepath.Join(dir, target.file())); err != nil {
			t.Fatal(err)
		}
	}
	if err := complete(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, guest := range guests() {
		if err := os.WriteFile(filepath.Join(dir, guest+".wasm"), []byte(guest), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(filepath.Join(dir, guest+".modules.json"), []sbom.Module{{Path: "example.com/sdk"}, {Path: "example.com/json", Version: "v1.0.0", Sum: "h1:x"}}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func buildProgram(t *testing.T, arch, out string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./testdata/program")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// newKey makes a key of ECDSA, whose signatures usually have chance in them,
// and its public key beside it.
func newKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	make := "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem"
	if said, err := runIn(t, dir, "sh", "-c", make); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return filepath.Join(dir, "key.pem")
}

func runIn(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
