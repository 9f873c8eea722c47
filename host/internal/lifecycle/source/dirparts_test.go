package source_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// filesOf returns what a projected volume of all these ConfigMaps holds.
func filesOf(t *testing.T, seed byte, o source.SplitOptions) (all, parts, index map[string][]byte) {
	t.Helper()
	all, parts, index = map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	cms := split(t, noise(seed, 1<<20), o)
	for i, cm := range cms {
		files := parts
		if i == len(cms)-1 {
			files = index
		}
		maps.Copy(files, cm.BinaryData)
		for name, text := range cm.Data {
			files[name] = []byte(text)
		}
		maps.Copy(all, files)
	}
	return all, parts, index
}

func TestPartsInAMountedDirectory(t *testing.T) {
	dir := t.TempDir()
	o := source.SplitOptions{PartNames: []string{"a", "b"}, Config: []byte("conf"), Signature: []byte("MEU=")}
	first, oldParts, _ := filesOf(t, 1, o)
	second, parts, index := filesOf(t, 2, o)
	mount(t, dir, 0, first)
	offers := run(t, source.NewDir(dir, source.Limits{}, polled))
	wantSignature(t, wantBundle(t, offers, string(noise(1, 1<<20)), "conf"), "MEU=")

	// The kubelet refreshes each ConfigMap of a projected volume when it
	// learns of it.
	half := maps.Clone(index)
	maps.Copy(half, oldParts)
	mount(t, dir, 1, half)
	wantError(t, offers, source.ReasonModuleIncomplete, "directory "+dir+": part 1 of 2 (ConfigMap a, key a.part) is not the one that the index is about")
	mount(t, dir, 2, second)
	wantBundle(t, offers, string(noise(2, 1<<20)), "conf")

	half = maps.Clone(first)
	maps.Copy(half, parts)
	mount(t, dir, 3, half)
	wantError(t, offers, source.ReasonModuleIncomplete, "part 1 of 2")
	mount(t, dir, 4, map[string][]byte{"p.wasm": []byte("small")})
	wantBundle(t, offers, "small", "")
}

func TestPartsInADirectory(t *testing.T) {
	dir := t.TempDir()
	put := func(files map[string][]byte) {
		for name, data := range files {
			replace(t, filepath.Join(dir, name), data)
		}
	}
	_, parts, index := filesOf(t, 1, source.SplitOptions{})
	put(index)
	offers := run(t, source.NewDir(dir, source.Limits{}, watched))
	wantError(t, offers, source.ReasonModuleIncomplete, "part 1 of 2")
	put(parts)
	becomes(t, offers, string(noise(1, 1<<20)), "")

	// Parts of the next module, and those of the last, do not count.
	_, next, nextIndex := filesOf(t, 2, source.SplitOptions{})
	put(next)
	put(nextIndex)
	wantBundle(t, offers, string(noise(2, 1<<20)), "")
	for name := range parts {
		must(t, os.Remove(filepath.Join(dir, name)))
	}

	// Without an index they are what does not belong there.
	must(t, os.Remove(filepath.Join(dir, "provider.wasm.zst.parts")))
	fails(t, offers, source.ReasonUnknownKey)
}

// An index may be written by hand, with files named like ConfigMaps.
func TestPartsWithoutKeysInADirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "part-0"), []byte("mod"))
	write(t, filepath.Join(dir, "part-1"), []byte("ule"))
	write(t, filepath.Join(dir, "p.wasm.parts"), indexOf(t, []byte("mod"), []byte("ule")))
	offers := run(t, source.NewDir(dir, source.Limits{MaxModule: 6}, polled))
	wantBundle(t, offers, "module", "")
	replace(t, filepath.Join(dir, "part-2"), []byte("x"))
	wantError(t, offers, source.ReasonUnknownKey, "part-2")
	must(t, os.Remove(filepath.Join(dir, "part-2")))
	wantBundle(t, offers, "module", "")
	must(t, os.Remove(filepath.Join(dir, "part-1")))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "part-1")))
	fails(t, offers, source.ReasonDirectoryUnreadable, "is not a regular file")
}

func TestSplitModuleIsSeenAsAWholeWhileItIsSwitched(t *testing.T) {
	dir := t.TempDir()
	files := func(i int) map[string][]byte {
		a, b := []byte(fmt.Sprint("module ", i)), []byte(fmt.Sprint(" and ", i))
		return map[string][]byte{"part-0": a, "part-1": b, "p.wasm.parts": indexOf(t, a, b), "config.yaml": []byte(fmt.Sprint(i))}
	}
	mount(t, dir, 0, files(0))
	offers := run(t, source.NewDir(dir, source.Limits{}, polled))
	const last = 200
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i <= last; i++ {
			mount(t, dir, i, files(i))
		}
	}()
	for seen := -1; seen < last; {
		o := next(t, offers)
		must(t, o.err)
		var config int
		_, err := fmt.Sscan(string(o.bundle.Config), &config)
		must(t, err)
		if want := fmt.Sprintf("module %d and %[1]d", config); string(o.bundle.Module) != want || config <= seen {
			t.Fatalf("module %q with configuration %d after %d", o.bundle.Module, config, seen)
		}
		seen = config
	}
	<-done
}
