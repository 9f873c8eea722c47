package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
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
	for _, want := range []string{"name:       static\n", "digest:     sha256:", "KiB compressed by zstd", "store", "none beside it; ccmctl sign makes one", "suggests at most 64 MiB", "\n  - store\n", "  store: static\n", "name: cloud-provider-static\n", "not seen:   the engine wasmtime", "ConfigMap of its store", "PersistentVolumes"} {
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
	if _, err := runCommand(t, "inspect", file); err == nil || !strings.Contains(err.Error(), file+": the manager would refuse it: verify: the module is damaged") {
		t.Errorf("half a module, in other words than the manager's: %v", err)
	}
}

// The manager can read the printed configuration.
func TestInspectedGrants(t *testing.T) {
	i := inspection{manifest: &manifest.Manifest{
		Name: "mycloud", Capabilities: []string{abi.CapabilityHTTP, abi.CapabilityNodes},
		Hosts: []string{"https://api.example.com/v1/", "http://192.0.2.1:8080/", "https://[2001:db8::1]"}, Credentials: []string{"api-token"},
	}}
	p, _ := inspectedProvider(t, i)
	if g := p.Grants; len(g) != 3 || g[0].Host != "api.example.com" || g[0].PathPrefix != "/v1/" || g[1].Port != 8080 || g[2].Host != "2001:db8::1" {
		t.Errorf("%+v", g)
	}
	if !slices.Equal(p.Capabilities, i.manifest.Capabilities) || len(p.Credentials) != 1 || p.Credentials[0].Bearer == nil {
		t.Errorf("%+v", p)
	}
	if _, said := inspectedProvider(t, inspection{manifest: &manifest.Manifest{Name: "x", Capabilities: []string{abi.CapabilityHTTP}}}); !strings.Contains(said, "names no hosts") {
		t.Error(said)
	}
	if p, said := inspectedProvider(t, inspection{manifest: &manifest.Manifest{Name: "x"}}); len(p.Capabilities) > 0 {
		t.Errorf("it asks for nothing, and gets %q\n%s", p.Capabilities, said)
	}
	signer := inspection{manifest: &manifest.Manifest{Name: "x", Ops: []string{"sign"}}}
	if text, err := signer.suggestion(); err != nil || !strings.Contains(text, "A signer") {
		t.Errorf("%s, %v", text, err)
	}
}

// A module's author cannot gain a grant by the text of the manifest: every host
// is only a value.
func TestInspectedHostsAreNoFields(t *testing.T) {
	for _, host := range []string{
		"https://api.example.com/v1, cidrs: [0.0.0.0/0]",
		"https://api.example.com/v1, cidrs: [0.0.0.0/0]}\n    - {host: 169.254.169.254, pathPrefix: /",
		"https://api.example.com/v1}]\n    addresses: {allow: [0.0.0.0/0]}",
		"https://api.example.com/# ", "https://api.example.com/'\"", "https://api.example.com/: &a *a !!binary",
		"https://api.example.com/%0a    cidrs: [0.0.0.0/0]", "https://api.example.com/\u2028cidrs: [0.0.0.0/0]",
		"https://api.example.com:443, cidrs: [0.0.0.0/0]/", "https://a, cidrs: [0.0.0.0/0]/v1", "https://api.example.com:99999/",
	} {
		m := &manifest.Manifest{Name: "mycloud", Capabilities: []string{abi.CapabilityHTTP}, Hosts: []string{host}}
		said, err := inspection{manifest: m}.suggestion()
		if err != nil {
			t.Fatal(err)
		}
		var read suggested
		if err := yaml.UnmarshalStrict([]byte(printedConfiguration(said)), &read); err != nil || len(read.Providers) != 1 {
			t.Errorf("%q: %v\n%s", host, err, said)
			continue
		}
		p := read.Providers[0]
		if len(p.Grants) > 1 || !slices.Equal(p.Capabilities, m.Capabilities) {
			t.Errorf("%q becomes %+v", host, p)
		}
		for _, g := range p.Grants {
			want := v1alpha1.Grant{Host: g.Host, PathPrefix: g.PathPrefix, Port: g.Port}
			if !reflect.DeepEqual(g, want) || !strings.Contains(host, g.Host) {
				t.Errorf("%q becomes %+v", host, g)
			}
		}
	}
}

// A large module fits into no ConfigMap, and needs more than the default limits to compile.
func TestInspectedGrantsOfALargeModule(t *testing.T) {
	i := inspection{manifest: &manifest.Manifest{Name: "mycloud", Capabilities: []string{abi.CapabilityKube}}, size: 62 << 20, compressed: 9 << 20}
	p, _ := inspectedProvider(t, i)
	if p.Source.OCI == nil || p.Source.OCI.Reference != "registry.example.com/providers/mycloud:v1" {
		t.Errorf("source %+v", p.Source)
	}
	if p.Limits.Module.Value() < int64(i.size) || p.Limits.Compile.Memory.Value() < 3<<30 || !p.Kube.Nodes {
		t.Errorf("limits %+v, kube %+v", p.Limits, p.Kube)
	}
}

// inspectedProvider is the printed provider as the manager reads it.
func inspectedProvider(t *testing.T, i inspection) (*v1alpha1.Provider, string) {
	t.Helper()
	said, err := i.suggestion()
	if err != nil {
		t.Fatal(err)
	}
	c, err := validation.Decode([]byte(printedConfiguration(said)))
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return &c.Providers[0], said
}

// printedConfiguration is the part for copying.
func printedConfiguration(said string) string {
	_, config, _ := strings.Cut(said, "HostConfiguration for it:\n\n")
	config, _, _ = strings.Cut(config, "\n\n")
	return config
}

// The output is a valid plan for check, and begins with its provider.
func TestWhatInspectPrintsIsAPlan(t *testing.T) {
	said, err := inspection{manifest: &manifest.Manifest{
		Name: "mycloud", Capabilities: []string{abi.CapabilityHTTP, abi.CapabilityStore}, Hosts: []string{"https://api.example.com/v1/"}, Credentials: []string{"api-token"},
	}}.suggestion()
	if err != nil {
		t.Fatal(err)
	}
	config := printedConfiguration(said)
	if !strings.HasPrefix(config, "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n- name: mycloud\n  source:\n") {
		t.Errorf("it begins as\n%s", config)
	}
	if checked := checkPlan(t, config); !strings.Contains(checked, "HostConfiguration is valid") {
		t.Errorf("check says\n%s", checked)
	}
}

// A mistake in a plan is reported with the name of its file, as the place to correct.
func TestCheckNamesThePlan(t *testing.T) {
	checked := checkPlan(t, "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders: [{name: x, speed: 7}]\n")
	for _, want := range []string{"/plan.yaml: ", "correct it there"} {
		if !strings.Contains(checked, want) {
			t.Errorf("no %q in\n%s", want, checked)
		}
	}
	if strings.Contains(checked, "the plan") || strings.Contains(checked, "in the values") {
		t.Error(checked)
	}
}

// checkPlan is the output of check -f for a user without read rights.
func checkPlan(t *testing.T, plan string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}`))
	}))
	defer server.Close()
	b := bench{dir: t.TempDir()}
	said, err := runCommand(t, "check", "--kubeconfig", b.kubeconfig(t, server.URL), "--all", "-f", b.write(t, "plan.yaml", []byte(plan)))
	return fmt.Sprintln(said, err)
}

// guest is a provider with only this code as its initialisation.
func guest(t *testing.T, code []byte) []byte {
	t.Helper()
	section := func(id byte, content ...byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
	}
	body := func(code ...byte) []byte {
		code = append(append([]byte{0}, code...), 0x0b)
		return append(binary.AppendUvarint(nil, uint64(len(code))), code...)
	}
	export := func(name string, kind, index byte) []byte {
		return append(append([]byte{byte(len(name))}, name...), kind, index)
	}
	wasm := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 2, 0x60, 0, 0, 0x60, 2, 0x7f, 0x7f, 1, 0x7f),
		section(3, 2, 0, 1), section(5, 1, 0, 1),
		section(7, slices.Concat([]byte{4}, export(abi.ExportMemory, 2, 0), export(abi.ExportInitialize, 0, 0), export(abi.ExportMarker, 0, 0), export(abi.ExportCall, 0, 1))...),
		section(10, slices.Concat([]byte{2}, body(code...), body(0x41, 0))...))
	wasm, err := manifest.Append(wasm, []byte(`{"name":"mycloud","version":"1.0.0","abi":{"min":1,"max":1},"ops":["instance_exists"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// Inspect approves no module that the manager refuses, whatever its code is.
func TestInspectVerifiesAsTheManager(t *testing.T) {
	constant := append([]byte{0xfd, 0x0c}, make([]byte, 16)...)
	padded := append([]byte{0xfd, 0x8c, 0x80, 0x00}, make([]byte, 16)...)
	blocks := func(n int) []byte {
		return slices.Concat(bytes.Repeat([]byte{0x02, 0x40}, n), bytes.Repeat([]byte{0x0b}, n))
	}
	small := v1alpha1.Limits{Compile: v1alpha1.CompileLimits{Output: resource.MustParse("4Ki")}}
	for name, test := range map[string]struct {
		code   []byte
		limits v1alpha1.Limits
		want   string
	}{
		"nothing":                 {code: nil},
		"a vector":                {code: append(constant, 0x1a)},
		"a padded vector opcode":  {code: append(padded, 0x1a), want: "opcode"},
		"nested blocks":           {code: blocks(1000)},
		"blocks nested too deep":  {code: blocks(8193), want: "nest deeper"},
		"an operand of a type":    {code: []byte{0x42, 0, 0x41, 0, 0x6a, 0x1a}, want: "i32"},
		"machine code over limit": {code: bytes.Repeat([]byte{0x41, 0, 0x40, 0, 0x1a}, 2000), limits: small, want: "machine code"},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := guest(t, test.code)
			i, err := inspect(wasm)
			if err == nil {
				err = i.verify(t.Context(), wasm, test.limits)
			}
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), "the manager would refuse it") || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
			if !slices.ContainsFunc(i.unseen, func(s string) bool { return strings.Contains(s, "wasmtime") }) {
				t.Errorf("it does not say what it has not looked at: %q", i.unseen)
			}
		})
	}
}
