package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// fullStore has no room for a large module until room is called.
func fullStore(t *testing.T) (limits source.Limits, room func()) {
	t.Helper()
	dir := t.TempDir()
	s, err := source.NewStore(filepath.Join(dir, "modules"), quota.New(dir, 100<<20))
	must(t, err)
	other := filepath.Join(dir, "others")
	must(t, os.WriteFile(other, nil, 0o600))
	must(t, os.Truncate(other, 90<<20)) // takes no disk
	return source.Limits{MaxModule: 64 << 20, MaxCompressed: 1 << 20, Store: s}, func() { must(t, os.Remove(other)) }
}

// What does not fit is right: when there is room it is offered, though nobody has
// touched its source.
func TestAFullDiskIsTriedAgain(t *testing.T) {
	zeros := make([]byte, 20<<20)
	t.Run("a directory", func(t *testing.T) {
		limits, room := fullStore(t)
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "p.wasm"), zeros, 0o600))
		offers := run(t, source.NewDir(dir, limits, polled))
		wantError(t, offers, source.ReasonModuleNotKept, "raise --provider-compilation-cache-size")
		room()
		checkLarge(t, next(t, offers).bundle, zeros)
	})
	t.Run("a ConfigMap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			limits, room := fullStore(t)
			offers := run(t, source.NewConfigMap(fake.NewClientset(configMap("u", map[string][]byte{"p.wasm.gz": gzipped(t, zeros)})), name, limits))
			wantError(t, offers, source.ReasonModuleNotKept, "raise --provider-compilation-cache-size")
			room()
			time.Sleep(time.Minute) // of the bubble
			checkLarge(t, next(t, offers).bundle, zeros)
		})
	})
	t.Run("an image by its digest", func(t *testing.T) {
		limits, room := fullStore(t)
		_, ref, digest := registryWith(t, devregistry.Options{}, string(zeros), registry.Options{})
		ref, err := registry.ParseReference(ref.Context().String() + "@" + digest)
		must(t, err)
		w := watchImage(t, source.OCIOptions{Reference: ref, Interval: time.Minute, Limits: limits})
		w.reachable(t, "")
		var refused *source.Error
		if got := w.next(t); !errors.As(got.err, &refused) || refused.Reason != registry.ReasonNotKept {
			t.Fatalf("told %+v, want an error of the room", got)
		}
		between(t, w.asleep(t), time.Second, 2*time.Second)
		between(t, w.look(t), 2*time.Second, 4*time.Second)
		w.nothing(t)
		room()
		w.end <- time.Now()
		checkLarge(t, w.next(t).bundle, zeros)
	})
}
