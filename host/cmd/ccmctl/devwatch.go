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

// settles is how long nothing may be saved before a round begins: editors write a
// file in several steps, and save several at once.
const settles = 50 * time.Millisecond

// maxWatched bounds the directories that are watched.
const maxWatched = 4096

// watchTree tells, until ctx ends, when files below a directory were saved, or the
// one file that path is, if need be behind a link. Below it no link is followed. It skips what is hidden and what
// builds write.
func watchTree(ctx context.Context, path string) (<-chan struct{}, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // of a link only the link would be watched
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

// tell sends once for saves that follow each other closely.
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
				_ = addTree(watcher, event.Name, true) // a directory that is gone again needs no watch
			}
		case err := <-watcher.Errors:
			if err == nil {
				return // it is closed
			}
			timer.Reset(settles) // events may be lost, of saves too; and the watcher waits until it is heard
		case <-timer.C:
			select {
			case saved <- struct{}{}:
			default: // a round is due already
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
