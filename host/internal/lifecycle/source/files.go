package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// snapshot is the files' metadata.
type snapshot map[string]os.FileInfo

// look returns the snapshot of files, which must be regular ones.
func look(paths []string) (snapshot, error) {
	s := make(snapshot, len(paths))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", path)
		}
		s[path] = info
	}
	return s, nil
}

// equal reports whether the files are the same and unmodified.
func (s snapshot) equal(other snapshot) bool {
	if len(s) != len(other) {
		return false
	}
	for path, a := range s {
		b, ok := other[path]
		if !ok || !os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime()) || !changeTime(a).Equal(changeTime(b)) {
			return false
		}
	}
	return true
}

// errChanged means that files changed during the reading.
var errChanged = errors.New("the files keep changing: write them elsewhere and move them here, or wait until they are complete")

// maxTries bounds the readings of changing files before an error; the next change or poll
// tries again.
const maxTries = 25

// settled waits until find has returned the same files for a while.
func settled(ctx context.Context, settle time.Duration, find func() (snapshot, error)) (snapshot, error) {
	before, err := find()
	for range maxTries {
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, settle); err != nil {
			return nil, err
		}
		var after snapshot
		after, err = find()
		// Invariant R4 (host/SECURITY.md): files are read once they no longer change.
		if err == nil && after.equal(before) {
			return after, nil
		}
		before = after
	}
	if err != nil {
		return nil, err
	}
	return nil, errChanged
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// readFile reads a file, at most most+1 bytes: one more than most shows that it is too
// large.
func readFile(path string, most int64) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	return data, err
}
