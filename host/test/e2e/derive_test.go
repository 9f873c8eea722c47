package e2e

import (
	"bytes"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// The scripts with bad modules prove nothing unless each is bad in one way.
func TestDerive(t *testing.T) {
	module := append([]byte("\x00asm\x01\x00\x00\x00"), customSection("filler", make([]byte, 20<<10))...)
	module, err := manifest.Append(module, []byte(`{"name":"static","version":"0.1.0","abi":{"min":1,"max":1},"ops":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		kind, argument string
		check          func(out []byte) bool
	}{
		"truncate":   {"truncate", "", func(out []byte) bool { _, _, err := manifest.Section(out); return err != nil }},
		"magic":      {"magic", "", func(out []byte) bool { return bytes.HasSuffix(out, module[4:]) && out[0] != 0 }},
		"unmanifest": {"unmanifest", "", func(out []byte) bool { _, found, err := manifest.Section(out); return !found && err == nil }},
		"rename":     {"rename", "filler=>FILLER", func(out []byte) bool { return bytes.Contains(out, []byte("FILLER")) && len(out) == len(module) }},
		"manifest": {"manifest", `"min":1,"max":1=>"min":7,"max":8`, func(out []byte) bool {
			section, found, err := manifest.Section(out)
			return found && err == nil && string(section) == `{"name":"static","version":"0.1.0","abi":{"min":7,"max":8},"ops":[]}`
		}},
		"pad": {"pad", "1000", func(out []byte) bool {
			_, found, err := manifest.Section(out)
			return found && err == nil && len(out) > len(module)+1000
		}},
		"bomb": {"bomb", "1000000", func(out []byte) bool { return len(out) < 10000 && out[0] == 0x1f }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := derive(test.kind, test.argument, module)
			if err != nil || !test.check(out) {
				t.Errorf("derive: %v, %d bytes that are not as they should be", err, len(out))
			}
		})
	}
}
