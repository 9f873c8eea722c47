package e2e

import (
	"debug/elf"
	"path/filepath"
	"testing"
)

// The manager with both engines is one file: it needs no loader and no library
// of the image, as the one with wazero alone. What it does is in the script
// engines.
func TestBothEnginesAreOneStaticFile(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all builds it")
	}
	file, err := elf.Open(filepath.Join(buildDir(t), "cloud-controller-manager-both"))
	if err != nil {
		t.Fatalf("%v: run make build-both", err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it asks for a loader")
		}
	}
	if needed, err := file.ImportedLibraries(); err != nil || len(needed) > 0 {
		t.Errorf("it needs the libraries %q, %v", needed, err)
	}
}
