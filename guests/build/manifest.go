package build

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
)

// ReadManifest reads a manifest in the form for a module: without white space,
// and with the version unless that is empty. A manifest that the manager would
// refuse is an error.
func ReadManifest(file, version string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, abi.MaxManifestBytes+1)) // which the parser refuses
	if err != nil {
		return nil, err
	}
	if text, err = compact(text, version); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := manifest.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

func compact(text []byte, version string) ([]byte, error) {
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	if version != "" {
		m.Version = version
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// Append returns the module with the manifest, which has to name each
// capability that the module imports: the manager would refuse it, but later.
func Append(module, text []byte) ([]byte, error) {
	m, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, name := range abi.Capabilities() {
		// As an import is encoded: two names, each with its length.
		imported := fmt.Sprintf("%c%s%c%s", len(abi.ImportModule), abi.ImportModule, len(name), name)
		if bytes.Contains(module, []byte(imported)) && !slices.Contains(m.Capabilities, name) {
			return nil, fmt.Errorf("the code uses %q, which is not in the list: add it to \"capabilities\"", name)
		}
	}
	return manifest.Append(module, text)
}
