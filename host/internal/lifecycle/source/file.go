package source

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// WatchFile hands the content of a file to handle, and again after each change, until the
// context ends. A first content equal to known, which the caller has read before, is
// skipped. A file that cannot be read, or has more than most bytes, is an error; the same
// error is reported once.
func WatchFile(ctx context.Context, path string, most int64, watching Watching, known []byte, handle func(data []byte, err error)) {
	watching = watching.withDefaults()
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { watchDir(ctx, filepath.Dir(path), watching.Poll, changed) })
	lastErr := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		data, err := readSettled(ctx, path, most, watching)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != lastErr:
			lastErr = err.Error()
			handle(nil, err)
		case err == nil && (lastErr != "" || !bytes.Equal(data, known)):
			known, lastErr = data, ""
			handle(data, nil)
		}
	}
}

func readSettled(ctx context.Context, path string, most int64, watching Watching) ([]byte, error) {
	find := func() (snapshot, error) { return look([]string{path}) }
	if _, err := settled(ctx, watching.Settle, find); err != nil {
		return nil, err
	}
	data, err := readFile(path, most)
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, err
}
