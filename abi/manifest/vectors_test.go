package manifest_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// vector is one entry of manifests.json; testdata/abi/README.md explains it.
type vector struct {
	Name     string   `json:"name"`
	Manifest string   `json:"manifest"`
	Outcome  string   `json:"outcome"`
	Errors   []string `json:"errors"`
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			m, err := manifest.Parse([]byte(v.Manifest))
			switch v.Outcome {
			case "ok":
				if err != nil || m.Name == "" {
					t.Fatalf("Parse = %+v, %v", m, err)
				}
			case "invalid":
				checkErrors(t, err, v.Errors)
			default:
				t.Fatalf("unknown outcome %q", v.Outcome)
			}
		})
	}
}

func checkErrors(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil || len(want) == 0 {
		t.Fatalf("Parse says %v, want an error with each of %q", err, want)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Parse says %q, want it to say %q", err, part)
		}
	}
}

// Two that JSON cannot hold.
func TestParseRefusesBytes(t *testing.T) {
	tests := map[string]struct{ manifest, err string }{
		"not UTF-8": {strings.Replace(minimal, "0.1.0", "\xff", 1), "not valid UTF-8"},
		"too large": {minimal + strings.Repeat(" ", abi.MaxManifestBytes), "shorten it to at most 65536"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.Parse([]byte(test.manifest))
			checkErrors(t, err, []string{test.err})
		})
	}
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("../../testdata/abi/manifests.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
