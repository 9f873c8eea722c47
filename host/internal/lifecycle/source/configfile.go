package source

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// WithConfigFile returns a source whose configuration is a file's (--cloud-config) instead of src's,
// and private; the module and its signature stay src's. The file is read again after changes. An empty
// path returns src.
func WithConfigFile(src Source, path string, limits Limits, watching Watching) Source {
	if path == "" {
		return src
	}
	return &configured{src: src, config: &configFile{path: path, limits: limits.withDefaults(0), watching: watching.withDefaults()}}
}

type configFile struct {
	path     string
	limits   Limits
	watching Watching
	digest   string // of the last read
}

func (c *configFile) watch(ctx context.Context, changed chan<- struct{}) {
	watchDir(ctx, filepath.Dir(c.path), c.watching.Poll, changed)
}

func (c *configFile) read(ctx context.Context) (config []byte, known bool, err error) {
	find := func() (snapshot, error) { return look([]string{c.path}) }
	if _, err := settled(ctx, c.watching.Settle, find); err != nil {
		return nil, true, failed(ReasonConfigFileUnreadable, "--cloud-config %s: %w", c.path, err)
	}
	config, err = readFile(c.path, c.limits.MaxConfig)
	if err != nil {
		return nil, true, failed(ReasonConfigFileUnreadable, "--cloud-config: %w", err)
	}
	if int64(len(config)) > c.limits.MaxConfig {
		return nil, true, failed(ReasonConfigTooLarge, "--cloud-config %s: is larger than %d bytes", c.path, c.limits.MaxConfig)
	}
	if c.digest, err = slowDigest(config); err != nil {
		return nil, true, failed(ReasonConfigFileUnreadable, "--cloud-config %s: %w", c.path, err)
	}
	return append([]byte{}, config...), true, nil
}

func (c *configFile) put(bundle Bundle, config []byte) (Bundle, error) {
	bundle.setPrivate(config, c.digest)
	return bundle, nil
}

// ref is nil: Events cannot be about a file.
func (*configFile) ref() *corev1.ObjectReference { return nil }
