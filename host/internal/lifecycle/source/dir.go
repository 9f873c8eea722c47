package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wasm-ccm/wasm-ccm/host/internal/quota"
)

const (
	// dataLink is the symlink with which the kubelet replaces all files of a mounted ConfigMap
	// at once.
	dataLink = "..data"
	// maxFiles bounds a directory.
	maxFiles = 1000
)

// Dir is a source that reads a directory, usually a mounted ConfigMap.
type Dir struct {
	dir      string
	limits   Limits
	watching Watching
	last     snapshot
}

// NewDir returns the source for a directory. It need not exist yet.
func NewDir(dir string, limits Limits, watching Watching) *Dir {
	return &Dir{dir: dir, limits: limits.withDefaults(0), watching: watching.withDefaults()}
}

// Run watches the directory; see Source.
func (d *Dir) Run(ctx context.Context, handle Handler) {
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { watchDir(ctx, d.dir, d.watching.Poll, changed) })
	p := publisher{handle: handle}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		bundle, fresh, err := d.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if fresh {
			bundle.Origin = "directory " + d.dir
			p.publish(bundle, err)
		}
	}
}

// read returns the directory's content; fresh is false if the files are those of the last
// read.
func (d *Dir) read(ctx context.Context) (bundle Bundle, fresh bool, err error) {
	for try := range maxTries {
		if try > 0 && pause(ctx, d.watching.Settle) != nil {
			return Bundle{}, false, nil
		}
		var files snapshot
		files, err = d.find(ctx)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			break
		}
		if d.last != nil && d.last.equal(files) {
			return Bundle{}, false, nil
		}
		bundle, err = d.load(files)
		// The kubelet removes the old files after a switch, and others may write in place: the
		// content read could mix two states.
		after, findErr := d.list()
		if findErr == nil && after.equal(files) {
			if d.last = files; quota.Short(err) {
				d.last = nil // to be read again although it is right
			}
			return bundle, true, inside(err, "directory "+d.dir)
		}
		err = errChanged
	}
	d.last = nil
	if errors.Is(err, errChanged) {
		return Bundle{}, true, failed(ReasonDirectoryUnstable, "directory %s: %w", d.dir, err)
	}
	return Bundle{}, true, failed(ReasonDirectoryUnreadable, "directory %s: %w", d.dir, err)
}

// find returns the files. Those of a mounted ConfigMap never change, only the symlink does;
// others must have settled.
func (d *Dir) find(ctx context.Context) (snapshot, error) {
	if d.isMounted() {
		return d.list()
	}
	return settled(ctx, d.watching.Settle, d.list)
}

func (d *Dir) isMounted() bool {
	_, err := os.Lstat(filepath.Join(d.dir, dataLink))
	return err == nil
}

// list resolves the kubelet's symlink once, so that all files are of one state.
func (d *Dir) list() (snapshot, error) {
	if !d.isMounted() {
		return lookInto(d.dir)
	}
	var files snapshot
	root, err := filepath.EvalSymlinks(filepath.Join(d.dir, dataLink))
	if err == nil {
		files, err = lookInto(root)
	}
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errChanged) {
		return nil, fmt.Errorf("%w (%w)", errChanged, err)
	}
	return files, err
}

// lookInto lists the files of one directory.
func lookInto(root string) (snapshot, error) {
	names, err := listNames(root)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = filepath.Join(root, name)
	}
	files, err := look(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (%w)", errChanged, err)
	}
	return files, err
}

// listNames returns the names that count as keys.
func listNames(root string) (names []string, err error) {
	f, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	entries, err := f.ReadDir(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") && !isDir(root, entry) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func isDir(root string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return entry.IsDir()
	}
	info, err := os.Stat(filepath.Join(root, entry.Name()))
	return err == nil && info.IsDir()
}

func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failed(ReasonDirectoryUnreadable, "%w", err)
	}
	return f, nil
}

// load reads the files chosen by the rules.
func (d *Dir) load(files snapshot) (Bundle, error) {
	paths := make(map[string]string, len(files))
	for path := range files {
		paths[filepath.Base(path)] = path
	}
	read := func(name string, most int64) ([]byte, error) {
		data, err := readFile(paths[name], most)
		if err != nil {
			return nil, failed(ReasonDirectoryUnreadable, "%w", err)
		}
		return data, nil
	}
	part := func(p part, most int64) ([]byte, error) {
		if paths[p.file()] == "" {
			return nil, errNoPart
		}
		return read(p.file(), most)
	}
	file := func(name string) (*os.File, error) { return open(paths[name]) }
	return box{names: slices.Collect(maps.Keys(paths)), read: read, part: part, file: file, beside: true}.open(d.limits)
}
