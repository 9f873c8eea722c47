package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

const (
	stagingPrefix = ".compiling-"
	recordSuffix  = ".compiled.json"
	// maxRecords bounds the modules in the cache: the serving one, and those for a rollback.
	maxRecords = 8
	// knownPrefix is the prefix of files that name a metered module by its source; at the bound
	// all are removed.
	knownPrefix = "known-"
	maxKnown    = 4 * maxRecords
)

// cache is the engine's cache directory, with a record beside the files of each module. A
// file without a record is ignored.
type cache struct{ dir string }

// record lists the files of one module by their path in the directory, with their SHA-256.
type record map[string]string

// cacheFormat is in every key: older managers stored no outline beside the machine code, and
// named it by the module.
const cacheFormat = "outline"

// cacheKey names the machine code of a metered module for an engine, a version and a
// processor.
func cacheKey(metered, engine, version string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %q %q %s %x", cacheFormat, metered, engine, version, runtime.GOARCH, processor())
	return hex.EncodeToString(h.Sum(nil))
}

// processor identifies the processor's features: machine code may use any of them. Without
// /proc it is empty.
func processor() []byte {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	h := sha256.New()
	for line := range strings.Lines(string(info)) {
		if name, _, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "flags") || strings.HasPrefix(name, "Features") {
			h.Write([]byte(line)) // never fails
			break                 // of the first processor
		}
	}
	return h.Sum(nil)
}

// outline is the path of an outline in the directory.
func outline(key string) string { return filepath.Join(outlines, key) }

func (c cache) recordFile(key string) string { return filepath.Join(c.dir, key+recordSuffix) }

// has reports whether the unchanged machine code of a module is in the cache, and marks it
// as used.
func (c cache) has(key string) bool {
	if !c.whole(key) {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(c.recordFile(key), now, now) // at worst it is removed early, and compiled again
	return true
}

func (c cache) whole(key string) bool {
	r, err := readRecord(c.recordFile(key))
	if err != nil || r[outline(key)] == "" {
		return false
	}
	for name, want := range r {
		if !filepath.IsLocal(name) {
			return false
		}
		// Invariant M25 (host/SECURITY.md): modified machine code is not used.
		if got, err := digest(filepath.Join(c.dir, name)); err != nil || got != want {
			return false
		}
	}
	return true
}

func readRecord(file string) (record, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := record{}
	return r, json.Unmarshal(data, &r)
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// outline returns the outline of a module in the cache.
func (c cache) outline(key string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(c.dir, outline(key)))
	if err != nil { // removed for another module meanwhile
		return nil, fmt.Errorf("%w: %w", engine.ErrNotCompiled, err)
	}
	return data, nil
}

// known returns the key of a metered module by another name, "" if unknown.
func (c cache) known(name string) (key string) {
	data, err := os.ReadFile(filepath.Join(c.dir, knownPrefix+name))
	if err != nil || len(data) != hex.EncodedLen(sha256.Size) {
		return ""
	}
	return string(data)
}

// know stores the key of a metered module under another name. A failure only costs metering
// the module again.
func (c cache) know(name, key string) {
	all, err := filepath.Glob(filepath.Join(c.dir, knownPrefix+"*"))
	if err == nil && len(all) >= maxKnown {
		for _, one := range all {
			_ = os.Remove(one)
		}
	}
	_ = os.WriteFile(filepath.Join(c.dir, knownPrefix+name), []byte(key), 0o600)
}

// accept moves a child's output into the cache, the record last.
func (c cache) accept(key, staging string) error {
	r := record{}
	err := filepath.WalkDir(staging, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("the child left %s, which is not a file", d.Name())
		}
		name, err := filepath.Rel(staging, path)
		if err != nil {
			return err
		}
		if r[name], err = digest(path); err != nil {
			return err
		}
		to := filepath.Join(c.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		return os.Rename(path, to)
	})
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// A partial record does not decode, and counts as none.
	return os.WriteFile(c.recordFile(key), data, 0o600)
}

// sweep removes the files of a killed manager.
func (c cache) sweep() error {
	const abandoned = time.Hour // longer than any compilation
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), stagingPrefix) || time.Since(info.ModTime()) < abandoned {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the least recently used records above maxRecords, and their files that no
// other record names. Held modules stay.
func (c cache) prune(held func(key string) bool) {
	all := c.records()
	slices.SortFunc(all, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	kept := map[string]bool{}
	for _, one := range all {
		key := keyOf(one)
		if held(key) || len(kept) < maxRecords {
			kept[key] = true
		}
	}
	for _, one := range all {
		if key := keyOf(one); !kept[key] {
			c.forget(key)
		}
	}
}

// records are the record files.
func (c cache) records() (all []os.FileInfo) {
	entries, err := os.ReadDir(c.dir)
	if err != nil { // then there are no known records
		return nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), recordSuffix) {
			all = append(all, info)
		}
	}
	return all
}

func keyOf(record os.FileInfo) string { return strings.TrimSuffix(record.Name(), recordSuffix) }

// remove removes a record, and its files that are not in kept.
func (c cache) remove(name string, kept record) error {
	files := c.files(name)
	if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
		return err
	}
	for file := range files {
		// Two records name one file if two versions of the manager have compiled the same module.
		if _, shared := kept[file]; !shared && filepath.IsLocal(file) {
			os.Remove(filepath.Join(c.dir, file))
		}
	}
	return nil
}

// forget removes everything of a module. A failed removal is tried again later.
func (c cache) forget(key string) {
	others, _ := filepath.Glob(filepath.Join(c.dir, "*"+recordSuffix)) // fails only for a bad pattern
	kept := record{}
	for _, other := range others {
		if name := filepath.Base(other); name != key+recordSuffix {
			maps.Copy(kept, c.files(name))
		}
	}
	_ = c.remove(key+recordSuffix, kept)
}

// files are the files of a record; none if it is unreadable.
func (c cache) files(name string) record {
	r, err := readRecord(filepath.Join(c.dir, name))
	if err != nil {
		return record{}
	}
	return r
}

// privateDir returns the absolute path of a directory that only this user may write to, and
// creates it if missing.
func privateDir(dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("a directory is needed")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	// Invariant M25 (host/SECURITY.md): the directory's machine code is run, so nobody else may
	// write it.
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is writable by others (mode %#o), and the manager runs the code in it: name a new directory inside it, or chmod go-w it", dir, info.Mode().Perm())
	}
	if uid, known := ownedBy(info); known && int(uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to user %d, and user %d runs the code in it: name a directory of that user", dir, uid, os.Geteuid())
	}
	return dir, nil
}
