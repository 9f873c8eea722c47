package source

import (
	"slices"
	"strings"
)

// Limits bound a source. The zero value of a field is its default.
type Limits struct {
	// MaxCompressed bounds a compressed module, in bytes, and each part of a split one;
	// MaxModule bounds all parts together. Default: 1 MiB in a ConfigMap, MaxModule in a
	// directory.
	MaxCompressed int64
	// MaxModule bounds a module after decompression. Default 64 MiB.
	MaxModule int64
	// ModuleSetting is the setting that raises MaxModule, for errors; "": none does.
	ModuleSetting string
	// Store takes modules too large for memory; nil: they are held in memory.
	Store *Store
	// MaxConfig bounds the configuration. Default 1 MiB.
	MaxConfig int64
}

const (
	mebibyte = 1 << 20
	// maxSignature bounds a signature: with a key it has 100 bytes, with an identity it includes
	// certificates.
	maxSignature = 64 << 10

	signatureSuffix       = ".sig"
	signatureBundleSuffix = ".sigstore.json"
)

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

// keys are the chosen names; config and signature are "" for none. The module of an index
// has the name without .parts.
type keys struct{ module, config, signature string }

// chooseKeys applies the rules of the package comment.
func chooseKeys(names []string) (keys, error) {
	var modules, configs, signatures, unknown []string
	for _, name := range names {
		switch {
		case isModule(name), isIndex(name):
			modules = append(modules, name)
		case signedModule(name) != "":
			signatures = append(signatures, name)
		case isConfig(name):
			configs = append(configs, name)
		default:
			unknown = append(unknown, name)
		}
	}
	switch {
	case len(unknown) > 0:
		return keys{}, failed(ReasonUnknownKey, "unknown %s: name the module NAME.wasm, NAME.wasm.gz or NAME.wasm.zst (with .parts, if it is an index), its signature NAME.wasm.sig or NAME.wasm.sigstore.json and its configuration cloud.conf or config.EXTENSION, and remove the rest", list(unknown))
	case len(modules) == 0:
		return keys{}, failed(ReasonModuleKeyMissing, "there is no module: exactly one key must end in .wasm, .wasm.gz or .wasm.zst, or in one of these with .parts")
	case len(modules) > 1:
		return keys{}, failed(ReasonModuleKeyAmbiguous, "there is more than one module (%s): leave one", list(modules))
	case len(configs) > 1:
		return keys{}, failed(ReasonConfigKeyAmbiguous, "there is more than one configuration (%s): leave one", list(configs))
	case len(signatures) > 1:
		return keys{}, failed(ReasonSignatureKeyAmbiguous, "there is more than one signature (%s): leave one", list(signatures))
	}
	k := keys{module: strings.TrimSuffix(modules[0], partsSuffix), config: first(configs), signature: first(signatures)}
	if k.signature != "" && signedModule(k.signature) != decompressedName(k.module) {
		return keys{}, failed(ReasonSignatureOfAnotherModule, "%s is not the signature of %s: name it %[3]s.sig or %[3]s.sigstore.json, or remove it", k.signature, k.module, decompressedName(k.module))
	}
	return k, nil
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func isModule(name string) bool {
	return strings.HasSuffix(decompressedName(name), ".wasm")
}

// isIndex reports whether a name is a module's with .parts appended.
func isIndex(name string) bool {
	module, ok := strings.CutSuffix(name, partsSuffix)
	return ok && isModule(module)
}

// signedModule returns NAME.wasm for the name of its signature, else "".
func signedModule(name string) string {
	for _, suffix := range []string{signatureSuffix, signatureBundleSuffix} {
		if module, ok := strings.CutSuffix(name, suffix); ok && strings.HasSuffix(module, ".wasm") {
			return module
		}
	}
	return ""
}

func isConfig(name string) bool {
	return name == "cloud.conf" || strings.HasPrefix(name, "config.")
}

// decompressedName returns NAME.wasm for NAME.wasm.gz.
func decompressedName(name string) string {
	return strings.TrimSuffix(name, compressionOf(name))
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

// list formats names for errors: sorted and bounded.
func list(names []string) string {
	const most = 8
	names = slices.Sorted(slices.Values(names))
	if len(names) > most {
		names = append(names[:most:most], "...")
	}
	return strings.Join(names, ", ")
}
