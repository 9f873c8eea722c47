// Package source reads a provider's module and configuration from a ConfigMap,
// which it watches through the API, from a directory, usually a mounted
// ConfigMap, or from an image in a registry. It finds the module by the rules
// below, decompresses it within bounds, and reports the module or an error
// whenever it changes. It does not check the module.
//
// The rules for the keys of a ConfigMap (binaryData or data) and for the names
// of the files in a directory or an image are the same:
//   - exactly one ends in .wasm, .wasm.gz or .wasm.zst: the module;
//   - at most one is named cloud.conf or begins with "config.", for example
//     config.yaml: the provider's configuration;
//   - at most one is named NAME.wasm.sig (base64 of a signature, as cosign
//     sign-blob writes it) or NAME.wasm.sigstore.json (a bundle of cosign),
//     where NAME is that of the module: its signature, decompressed;
//   - there are no others, so that a misspelt name does not go unnoticed.
//     Files whose names begin with a dot, and subdirectories, do not count.
//
// A module that is too large for one ConfigMap lies in several. Instead of the
// module there is its index then, whose name has ".parts" appended, for example
// provider.wasm.zst.parts:
//
//	{"digest": "sha256:HEX of all parts joined",
//	 "parts": [{"configMap": "NAME", "key": "KEY", "digest": "sha256:HEX"}]}
//
// There are 1 to 64 parts, in their order. They lie in ConfigMaps of the same
// namespace, under the key, or under the only one when the index names none. In
// a directory they are files beside the index, with the name of the key, or of
// the ConfigMap when there is no key; files *.part that the index does not name
// do not count there. A module is there when all parts fit their digests, and
// never in part. Split makes such ConfigMaps, Join reads them.
package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bundle is the content of a source. The receiver must not change it.
type Bundle struct {
	// Module is the WebAssembly module, decompressed; nil if it is too large for memory, and in
	// File. View covers both.
	Module []byte
	File   *File
	// Config is the provider's configuration; nil for none.
	Config []byte
	// ConfigPrivate: Config is from a Secret, or from a file, which may be a mounted Secret: it
	// must not be copied into a ConfigMap.
	ConfigPrivate bool
	// private is the ConfigDigest of a private configuration.
	private string
	// Signature is the module's signature from the file beside it, at most 64 KiB: base64, or a
	// bundle of cosign in JSON, unverified. It is nil for none.
	Signature []byte
	// Revision names the content: equal for equal modules and configurations,
	// however they are compressed, split or signed. Empty when there is no
	// content.
	Revision string
	// Origin tells people where it comes from.
	Origin string
	// Image is the digest of its image, sha256:HEX, "" for none. It is not the module's digest,
	// and no part of Revision.
	Image string
	// Ref is the ConfigMap for Events, or nil. It is set also with an error; it has no UID while
	// the ConfigMap does not exist.
	Ref *corev1.ObjectReference
	// ConfigRef is the ConfigMap or Secret of a configuration apart from the module, or nil.
	// Otherwise it is as Ref.
	ConfigRef *corev1.ObjectReference
}

// Handler takes the current content of a source: a bundle, or an *Error with a bundle that
// has only its Origin and references. It is never called concurrently.
type Handler func(bundle Bundle, err error)

// Source is an origin of modules.
type Source interface {
	// Run calls handle with the source's content, as soon as it is known and again after each
	// change, until the context ends. A change of the signature alone counts. Short-lived states
	// may be skipped. It must be called once.
	Run(ctx context.Context, handle Handler)
}

// Reasons of errors, in the CamelCase of Events.
const (
	ReasonConfigMapNotFound        = "ConfigMapNotFound"
	ReasonConfigMapUnreadable      = "ConfigMapUnreadable"
	ReasonDirectoryUnreadable      = "DirectoryUnreadable"
	ReasonDirectoryUnstable        = "DirectoryUnstable"
	ReasonModuleKeyMissing         = "ModuleKeyMissing"
	ReasonModuleKeyAmbiguous       = "ModuleKeyAmbiguous"
	ReasonModuleTooLarge           = "ModuleTooLarge"
	ReasonModuleEmpty              = "ModuleEmpty"
	ReasonModuleCompressionInvalid = "ModuleCompressionInvalid"
	ReasonModuleIndexInvalid       = "ModuleIndexInvalid"
	ReasonModuleIncomplete         = "ModuleIncomplete"
	ReasonSignatureKeyAmbiguous    = "SignatureKeyAmbiguous"
	ReasonSignatureOfAnotherModule = "SignatureOfAnotherModule"
	ReasonSignatureTooLarge        = "SignatureTooLarge"
	ReasonModuleNotKept            = "ModuleNotKept"
	ReasonConfigKeyAmbiguous       = "ConfigKeyAmbiguous"
	ReasonConfigTooLarge           = "ConfigTooLarge"
	ReasonConfigFileUnreadable     = "ConfigFileUnreadable"
	ReasonConfigUnreadable         = "ConfigUnreadable"
	ReasonConfigNotFound           = "ConfigNotFound"
	ReasonConfigKeyMissing         = "ConfigKeyMissing"
	ReasonConfigInTwoPlaces        = "ConfigInTwoPlaces"
	ReasonUnknownKey               = "UnknownKey"
)

// InConfig reports whether a reason, of a source or of loading a module, concerns the
// configuration rather than the module.
func InConfig(reason string) bool {
	return strings.HasPrefix(reason, "Config") && !strings.HasPrefix(reason, "ConfigMap")
}

// Error is the reason why a source has no bundle.
type Error struct {
	// Reason is one of the Reason constants, or of package registry.
	Reason string
	Err    error
	// Passing: the source could not be asked, so its content is unknown.
	Passing bool
}

// Error says what is wrong, where, and how to mend it.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failed(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ConfigDigest names the configuration, in lowercase hexadecimal: a public one by its
// SHA-256. A private one's is for records only.
func (b Bundle) ConfigDigest() string {
	if b.ConfigPrivate {
		return b.private
	}
	sum := sha256.Sum256(b.Config)
	return hex.EncodeToString(sum[:])
}

// revision hashes the module and the configuration of a bundle.
func revision(b Bundle) (string, error) {
	h := sha256.New()
	err := b.View(func(module []byte) error {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(module))))
		_, _ = h.Write(module)
		return nil
	})
	config := b.Config
	if b.ConfigPrivate {
		config = []byte("private " + b.private)
	}
	_, _ = h.Write(config)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), err
}

// digestOf returns the digest of parts as one, sha256:HEX.
func digestOf(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// publisher calls a handler with changes only.
type publisher struct {
	handle Handler
	last   string
}

func (p *publisher) publish(bundle Bundle, err error) {
	state := fmt.Sprint(bundle.Revision, " ", bundle.ConfigPrivate, " ", bundle.Image)
	if bundle.Signature != nil {
		state += " " + digestOf(bundle.Signature)
	}
	if err != nil {
		state = "error: " + err.Error()
	}
	for _, ref := range []*corev1.ObjectReference{bundle.Ref, bundle.ConfigRef} {
		if ref != nil {
			state += " " + string(ref.UID)
		}
	}
	if state == p.last {
		return
	}
	p.last = state
	p.handle(bundle, err)
}
