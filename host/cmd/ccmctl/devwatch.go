package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settles is the time without a save before a round begins: editors write a
// file in several steps, and save several files at once.
const settles = 50 * time.Millisecond

// maxWatched bounds the watched directories.
const maxWatched = 4096

// watchTree reports saves of files below a directory until ctx ends, or of the
// single file path, even behind a link. It follows no link below path, and
// skips hidden files and the output of builds.
func watchTree(ctx context.Context, path string) (<-chan struct{}, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the watch would cover only the link itself
	}
	only := ""
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		only, path = filepath.Clean(path), filepath.Dir(path)
	}
	if err := addTree(watcher, path, only == ""); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	saved := make(chan struct{}, 1)
	go func() {
		defer watcher.Close()
		tell(ctx, watcher, only, saved)
	}()
	return saved, nil
}

func addTree(watcher *fsnotify.Watcher, root string, deep bool) error {
	if !deep {
		return watcher.Add(root)
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path != root && skipped(entry.Name()):
			return filepath.SkipDir
		case len(watcher.WatchList()) >= maxWatched:
			return fmt.Errorf("%s: has more than %d directories: name the guest's own", root, maxWatched)
		}
		return watcher.Add(path)
	})
}

func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || name == "build" || name == "target" || name == "node_modules" || name == "vendor"
}

// tell sends once for several saves in close succession.
func tell(ctx context.Context, watcher *fsnotify.Watcher, only string, saved chan<- struct{}) {
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if relevant(event, only) {
				timer.Reset(settles)
			}
			if info, err := os.Lstat(event.Name); only == "" && err == nil && info.IsDir() && !skipped(info.Name()) {
				_ = addTree(watcher, event.Name, true) // a directory that vanished needs no watch
			}
		case err := <-watcher.Errors:
			if err == nil {
				return // the watcher is closed
			}
			timer.Reset(settles) // lost events may be saves; and the watcher blocks until its errors are read
		case <-timer.C:
			select {
			case saved <- struct{}{}:
			default: // a round is already due
			}
		}
	}
}

func relevant(event fsnotify.Event, only string) bool {
	name := filepath.Base(event.Name)
	if only != "" {
		return filepath.Clean(event.Name) == only && !event.Has(fsnotify.Chmod) && !event.Has(fsnotify.Remove)
	}
	written := strings.HasSuffix(name, ".wasm") || strings.HasSuffix(name, ".stamp") || strings.HasSuffix(name, "~") || skipped(name)
	return !written && !event.Has(fsnotify.Chmod)
}
