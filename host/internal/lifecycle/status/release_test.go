package status_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// The module of a provider that is removed may go as any other; before that it stays,
// whatever comes after it.
func TestTheModuleOfARemovedProviderMayGo(t *testing.T) {
	dir := t.TempDir()
	store, err := source.NewStore(dir, nil)
	must(t, err)
	large := bundle("large", noise(1, 4*900<<10+1))
	o := object(fake.NewClientset()).With(store)
	must(t, o.Save(t.Context(), record(large, 1), []source.Bundle{large}))
	kept := filepath.Join(dir, large.ModuleDigest()+".wasm")
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(kept, long, long))
	others := func(name string) error {
		for n := range 17 {
			if _, err := store.Put(strings.NewReader(name+strconv.Itoa(n)), 100); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Stat(kept)
		return err
	}
	if err := others("before"); err != nil {
		t.Errorf("what is kept is gone: %v", err)
	}
	o.Release()
	if err := others("after"); err == nil {
		t.Error("the module of a removed provider is there")
	}
}
