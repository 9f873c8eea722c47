package provenance

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha512" // for the signatures of larger keys
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

const (
	// maxKeyPEM bounds a key, in bytes; RSA of 8192 bits needs 1.5 KiB.
	maxKeyPEM  = 16 << 10
	minRSABits = 2048
	maxRSABits = 8192
)

// key is a public key with the ways in which cosign signs with it. A signature does not tell
// its way.
type key []way

// way is one way to verify a signature.
type way struct {
	verifier signature.Verifier
	// hash is the verifier's input in place of the message, 0 for the message itself.
	hash crypto.Hash
}

// signed reports whether a raw signature of the message is by this key.
func (k key) signed(m *message, raw []byte) bool {
	for _, w := range k {
		var opts []signature.VerifyOption
		switch {
		case w.hash == 0 && len(raw) != ed25519.SignatureSize:
			continue // saves hashing the module
		case w.hash != 0:
			opts = append(opts, options.WithDigest(m.digest(w.hash)))
		}
		if w.verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(m.content), opts...) == nil {
			return true
		}
	}
	return false
}

// parseKey never repeats its input in an error: it might be a private key.
func parseKey(text string) (key, error) {
	if len(text) > maxKeyPEM {
		return nil, fmt.Errorf("it is longer than %d bytes: write one public key in PEM", maxKeyPEM)
	}
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New(`it is not PEM: write the content of the public key's file, from "-----BEGIN PUBLIC KEY-----" on`)
	case block.Type != string(cryptoutils.PublicKeyPEMType):
		return nil, fmt.Errorf(`it is a block of another type than "PUBLIC KEY": write the public key as generate-key-pair of ccmctl or cosign, or openssl pkey -pubout, writes it`)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("something follows the key: make it an entry of its own, or remove it")
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is not a public key: %w", err)
	}
	return newKey(public)
}

func newKey(public crypto.PublicKey) (key, error) {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		return newECDSA(k)
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, fmt.Errorf("it is an RSA key of %d bits: use one of %d to %d", bits, minRSABits, maxRSABits)
		}
		// With exponent 1 every number is its own signature.
		if k.E < 3 || k.E%2 == 0 || k.N.Bit(0) == 0 {
			return nil, errors.New("it is an RSA key with an exponent below 3, or an even exponent or modulus, for which anybody can make signatures: generate another")
		}
		return load(public, crypto.SHA256)
	case ed25519.PublicKey:
		return newEd25519(k)
	}
	return nil, fmt.Errorf("it is a key of the type %T: use ECDSA, RSA or Ed25519", public)
}

// newECDSA tries SHA-256, which cosign uses for every curve, and the hash of the curve's
// size, which newer versions use.
func newECDSA(public *ecdsa.PublicKey) (key, error) {
	switch public.Curve {
	case elliptic.P256():
		return load(public, crypto.SHA256)
	case elliptic.P384():
		return load(public, crypto.SHA256, crypto.SHA384)
	case elliptic.P521():
		return load(public, crypto.SHA256, crypto.SHA512)
	}
	return nil, fmt.Errorf("it is an ECDSA key on %s: use P-256, P-384 or P-521", public.Params().Name)
}

// newEd25519 tries Ed25519, and Ed25519ph, which cosign uses for entries of a transparency
// log.
func newEd25519(public ed25519.PublicKey) (key, error) {
	// Invariant R5 (host/SECURITY.md): only the owner of a key of the policy can sign for it.
	if err := checkEd25519(public); err != nil {
		return nil, err
	}
	pure, err := signature.LoadED25519Verifier(public)
	if err != nil {
		return nil, err
	}
	prehashed, err := signature.LoadED25519phVerifier(public)
	if err != nil {
		return nil, err
	}
	return key{{pure, 0}, {prehashed, crypto.SHA512}}, nil
}

func load(public crypto.PublicKey, hashes ...crypto.Hash) (key, error) {
	var k key
	for _, hash := range hashes {
		verifier, err := signature.LoadVerifier(public, hash)
		if err != nil {
			return nil, err
		}
		k = append(k, way{verifier, hash})
	}
	return k, nil
}

// message is the signed content. It is hashed once for all keys, since modules are large.
type message struct {
	content []byte
	digests map[crypto.Hash][]byte
}

func newMessage(content []byte) *message {
	return &message{content: content, digests: map[crypto.Hash][]byte{}}
}

func (m *message) digest(hash crypto.Hash) []byte {
	if m.digests[hash] == nil {
		h := hash.New()
		_, _ = h.Write(m.content) // a hash has no errors
		m.digests[hash] = h.Sum(nil)
	}
	return m.digests[hash]
}
