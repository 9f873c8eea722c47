package source

import (
	"slices"
	"strings"
)

// Limits bound what a source takes. The zero value of a field is its default.
type Limits struct {
	// MaxCompressed bounds a compressed module, in bytes. Default: 1 MiB in a
	// ConfigMap, MaxModule in a directory.
	MaxCompressed int64
	// MaxModule bounds a module after decompression. Default 64 MiB.
	MaxModule int64
	// MaxConfig bounds the configuration. Default 1 MiB.
	MaxConfig int64
}

const mebibyte = 1 << 20

func (l Limits) withDefaults(maxCompressed int64) Limits {
	if l.MaxModule == 0 {
		l.MaxModule = 64 * mebibyte
	}
	if l.MaxConfig == 0 {
		l.MaxConfig = mebibyte
	}
	if l.MaxCompressed == 0 {
		l.MaxCompressed = maxCompressed
	}
	if l.MaxCompressed == 0 {
		l.MaxCompressed = l.MaxModule
	}
	return l
}

// stored bounds the module of that key as it is stored.
func (l Limits) stored(moduleKey string) int64 {
	if compressionOf(moduleKey) == "" {
		return l.MaxModule
	}
	return l.MaxCompressed
}

// keys are the names that were chosen; config is "" when there is none.
type keys struct{ module, config string }

// chooseKeys applies the rules of the package comment.
func chooseKeys(names []string) (keys, error) {
	var modules, configs, unknown []string
	for _, name := range names {
		switch {
		case isModule(name):
			modules = append(modules, name)
		case isConfig(name):
			configs = append(configs, name)
		default:
			unknown = append(unknown, name)
		}
	}
	switch {
	case len(unknown) > 0:
		return keys{}, failed(ReasonUnknownKey, "unknown %s: name the module NAME.wasm, NAME.wasm.gz or NAME.wasm.zst and its configuration cloud.conf or config.EXTENSION, and remove the rest", list(unknown))
	case len(modules) == 0:
		return keys{}, failed(ReasonModuleKeyMissing, "there is no module: exactly one key must end in .wasm, .wasm.gz or .wasm.zst")
	case len(modules) > 1:
		return keys{}, failed(ReasonModuleKeyAmbiguous, "there is more than one module (%s): leave one", list(modules))
	case len(configs) > 1:
		return keys{}, failed(ReasonConfigKeyAmbiguous, "there is more than one configuration (%s): leave one", list(configs))
	case len(configs) == 1:
		return keys{modules[0], configs[0]}, nil
	}
	return keys{module: modules[0]}, nil
}

func isModule(name string) bool {
	name = strings.TrimSuffix(name, compressionOf(name))
	return strings.HasSuffix(name, ".wasm")
}

func isConfig(name string) bool {
	return name == "cloud.conf" || strings.HasPrefix(name, "config.")
}

// compressionOf returns ".gz", ".zst" or "".
func compressionOf(name string) string {
	for _, suffix := range []string{".gz", ".zst"} {
		if strings.HasSuffix(name, suffix) {
			return suffix
		}
	}
	return ""
}

// list is for errors: sorted, and bounded.
func list(names []string) string {
	const most = 8
	names = slices.Sorted(slices.Values(names))
	if len(names) > most {
		names = append(names[:most:most], "...")
	}
	return strings.Join(names, ", ")
}

// unpack makes the content of a bundle of what is stored under the keys.
func unpack(k keys, module, config []byte, limits Limits) (Bundle, error) {
	if int64(len(config)) > limits.MaxConfig {
		return Bundle{}, failed(ReasonConfigTooLarge, "%s is larger than %d bytes", k.config, limits.MaxConfig)
	}
	wasm, err := decompress(k.module, module, limits)
	if err != nil {
		return Bundle{}, err
	}
	return Bundle{Module: wasm, Config: config, Revision: revision(wasm, config)}, nil
}
