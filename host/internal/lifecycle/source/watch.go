package source

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// Watching says how files are watched. The zero value of a field is its
// default.
type Watching struct {
	// Poll is the period of looks at the files without a reported change, since not every file
	// system reports changes. Default 30 s.
	Poll time.Duration
	// Settle is how long files must be unchanged before they are read, unless they are replaced
	// atomically, as by the kubelet. Default 200 ms.
	Settle time.Duration
}

func (w Watching) withDefaults() Watching {
	if w.Poll == 0 {
		w.Poll = 30 * time.Second
	}
	if w.Settle == 0 {
		w.Settle = 200 * time.Millisecond
	}
	return w
}

// watchDir signals on changed after every change in a directory, and every poll, until the
// context ends. A signal stands for all changes since the last one was received. The
// directory may come and go.
func watchDir(ctx context.Context, dir string, poll time.Duration, changed chan<- struct{}) {
	events, errs, add, stop := startWatcher(ctx, dir)
	defer stop()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		// The directory may have been created again.
		add()
		select {
		case changed <- struct{}{}:
		default: // a signal is pending
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-events:
		case err := <-errs: // e.g. an overflow of the kernel's queue
			klog.FromContext(ctx).V(4).Info("Watching files failed, looking at them", "dir", dir, "err", err)
		}
	}
}

// startWatcher returns the channels of fsnotify for a directory. Without them polling
// continues alone.
func startWatcher(ctx context.Context, dir string) (events <-chan fsnotify.Event, errs <-chan error, add, stop func()) {
	log := klog.FromContext(ctx)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Info("Cannot watch files, polling only", "dir", dir, "err", err)
		return nil, nil, func() {}, func() {}
	}
	add = func() {
		if err := watcher.Add(dir); err != nil {
			log.V(4).Info("Cannot watch the directory now, polling", "dir", dir, "err", err)
		}
	}
	stop = func() {
		if err := watcher.Close(); err != nil {
			log.V(4).Info("Closing the watcher failed", "dir", dir, "err", err)
		}
	}
	return watcher.Events, watcher.Errors, add, stop
}
