package source_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// A large module of an image goes from the registry into the store.
func TestALargeModuleOfAnImageIsNotHeld(t *testing.T) {
	noise := largeNoise()
	_, ref, digest := registryWith(t, devregistry.Options{}, string(noise), registry.Options{})
	s, _ := newStore(t)
	w := watchImage(t, source.OCIOptions{Reference: ref, Interval: time.Minute, Limits: source.Limits{MaxModule: 64 << 20, Store: s}})
	w.reachable(t, "")
	got := w.next(t)
	if got.err != nil || got.bundle.Image != digest || string(got.bundle.Config) != "a: b\n" {
		t.Fatalf("offered is the image %s with the configuration %q: %v", got.bundle.Image, got.bundle.Config, got.err)
	}
	checkLarge(t, got.bundle, noise)
}

// One for which there is no room is refused by an error that says what to raise,
// and the registry is not to blame.
func TestALargeModuleOfAnImageWithoutRoom(t *testing.T) {
	_, ref, _ := registryWith(t, devregistry.Options{}, string(largeNoise()), registry.Options{})
	dir := t.TempDir()
	s, err := source.NewStore(filepath.Join(dir, "modules"), quota.New(dir, 10<<20))
	must(t, err)
	w := watchImage(t, source.OCIOptions{Reference: ref, Interval: time.Minute, Limits: source.Limits{MaxModule: 64 << 20, Store: s}})
	w.reachable(t, "")
	got := w.next(t)
	var refused *source.Error
	if !errors.As(got.err, &refused) || refused.Passing || refused.Reason != registry.ReasonNotKept || !strings.Contains(got.err.Error(), "raise --provider-compilation-cache-size") {
		t.Errorf("told %+v, want an error of the room", got)
	}
}
