package source_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// watched leaves everything to fsnotify; polled leaves nothing to it.
var (
	watched = source.Watching{Poll: time.Hour, Settle: 5 * time.Millisecond}
	polled  = source.Watching{Poll: 5 * time.Millisecond, Settle: 5 * time.Millisecond}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
}

// replace writes a file as programs do that care.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	write(t, hidden, data)
	must(t, os.Rename(hidden, path))
}

// mount writes files into dir as the kubelet does: into a new directory, to
// which the symlink ..data is then switched. Old directories are removed.
func mount(t *testing.T, dir string, generation int, files map[string][]byte) {
	t.Helper()
	fresh := fmt.Sprintf("..2026_%d", generation)
	must(t, os.Mkdir(filepath.Join(dir, fresh), 0o700))
	for name, data := range files {
		write(t, filepath.Join(dir, fresh, name), data)
		link := filepath.Join(dir, name)
		if _, err := os.Lstat(link); os.IsNotExist(err) {
			must(t, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	must(t, os.Symlink(fresh, filepath.Join(dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if generation > 0 {
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", generation-1))))
	}
}

func TestDirContents(t *testing.T) {
	for _, c := range contents(t) {
		for _, kind := range []string{"plain", "mounted"} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				dir := t.TempDir()
				if kind == "mounted" {
					mount(t, dir, 0, c.files)
				} else {
					for name, data := range c.files {
						write(t, filepath.Join(dir, name), data)
					}
					write(t, filepath.Join(dir, ".hidden"), nil)
					must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
				}
				offers := run(t, source.NewDir(dir, testLimits, watched))
				if c.reason == "" {
					wantSignature(t, wantBundle(t, offers, c.module, c.config), c.signature)
				} else {
					wantError(t, offers, c.reason, c.text)
				}
			})
		}
	}
}

func TestDirLife(t *testing.T) {
	for name, watching := range map[string]source.Watching{"watched": watched, "polled": polled} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			module, config := filepath.Join(dir, "p.wasm"), filepath.Join(dir, "config.yaml")
			offers := run(t, source.NewDir(dir, source.Limits{}, watching))
			wantError(t, offers, source.ReasonModuleKeyMissing, "directory "+dir+": there is no module")
			replace(t, module, []byte("one"))
			wantBundle(t, offers, "one", "")
			replace(t, config, []byte("a"))
			wantBundle(t, offers, "one", "a")
			replace(t, module, []byte("one")) // no change
			replace(t, module, []byte("two"))
			wantBundle(t, offers, "two", "a")
			must(t, os.Remove(module))
			wantError(t, offers, source.ReasonModuleKeyMissing, "no module")
		})
	}
}

func TestDirThatComesAndGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mount")
	offers := run(t, source.NewDir(dir, source.Limits{}, polled))
	wantError(t, offers, source.ReasonDirectoryUnreadable, dir)
	must(t, os.Mkdir(dir, 0o700))
	wantError(t, offers, source.ReasonModuleKeyMissing, "no module")
	replace(t, filepath.Join(dir, "p.wasm"), []byte("one"))
	wantBundle(t, offers, "one", "")
	must(t, os.Rename(dir, dir+".away"))
	wantError(t, offers, source.ReasonDirectoryUnreadable, dir)
	must(t, os.Rename(dir+".away", dir))
	wantBundle(t, offers, "one", "")
}

func TestDirWithAFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "p.wasm")))
	offers := run(t, source.NewDir(dir, source.Limits{}, watched))
	wantError(t, offers, source.ReasonDirectoryUnreadable, "is not a regular file")
}

func TestMountedConfigMapIsSeenAsAWhole(t *testing.T) {
	dir := t.TempDir()
	files := func(i int) map[string][]byte {
		return map[string][]byte{"p.wasm": []byte(fmt.Sprint("module ", i)), "config.yaml": []byte(fmt.Sprint("config ", i))}
	}
	mount(t, dir, 0, files(0))
	offers := run(t, source.NewDir(dir, source.Limits{}, polled))
	const last = 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i <= last; i++ {
			mount(t, dir, i, files(i))
		}
	}()
	for seen := -1; seen < last; {
		o := next(t, offers)
		if o.err != nil {
			t.Fatal(o.err)
		}
		var module, config int
		if _, err := fmt.Sscanf(string(o.bundle.Module)+" "+string(o.bundle.Config), "module %d config %d", &module, &config); err != nil {
			t.Fatal(err)
		}
		if module != config || module <= seen {
			t.Fatalf("module %d with configuration %d, after %d", module, config, seen)
		}
		seen = module
	}
	<-done
}

func TestConfigFile(t *testing.T) {
	dir, etc := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "p.wasm"), []byte("one"))
	write(t, filepath.Join(dir, "config.yaml"), []byte("of the directory"))
	write(t, filepath.Join(dir, "p.wasm.sig"), []byte("MEU="))
	path := filepath.Join(etc, "cloud.conf")
	offers := run(t, source.WithConfigFile(source.NewDir(dir, source.Limits{}, watched), path, source.Limits{MaxConfig: 100}, watched))
	wantError(t, offers, source.ReasonConfigFileUnreadable, path)
	mount(t, etc, 0, map[string][]byte{"cloud.conf": []byte("of the file")})
	got := wantBundle(t, offers, "one", "of the file")
	wantSignature(t, got, "MEU=")
	if !got.ConfigPrivate {
		t.Error("the configuration of the file is not private")
	}
	mount(t, etc, 1, map[string][]byte{"cloud.conf": {}})
	wantBundle(t, offers, "one", "")
	mount(t, etc, 2, map[string][]byte{"cloud.conf": make([]byte, 101)})
	wantError(t, offers, source.ReasonConfigTooLarge, path)
	mount(t, etc, 3, map[string][]byte{"cloud.conf": []byte("again")})
	wantBundle(t, offers, "one", "again")
	replace(t, filepath.Join(dir, "config.yaml"), []byte("changed, and not used")) // no change
	replace(t, filepath.Join(dir, "p.wasm"), []byte("two"))
	wantBundle(t, offers, "two", "again")
	must(t, os.Remove(filepath.Join(dir, "p.wasm")))
	wantError(t, offers, source.ReasonModuleKeyMissing, "no module")
}

func TestConfigOfADirectoryIsNotPrivate(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.wasm"), []byte("one"))
	write(t, filepath.Join(dir, "config.yaml"), []byte("a"))
	if wantBundle(t, run(t, source.NewDir(dir, source.Limits{}, watched)), "one", "a").ConfigPrivate {
		t.Error("it is private")
	}
}

func TestNoConfigFile(t *testing.T) {
	dir := source.NewDir(t.TempDir(), source.Limits{}, watched)
	if got := source.WithConfigFile(dir, "", source.Limits{}, watched); got != source.Source(dir) {
		t.Errorf("%v, want the source itself", got)
	}
}
