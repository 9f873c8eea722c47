package peak_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
)

// refuses reads text of which the hostile one must be an error.
func refuses(name string, most int, harmless string, hostile func() string, read func(t *testing.T, text string) error) peakCase {
	return peakCase{Name: name, Most: most, Read: func(t *testing.T, is bool) {
		text := harmless
		if is {
			text = hostile()
		}
		if err := read(t, text); (err != nil) != is {
			t.Fatalf("hostile: %v, error: %.200v", is, err)
		}
	}}
}

// objectCases are what lies in the cluster's objects, and in files.
func objectCases() []peakCase {
	configMap := func(key string, data []byte, reason string) func(t *testing.T) {
		return func(t *testing.T) {
			_, err := source.Join(&corev1.ConfigMap{BinaryData: map[string][]byte{key: data}}, nil, source.Limits{})
			wantReason(t, err, reason)
		}
	}
	bomb := func(name, key string, most int, reason string, pack func(t *testing.T) []byte) peakCase {
		return peakCase{Name: name, Most: most, Read: func(t *testing.T, hostile bool) {
			if !hostile {
				configMap("provider.wasm.gz", gzipped(t, strings.NewReader(wasm)), "")(t)
				return
			}
			configMap(key, pack(t), reason)(t)
		}}
	}
	return []peakCase{
		// A slice that grows to the limit is copied, and the collector comes when it has time.
		bomb("a module of 200 MiB in a ConfigMap, gzip", "provider.wasm.gz", 360, source.ReasonModuleTooLarge, func(t *testing.T) []byte {
			return gzipped(t, io.LimitReader(zero{}, 200*mebibyte))
		}),
		bomb("a module of 1 GiB in a ConfigMap, zstd", "provider.wasm.zst", 360, source.ReasonModuleTooLarge, func(t *testing.T) []byte {
			return zstandard(t, io.LimitReader(zero{}, 1<<30))
		}),
		bomb("a module that says 4 GiB", "provider.wasm.gz", 80, source.ReasonModuleCompressionInvalid, func(t *testing.T) []byte {
			data := gzipped(t, strings.NewReader(wasm))
			binary.LittleEndian.PutUint32(data[len(data)-4:], 1<<32-1)
			return data
		}),
		bomb("an index that is nested", "provider.wasm.parts", 16, source.ReasonModuleIndexInvalid, func(*testing.T) []byte {
			return []byte(`{"parts":` + strings.Repeat("[", 60_000))
		}),
		bomb("an index of 20,000 parts", "provider.wasm.parts", 32, source.ReasonModuleIndexInvalid, func(*testing.T) []byte {
			return []byte(`{"parts":[` + strings.Repeat("{},", 20_000) + `{}]}`)
		}),
		{Name: "a file of 16 GiB", Most: 360, Read: readFileOfHoles},
		refuses("a signature that is nested", 16, "", func() string {
			return `{"mediaType":"application/vnd.wasm-ccm.image-signatures.v1+json","signatures":[` + strings.Repeat(`{},`, 20_000) + `{}]}`
		}, checkSignature),
		refuses("a HostConfiguration of aliases", 32, hostConfiguration, func() string {
			text := "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
			for i := range 9 {
				text += fmt.Sprintf("b%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
			}
			return text
		}, decodeConfiguration),
		refuses("a HostConfiguration that is nested", 24, hostConfiguration, func() string { return strings.Repeat("[", v1alpha1.MaxBytes-1) }, decodeConfiguration),
		refuses("a HostConfiguration of 90,000 providers", 160, hostConfiguration, func() string {
			return hostConfiguration + strings.Repeat("- {nam: x}\n", 90_000)
		}, decodeConfiguration),
		refuses("a CloudProvider of mistakes", 100, `{}`, func() string {
			return `{"grants":[` + strings.Repeat(`{"u":1},`, 100_000) + `{}]}`
		}, func(_ *testing.T, text string) error {
			var spec map[string]any
			if err := json.Unmarshal([]byte(text), &spec); err != nil {
				return err
			}
			_, err := v1alpha1.DecodeSpec("p", spec)
			return err
		}),
		refuses("a book of trials", 32, "", func() string { return strings.Repeat("[", 10*mebibyte) }, func(_ *testing.T, text string) error {
			_, err := trial.Decode(text)
			return err
		}),
		refuses("a record of 400 KiB that is nested", 32, "{}", func() string { return `{"attempts":` + strings.Repeat("[", 400<<10) }, loadRecord),
		refuses("a module of 5,000,000 types", 80, wasm, func() string {
			const types = 5_000_000
			section := append(binary.AppendUvarint(nil, types), bytes.Repeat([]byte{0x60, 0, 0}, types)...)
			return wasm + "\x01" + string(binary.AppendUvarint(nil, uint64(len(section)))) + string(section)
		}, func(_ *testing.T, text string) error {
			_, err := module.Parse([]byte(text))
			return err
		}),
	}
}

const hostConfiguration = "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n- name: p\n  source: {directory: /p}\n"

func decodeConfiguration(_ *testing.T, text string) error {
	_, err := validation.Decode([]byte(text))
	return err
}

func checkSignature(t *testing.T, text string) error {
	policy, err := provenance.New(nil, nil)
	if text != "" {
		policy, err = provenance.New(nil, []string{publicKey})
	}
	if err != nil {
		t.Fatal(err)
	}
	return policy.Check([]byte(wasm), []byte(text))
}

// publicKey is of nobody who signs anything.
const publicKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
`

// loadRecord reads the record that a ConfigMap has.
func loadRecord(t *testing.T, text string) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: status.Name("p")}, Data: map[string]string{"record": text}}
	_, err := status.New(fake.NewClientset(cm), "n", "p", clock.RealClock{}).Load(t.Context())
	return err
}

// readFileOfHoles reads a directory whose module is a file of 16 GiB.
func readFileOfHoles(t *testing.T, hostile bool) {
	dir := t.TempDir()
	path := filepath.Join(dir, "provider.wasm")
	if err := os.WriteFile(path, []byte(wasm), 0o600); err != nil {
		t.Fatal(err)
	}
	reason := ""
	if hostile {
		reason = source.ReasonModuleTooLarge
		if err := os.Truncate(path, 16<<30); err != nil {
			t.Fatal(err)
		}
	}
	wantReason(t, first(t, source.NewDir(dir, source.Limits{}, source.Watching{})), reason)
}
