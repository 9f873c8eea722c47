package source

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const (
	// slowRounds have a guess at a file take a tenth of a second or more.
	slowRounds = 600_000
	slowSalt   = "wasm-ccm: the configuration of a provider"
)

// keyedDigest names a configuration in a Secret by the Secret's UID, too: who
// may read a record, and not the Secret, cannot try what would have that name.
func keyedDigest(key string, config []byte) string {
	// Invariant S12 (host/SECURITY.md): no digest that is written down answers guesses.
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write(config) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

// slowDigest names the configuration of a file. The managers of a cluster have
// no secret in common that could be its key, so that a guess is only dear.
func slowDigest(config []byte) (string, error) {
	sum, err := pbkdf2.Key(sha256.New, string(config), []byte(slowSalt), slowRounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("name the configuration: %w", err)
	}
	return hex.EncodeToString(sum), nil
}

// setPrivate puts in a private configuration.
func (b *Bundle) setPrivate(config []byte, digest string) {
	b.Config, b.ConfigPrivate, b.private = config, true, digest
}
