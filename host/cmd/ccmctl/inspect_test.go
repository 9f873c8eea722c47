package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
)

func TestInspect(t *testing.T) {
	build := os.Getenv("CCM_BUILD")
	if build == "" {
		build = "../../../build"
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "static.wasm")
	module, err := os.ReadFile(filepath.Join(build, "static.wasm"))
	if err != nil {
		t.Fatalf("%v: make guests builds it", err)
	}
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := runCommand(t, "inspect", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name:       static\n", "digest:     sha256:", "KiB compressed by zstd", "store", "none beside it; ccmctl sign makes one", "suggests at most 64 MiB", "capabilities: [store]", "ConfigMap of its store", "PersistentVolumes"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if err := os.WriteFile(signatureOf(file), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err = runCommand(t, "inspect", file); err != nil || !strings.Contains(said, "static.wasm.sig lies beside it") {
		t.Errorf("%s, %v", said, err)
	}
	if err := os.WriteFile(file, module[:len(module)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand(t, "inspect", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("half a module: %v", err)
	}
}

// What it prints is a configuration that the manager reads.
func TestInspectedGrants(t *testing.T) {
	i := inspection{manifest: &manifest.Manifest{
		Name: "mycloud", Capabilities: []string{abi.CapabilityHTTP, abi.CapabilityNodes},
		Hosts: []string{"https://api.example.com/v1/", "http://192.0.2.1:8080/"}, Credentials: []string{"api-token"},
	}}
	c := inspectedConfiguration(t, i)
	if g := c.Providers[0].Grants; len(g) != 2 || g[0].Host != "api.example.com" || g[0].PathPrefix != "/v1/" || g[1].Port != 8080 {
		t.Errorf("%+v", g)
	}
	none := inspection{manifest: &manifest.Manifest{Name: "x", Capabilities: []string{abi.CapabilityHTTP}}}
	if text := none.grants(); !strings.Contains(text, "names no hosts") {
		t.Errorf("%s", text)
	}
	signer := inspection{manifest: &manifest.Manifest{Name: "x", Ops: []string{"sign"}}}
	if text := signer.grants(); !strings.Contains(text, "A signer") {
		t.Errorf("%s", text)
	}
}

// A large module fits into no ConfigMap, and is not compiled by the default limits.
func TestInspectedGrantsOfALargeModule(t *testing.T) {
	i := inspection{manifest: &manifest.Manifest{Name: "mycloud", Capabilities: []string{abi.CapabilityKube}}, size: 62 << 20, compressed: 9 << 20}
	p := inspectedConfiguration(t, i).Providers[0]
	if p.Source.OCI == nil || p.Source.OCI.Reference != "registry.example.com/providers/mycloud:v1" {
		t.Errorf("source %+v", p.Source)
	}
	if p.Limits.Module.Value() < int64(i.size) || p.Limits.Compile.Memory.Value() < 3<<30 || !p.Kube.Nodes {
		t.Errorf("limits %+v, kube %+v", p.Limits, p.Kube)
	}
}

func inspectedConfiguration(t *testing.T, i inspection) *v1alpha1.HostConfiguration {
	t.Helper()
	_, yaml, _ := strings.Cut(i.grants(), "\n\n")
	c, err := v1alpha1.Decode([]byte("apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\n" + strings.ReplaceAll(strings.ReplaceAll(yaml, "\n  ", "\n"), "  providers:", "providers:")))
	if err != nil {
		t.Fatalf("%v\n%s", err, yaml)
	}
	return c
}
