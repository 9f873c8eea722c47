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
)

const (
	stagingPrefix = ".compiling-"
	recordSuffix  = ".compiled.json"
	// maxRecords is how many modules the cache keeps: the one that serves, and
	// those that one may want to go back to.
	maxRecords = 8
)

// cache is the engine's cache directory, with a record beside the files of
// each module. Without its record, a file counts for nothing.
type cache struct{ dir string }

// record lists the files of one module by their path in the directory, with
// their SHA-256.
type record map[string]string

// cacheKey names the machine code of a module: another engine, version or
// processor has another one.
func cacheKey(wasm []byte, engine, version string) string {
	h := sha256.New()
	module := sha256.Sum256(wasm)
	fmt.Fprintf(h, "%x %q %q %s %x", module, engine, version, runtime.GOARCH, processor())
	return hex.EncodeToString(h.Sum(nil))
}

// processor returns what tells processors apart: machine code may use what
// only some of them have. Without /proc it is empty.
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

func (c cache) recordFile(key string) string { return filepath.Join(c.dir, key+recordSuffix) }

// has tells whether the machine code of a module is there as it was written,
// and that it is used still.
func (c cache) has(key string) bool {
	if !c.whole(key) {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(c.recordFile(key), now, now) // at worst it is compiled again one day
	return true
}

func (c cache) whole(key string) bool {
	r, err := readRecord(c.recordFile(key))
	if err != nil || len(r) == 0 {
		return false
	}
	for name, want := range r {
		if !filepath.IsLocal(name) {
			return false
		}
		// Invariant M25 (host/SECURITY.md): machine code that is not as it was left is not used.
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

// accept moves what a child has left into the cache, the record last.
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
	// The record is read as it is: half of one is none.
	if err := os.WriteFile(c.recordFile(key), data, 0o600); err != nil {
		return err
	}
	return c.prune(key)
}

// sweep removes what a manager that was killed in the middle has left.
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

// prune removes the records above maxRecords that were not used for the longest
// time, but not the one that was just accepted, and those of their files that
// no other record names.
func (c cache) prune(accepted string) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var records []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), recordSuffix) && e.Name() != accepted+recordSuffix {
			records = append(records, info)
		}
	}
	slices.SortFunc(records, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	kept := c.files(accepted + recordSuffix)
	for i, info := range records {
		if i < maxRecords-1 {
			maps.Copy(kept, c.files(info.Name()))
		}
	}
	for _, old := range records[min(len(records), maxRecords-1):] {
		files := c.files(old.Name())
		if err := os.Remove(filepath.Join(c.dir, old.Name())); err != nil {
			return err
		}
		for name := range files {
			// Two records name one file where two versions of the manager have
			// compiled the same module.
			if _, shared := kept[name]; !shared && filepath.IsLocal(name) {
				os.Remove(filepath.Join(c.dir, name))
			}
		}
	}
	return nil
}

// files are those of a record; none, when it cannot be read.
func (c cache) files(name string) record {
	r, err := readRecord(filepath.Join(c.dir, name))
	if err != nil {
		return record{}
	}
	return r
}

// privateDir returns the absolute path of a directory that only this user may
// write to, which it makes when it is not there.
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
	// Invariant M25 (host/SECURITY.md): what lies there is run, so nobody else may write it.
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s can be written to by others (mode %#o), and what lies there is run: name a directory inside of it that does not exist, or chmod go-w it", dir, info.Mode().Perm())
	}
	if uid, known := ownedBy(info); known && int(uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to user %d, and what lies there is run by user %d: name a directory that belongs to that user", dir, uid, os.Geteuid())
	}
	return dir, nil
}
