package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

const mebibyte = 1 << 20

// shelf is a cache of files, the first of which was used last.
type shelf struct {
	t     *testing.T
	dir   string
	files []string
}

func (s *shelf) Entries() (all []quota.Entry) {
	for i, name := range s.files {
		file := filepath.Join(s.dir, name)
		if _, err := os.Stat(file); err == nil {
			all = append(all, quota.Entry{Used: time.Now().Add(-time.Duration(i) * time.Hour), Remove: func() { os.Remove(file) }})
		}
	}
	return all
}

// file makes one of so many bytes that takes no disk.
func file(t *testing.T, dir, name string, bytes int64) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
}

func there(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// What was used for the longest time goes, of all caches, and nothing that is in use.
func TestTwoCachesShareTheRoom(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"serves", "code", "older code", "module"} {
		file(t, dir, name, 100*mebibyte)
	}
	q := quota.New(dir, 512*mebibyte)
	q.Join(&shelf{t, dir, []string{"code", "code that is gone", "older code"}})
	q.Join(&shelf{t, dir, []string{"no such module", "module"}})

	granted, release := q.Reserve(filepath.Join(dir, "new"), 150*mebibyte)
	if granted != 150*mebibyte || there(dir, "older code") || !there(dir, "module") || !there(dir, "code") {
		t.Errorf("granted are %d bytes", granted)
	}
	file(t, dir, "new", 120*mebibyte) // counts with what is reserved
	if granted, release := q.Reserve(filepath.Join(dir, "another"), 58*mebibyte); granted != 58*mebibyte || !there(dir, "module") {
		t.Errorf("granted are %d bytes", granted)
	} else {
		release()
	}
	release()
	if granted, release := q.Reserve(filepath.Join(dir, "another"), 88*mebibyte); granted != 88*mebibyte || !there(dir, "module") {
		t.Errorf("after the release, granted are %d bytes", granted)
	} else {
		release()
	}
	granted, _ = q.Reserve(filepath.Join(dir, "large"), 1000*mebibyte)
	if want := int64(508-220) * mebibyte; granted != want || there(dir, "module") || there(dir, "code") || !there(dir, "serves") {
		t.Errorf("granted are %d bytes beside what is in use, want %d", granted, want)
	}
}

// Who has no quota gets what it wants.
func TestWithoutAQuota(t *testing.T) {
	var q *quota.Quota
	q.Join(&shelf{})
	granted, release := q.Reserve("/nowhere", 1<<40)
	release()
	if granted != 1<<40 {
		t.Errorf("granted are %d bytes", granted)
	}
}

// roomOfMany is that of TestManyAtOnceKeepTheQuota, in bytes.
const roomOfMany = 64 * mebibyte

// keep is a cache of which some files are in use.
type keep struct {
	dir string

	mu    sync.Mutex
	inUse map[string]bool
	// taken is what is in use or reserved of all caches.
	taken *atomic.Int64
}

func (k *keep) Entries() (all []quota.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	files, _ := os.ReadDir(k.dir)
	for _, f := range files {
		if name := f.Name(); strings.HasPrefix(name, "kept-") && !k.inUse[name] {
			all = append(all, quota.Entry{Used: time.Unix(int64(len(name)), 0), Remove: func() { k.remove(name) }})
		}
	}
	return all
}

func (k *keep) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.inUse[name] {
		_ = os.Remove(filepath.Join(k.dir, name))
	}
}

// put makes a file of at most so many bytes beside the others, and keeps it. It
// reports how many there was room for.
func (k *keep) put(t *testing.T, q *quota.Quota, name string, want, bytes int64) int64 {
	temporary := filepath.Join(k.dir, "new-"+name)
	granted, release := q.Reserve(temporary, want)
	defer release()
	if taken := k.taken.Add(granted); taken > roomOfMany {
		t.Errorf("%d bytes are in use or reserved", taken)
	}
	if granted < bytes {
		k.taken.Add(-granted)
		return granted
	}
	defer k.taken.Add(bytes - granted)
	if err := errors.Join(os.WriteFile(temporary, nil, 0o600), os.Truncate(temporary, bytes)); err != nil {
		t.Error(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inUse["kept-"+name] = true
	if err := os.Rename(temporary, filepath.Join(k.dir, "kept-"+name)); err != nil {
		t.Error(err)
	}
	return granted
}

func (k *keep) free(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.inUse, "kept-"+name)
}

// Many that put, let go and delete at the same time never have more than the quota
// together, lose nothing that is in use, and find the whole room again afterwards.
func TestManyAtOnceKeepTheQuota(t *testing.T) {
	dir := t.TempDir()
	q := quota.New(dir, roomOfMany+4*mebibyte)
	var taken atomic.Int64
	shelves := []*keep{}
	for _, name := range []string{"a", "b"} {
		k := &keep{dir: filepath.Join(dir, name), inUse: map[string]bool{}, taken: &taken}
		if err := os.Mkdir(k.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		q.Join(k)
		shelves = append(shelves, k)
	}
	var work sync.WaitGroup
	for worker := range 8 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 17))
			for round := range 60 {
				k, name := shelves[random.IntN(2)], fmt.Sprint(worker, "-", round)
				want := random.Int64N(24) * mebibyte
				bytes := random.Int64N(want + 1)
				if k.put(t, q, name, want, bytes) < bytes {
					continue
				}
				kept := filepath.Join(k.dir, "kept-"+name)
				if _, err := os.Stat(kept); err != nil {
					t.Errorf("what is in use is gone: %v", err)
				}
				k.taken.Add(-bytes)
				if random.IntN(4) == 0 {
					_ = os.Remove(kept) // somebody else does
				}
				k.free(name)
			}
		})
	}
	work.Wait()
	granted, release := q.Reserve(filepath.Join(dir, "all"), roomOfMany)
	defer release()
	if granted != roomOfMany {
		t.Errorf("of %d bytes there are %d again", roomOfMany, granted)
	}
}
