package v1alpha1

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateRollout(r Rollout, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, mode(path.Child("probe"), r.Probe)...)
	errs = append(errs, mode(path.Child("shadow"), r.Shadow)...)
	errs = append(errs, mode(path.Child("observe"), r.Observe)...)
	errs = append(errs, between(path.Child("shadowSamples"), r.ShadowSamples, 1, 1000)...)
	errs = append(errs, between(path.Child("observePeriod"), r.ObservePeriod.Duration, time.Second, 24*time.Hour)...)
	budget := path.Child("errorBudget")
	errs = append(errs, betweenPointer(budget.Child("failures"), r.ErrorBudget.Failures, 0, 1_000_000)...)
	return append(errs, betweenPointer(budget.Child("percent"), r.ErrorBudget.Percent, 0, 100)...)
}

func mode(path *field.Path, m PhaseMode) field.ErrorList {
	switch m {
	case PhaseRequired, PhaseAllowed, PhaseOff:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, m, []PhaseMode{PhaseRequired, PhaseAllowed, PhaseOff})}
}

func betweenPointer(path *field.Path, value *int, low, high int) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return between(path, *value, low, high)
}

func validateProvenance(p Provenance, path *field.Path) (errs field.ErrorList) {
	digests, keys := path.Child("digests"), path.Child("publicKeys")
	if len(p.Digests) > maxProvenance {
		return field.ErrorList{field.TooMany(digests, len(p.Digests), maxProvenance)}
	}
	if len(p.PublicKeys) > maxProvenance {
		return field.ErrorList{field.TooMany(keys, len(p.PublicKeys), maxProvenance)}
	}
	for i, digest := range p.Digests {
		if !isDigest(digest) {
			errs = append(errs, field.Invalid(digests.Index(i), digest, "must be sha256: and 64 digits of lower-case hexadecimal, of the uncompressed module"))
		}
	}
	for i, key := range p.PublicKeys {
		// The text is not repeated: it may be a private key by mistake.
		if err := checkPublicKey(key); err != nil {
			errs = append(errs, field.Invalid(keys.Index(i), "...", err.Error()))
		}
	}
	return errs
}

func isDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 2*sha256.Size && strings.Trim(hex, "0123456789abcdef") == ""
}

// checkPublicKey wants one block, so that no key is overlooked.
func checkPublicKey(text string) error {
	block, rest := pem.Decode([]byte(text))
	switch {
	case len(text) > maxKeyPEM:
		return fmt.Errorf("is longer than %d bytes: give one public key in PEM", maxKeyPEM)
	case block == nil:
		return errors.New("must be a public key in PEM, beginning with -----BEGIN PUBLIC KEY-----")
	case block.Type != "PUBLIC KEY":
		return fmt.Errorf("is a %.40q: give the public key, which begins with -----BEGIN PUBLIC KEY-----", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return errors.New("has more than one key: give each an entry of its own")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return errors.New("the public key cannot be parsed: it must be PKIX, as `openssl pkey -pubout` writes it")
	}
	return checkKind(key)
}

// checkKind takes the kinds that signatures are verified with.
func checkKind(key any) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P224() {
			return errors.New("is an ECDSA key on P-224: give one on P-256, P-384 or P-521")
		}
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("is an RSA key of %d bits: give one of %d to %d", bits, minRSABits, maxRSABits)
		}
		return nil
	}
	return fmt.Errorf("is a key of the kind %T: give one of ECDSA, Ed25519 or RSA", key)
}
