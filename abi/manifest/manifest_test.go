package manifest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

const minimal = `{"name":"static","version":"0.1.0","abi":{"min":1,"max":2},"ops":["instance_exists"]}`

const full = `{
  "name": "static", "version": "1.2.3+build.4", "abi": {"min": 2, "max": 3},
  "ops": ["instance_exists", "lb_ensure"], "capabilities": ["http_send", "store"],
  "hosts": ["https://api.example.com/v1/"], "credentials": ["api-token"],
  "configSchema": {"type": "object", "default": null},
  "limits": {"memoryBytes": 67108864, "instances": 4}
}`

func TestParse(t *testing.T) {
	got, err := manifest.Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &manifest.Manifest{
		Name: "static", Version: "1.2.3+build.4", ABI: manifest.Range{Min: 2, Max: 3},
		Ops: []string{"instance_exists", "lb_ensure"}, Capabilities: []string{"http_send", "store"},
		Hosts: []string{"https://api.example.com/v1/"}, Credentials: []string{"api-token"},
		ConfigSchema: map[string]any{"type": "object", "default": nil},
		Limits:       manifest.Limits{MemoryBytes: 64 << 20, Instances: 4},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v, want %+v", got, want)
	}
	for v, want := range map[uint32]bool{0: false, 1: false, 2: true, 3: true, 4: false} {
		if got.SupportsABI(v) != want {
			t.Errorf("SupportsABI(%d) = %v, want %v", v, !want, want)
		}
	}
}

// Everything that is wrong with the values is said at once.
func TestParseJoinsErrors(t *testing.T) {
	_, err := manifest.Parse([]byte(`{"name":"A","version":"","ops":["fly"]}`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, path := range []string{"$.name", "$.version", "$.abi.min", "$.ops[0]"} {
		if !strings.Contains(err.Error(), path+":") {
			t.Errorf("%s is missing in %q", path, err)
		}
	}
}

func TestSectionOfAppend(t *testing.T) {
	code := section(1, []byte{0})
	module := append(empty(), code...)
	first, err := manifest.Append(module, []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	second, err := manifest.Append(append(first, code...), []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(second, []byte(abi.ManifestSection)); n != 1 {
		t.Errorf("%d manifest sections after the second Append, want 1", n)
	}
	if !bytes.HasPrefix(second, append(module, code...)) {
		t.Error("Append changed the other sections")
	}
	got, found, err := manifest.Section(second)
	if err != nil || !found || string(got) != minimal {
		t.Errorf("Section = %q, %v, %v, want %q", got, found, err, minimal)
	}
	got[0] = 'x'
	if again, _, _ := manifest.Section(second); string(again) != minimal {
		t.Error("Section handed out a view of the module")
	}
}

func TestAppendRefusesBadManifest(t *testing.T) {
	if _, err := manifest.Append(empty(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "$.name") {
		t.Errorf("Append = %v, want an error about $.name", err)
	}
}

func TestSection(t *testing.T) {
	custom := func(name, content string) []byte {
		return section(0, append(append([]byte{byte(len(name))}, name...), content...))
	}
	tests := map[string]struct {
		module []byte
		want   string
		found  bool
		err    string
	}{
		"none":                {module: empty()},
		"other custom":        {module: append(empty(), custom("name", "x")...)},
		"name is a prefix":    {module: append(empty(), custom("ccm.manifest2", "x")...)},
		"empty":               {module: append(empty(), custom(abi.ManifestSection, "")...), found: true},
		"between others":      {module: join(empty(), section(1, []byte{0}), custom(abi.ManifestSection, "{}"), section(10, []byte{0})), want: "{}", found: true},
		"two":                 {module: join(empty(), custom(abi.ManifestSection, "{}"), custom(abi.ManifestSection, "{}")), err: "a second section ccm.manifest"},
		"too large":           {module: append(empty(), custom(abi.ManifestSection, strings.Repeat(" ", abi.MaxManifestBytes+1))...), err: "shorten it to at most 65536"},
		"no bytes":            {err: "not a WebAssembly module"},
		"wrong magic":         {module: []byte("\x7fELF\x01\x00\x00\x00"), err: "not a WebAssembly module"},
		"component":           {module: []byte("\x00asm\x0d\x00\x01\x00"), err: "not a WebAssembly core module"},
		"truncated magic":     {module: []byte("\x00asm\x01"), err: "not a WebAssembly module"},
		"no size":             {module: append(empty(), 1), err: "offset 8: the module is truncated"},
		"truncated section":   {module: append(empty(), 1, 5, 0), err: "section 1 says 5 bytes, 1 are left"},
		"size over 32 bits":   {module: append(empty(), 1, 0xff, 0xff, 0xff, 0xff, 0x1f), err: "malformed"},
		"size in 6 bytes":     {module: append(empty(), 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00), err: "malformed"},
		"name over section":   {module: append(empty(), 0, 2, 5, 'c'), err: "name of a custom section is truncated"},
		"custom without name": {module: append(empty(), 0, 0), err: "name of a custom section is truncated"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, found, err := manifest.Section(test.module)
			if !contains(err, test.err) {
				t.Fatalf("error %v, want one with %q", err, test.err)
			}
			if string(got) != test.want || found != test.found {
				t.Errorf("Section = %q, %v, want %q, %v", got, found, test.want, test.found)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	for _, v := range readVectors(f) {
		f.Add([]byte(v.Manifest))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		// Escapes can make the encoded form longer than the limit.
		if back, err := manifest.Parse(again); len(again) <= abi.MaxManifestBytes && (err != nil || back.Name != m.Name) {
			t.Fatalf("Parse(Marshal(Parse(%q))) = %v, %v", data, back, err)
		}
	})
}

func FuzzSection(f *testing.F) {
	module, err := manifest.Append(empty(), []byte(minimal))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(module)
	f.Fuzz(func(t *testing.T, data []byte) {
		section, found, err := manifest.Section(data)
		if len(section) > abi.MaxManifestBytes || (err != nil && found) {
			t.Fatalf("Section = %d bytes, %v, %v", len(section), found, err)
		}
		out, appendErr := manifest.Append(data, []byte(minimal))
		if err == nil && appendErr != nil {
			t.Fatalf("Section accepts the module, Append says %v", appendErr)
		}
		if appendErr != nil {
			return
		}
		if got, found, err := manifest.Section(out); err != nil || !found || string(got) != minimal {
			t.Fatalf("Section after Append = %q, %v, %v", got, found, err)
		}
	})
}

func ExampleAppend() {
	module := []byte("\x00asm\x01\x00\x00\x00")
	module, err := manifest.Append(module, []byte(`{"name": "static", "version": "0.1.0", "abi": {"min": 1, "max": 1}, "ops": []}`))
	fmt.Println(len(module), err)
	// Output: 91 <nil>
}

func empty() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

func section(id byte, content []byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func contains(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), want)
}
