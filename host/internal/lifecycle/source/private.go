package source

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const (
	// slowRounds make one guess at a file's content take a tenth of a second or more.
	slowRounds = 600_000
	slowSalt   = "wasm-ccm: the configuration of a provider"
)

// keyedDigest names a Secret's configuration with the Secret's UID as a key: a reader of a
// record without access to the Secret cannot test guesses.
func keyedDigest(key string, config []byte) string {
	// Invariant S12 (host/SECURITY.md): no recorded digest confirms a guess.
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write(config) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

// slowDigest names the configuration of a file. The managers of a cluster share no secret
// that could be its key, so a guess is only made expensive.
func slowDigest(config []byte) (string, error) {
	sum, err := pbkdf2.Key(sha256.New, string(config), []byte(slowSalt), slowRounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("name the configuration: %w", err)
	}
	return hex.EncodeToString(sum), nil
}

// setPrivate adds a private configuration.
func (b *Bundle) setPrivate(config []byte, digest string) {
	b.Config, b.ConfigPrivate, b.private = config, true, digest
}
