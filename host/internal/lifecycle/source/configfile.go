package source

import (
	"context"
	"path/filepath"
	"sync"
)

// WithConfigFile returns a source whose configuration is that of a file
// (--cloud-config) instead of the one that src offers, and private; the module
// and its signature stay those of src. The file is read again when it changes. An empty path returns src.
func WithConfigFile(src Source, path string, limits Limits, watching Watching) Source {
	if path == "" {
		return src
	}
	return &configFile{src: src, path: path, limits: limits.withDefaults(0), watching: watching.withDefaults()}
}

type configFile struct {
	src      Source
	path     string
	limits   Limits
	watching Watching
}

type offer struct {
	bundle Bundle
	err    error
}

// Run watches both; see Source.
func (c *configFile) Run(ctx context.Context, handle Handler) {
	offers := make(chan offer)
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { watchDir(ctx, filepath.Dir(c.path), c.watching.Poll, changed) })
	wg.Go(func() {
		c.src.Run(ctx, func(bundle Bundle, err error) {
			select {
			case offers <- offer{bundle, err}:
			case <-ctx.Done():
			}
		})
	})
	p := publisher{handle: handle}
	var current *offer
	var config []byte
	var configErr error
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-offers:
			current = &o
		case <-changed:
			config, configErr = c.read(ctx)
		}
		if current != nil && (config != nil || configErr != nil) && ctx.Err() == nil {
			p.publish(current.with(config, configErr))
		}
	}
}

// read returns the file's content, which is not nil unless there is an error.
func (c *configFile) read(ctx context.Context) ([]byte, error) {
	find := func() (snapshot, error) { return look([]string{c.path}) }
	if _, err := settled(ctx, c.watching.Settle, find); err != nil {
		return nil, failed(ReasonConfigFileUnreadable, "--cloud-config %s: %w", c.path, err)
	}
	config, err := readFile(c.path, c.limits.MaxConfig)
	if err != nil {
		return nil, failed(ReasonConfigFileUnreadable, "--cloud-config: %w", err)
	}
	if int64(len(config)) > c.limits.MaxConfig {
		return nil, failed(ReasonConfigTooLarge, "--cloud-config %s: is larger than %d bytes", c.path, c.limits.MaxConfig)
	}
	return append([]byte{}, config...), nil
}

// with puts the configuration of the file into what the source offered.
func (o offer) with(config []byte, err error) (Bundle, error) {
	if o.err != nil {
		return o.bundle, o.err
	}
	if err != nil {
		return Bundle{Origin: o.bundle.Origin, Ref: o.bundle.Ref}, err
	}
	bundle := o.bundle
	bundle.Config, bundle.ConfigPrivate = config, true
	bundle.Revision = revision(bundle.Module, config)
	return bundle, nil
}
