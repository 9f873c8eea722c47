// Package provenance decides whether a module may run: by its digest, which the
// administrator pins, and by a signature made with a key that the administrator trusts. It
// uses neither a network nor a clock.
package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// MaxEntries bounds the digests, and the keys, of a policy.
const MaxEntries = 64

// MaxSignature bounds a signature file beside the module, in bytes.
const MaxSignature = 64 << 10

// Reasons of errors, in the CamelCase of Events.
const (
	ReasonDigestNotPinned  = report.DigestNotPinned
	ReasonSignatureMissing = report.SignatureMissing
	ReasonSignatureInvalid = report.SignatureInvalid
	ReasonVersionTooOld    = report.VersionTooOld
)

// Error is why a module may not be run.
type Error struct {
	// Reason is one of the Reason constants.
	Reason string
	Err    error
}

// Error says what is wrong and how to mend it. It names the digest of the offered module,
// and no pinned digest.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func refused(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Policy decides which modules may run. It is immutable and safe for concurrent use.
type Policy struct {
	digests map[string]bool
	keys    []key
	// repository and minimum are nil without a demand.
	repository *name.Repository
	minimum    *version.Version
}

// New returns the policy that pins the digests, each sha256: and 64 hexadecimal digits in
// lower case, and demands a signature by one of the keys, each one block "PUBLIC KEY" of
// PEM: ECDSA on P-256, P-384 or P-521, RSA of 2048 to 8192 bits, or Ed25519. An empty list
// demands nothing; the most is MaxEntries. The error joins all mistakes, each with its
// place, for example "publicKeys[1]: ...".
func New(digests []string, publicKeysPEM []string) (*Policy, error) {
	if err := errors.Join(checkCount("digests", digests), checkCount("publicKeys", publicKeysPEM)); err != nil {
		return nil, err
	}
	p := &Policy{digests: map[string]bool{}}
	var mistakes []error
	for i, digest := range digests {
		if err := CheckDigest(digest); err != nil {
			mistakes = append(mistakes, fmt.Errorf("digests[%d]: %w", i, err))
		}
		p.digests[digest] = true
	}
	for i, text := range publicKeysPEM {
		k, err := parseKey(text)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("publicKeys[%d]: %w", i, err))
		}
		p.keys = append(p.keys, k)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	return p, nil
}

// CheckDigest checks one entry of digests.
func CheckDigest(digest string) error {
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
		return errors.New("it must be sha256: and 64 hexadecimal digits in lower case, as ccmctl digest prints it")
	}
	return nil
}

// CheckKey checks one entry of public keys. The error does not repeat it: it may be a
// private key by mistake.
func CheckKey(text string) error {
	_, err := parseKey(text)
	return err
}

func checkCount(name string, entries []string) error {
	if len(entries) > MaxEntries {
		return fmt.Errorf("%s: there are %d entries, leave at most %d", name, len(entries), MaxEntries)
	}
	return nil
}

// Check returns nil if the module, uncompressed, may run, else an *Error. The signature is
// the content of the file beside it: base64 as cosign sign-blob --output-signature writes
// it, or a bundle of sigstore in JSON, or ImageSignatures; nil means none. It is read only
// if the policy has keys. Check keeps neither.
func (p *Policy) Check(module, signature []byte) error {
	if len(p.digests) > 0 && !p.digests[Digest(module)] {
		return notPinned(Digest(module))
	}
	if len(p.keys) == 0 {
		return nil
	}
	if len(signature) == 0 {
		return p.unsigned(Digest(module))
	}
	if err := p.verify(newMessage(module), signature); err != nil {
		return p.wrongly(Digest(module), err)
	}
	if err := p.checkVersion(module); err != nil {
		return refused(ReasonVersionTooOld, "the module %s is signed, but %w: offer one of the semantic version %s or a later one (provenance.minimumVersion)", Digest(module), err, p.minimum)
	}
	return nil
}

func notPinned(module string) *Error {
	return refused(ReasonDigestNotPinned, "the module's digest %.100s is not pinned: offer a module that is, or add the digest to the configuration", module)
}

// howToSign tells people how to make an accepted signature.
func (p *Policy) howToSign() string {
	if p.repository != nil {
		return fmt.Sprintf("ccmctl push --key KEY module.wasm %s:TAG", p.repository)
	}
	return "ccmctl sign --key KEY module.wasm, and put module.wasm.sig beside the module; an image: ccmctl push --key KEY"
}

func (p *Policy) unsigned(module string) *Error {
	return refused(ReasonSignatureMissing, "the module %s has no signature: sign it: %s", module, p.howToSign())
}

func (p *Policy) wrongly(module string, err error) *Error {
	return refused(ReasonSignatureInvalid, "the signature of the module %s: %w; sign it again: %s", module, err, p.howToSign())
}

func (p *Policy) verify(m *message, stored []byte) error {
	if s := decodeImageSignatures(stored); s != nil {
		return p.verifyImage(m, s)
	}
	return p.verifyModule(m, stored)
}

// verifyModule verifies a signature of the module itself.
func (p *Policy) verifyModule(m *message, stored []byte) error {
	raw, err := parseSignature(m, stored)
	if err != nil {
		return err
	}
	switch {
	case !p.signed(m, raw):
		return p.untrusted("this module")
	case p.repository != nil:
		return fmt.Errorf("a signature of the module names no repository, and %s is demanded: sign the image in it", p.repository)
	}
	return nil
}

// Digest returns sha256: and the SHA-256 of the uncompressed module in hexadecimal, the form
// of a pinned digest.
func Digest(module []byte) string {
	sum := sha256.Sum256(module)
	return "sha256:" + hex.EncodeToString(sum[:])
}
