package main

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/image"
)

// passwordVariable is where cosign takes the password of a key from, too.
const passwordVariable = "COSIGN_PASSWORD"

// signer signs as cosign and ccmctl do. The same content has the same
// signature, by every kind of key.
type signer struct {
	key    crypto.Signer
	verify signature.Verifier
}

// newSigner reads a key of cosign, openssl or ccmctl; nil without a file. Its
// errors do not quote the file.
func newSigner(file string) (*signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the key: %w: make one with ccmctl generate-key-pair", err)
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) {
		password, ok := os.LookupEnv(passwordVariable)
		if !ok {
			return nil, errors.New("it is encrypted: set " + passwordVariable)
		}
		return []byte(password), nil
	})
	if err != nil {
		return nil, fmt.Errorf("the key %s cannot be read: %w", file, err)
	}
	key, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key %s cannot sign: use ECDSA, RSA or Ed25519", file)
	}
	verify, err := signature.LoadVerifier(key.Public(), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("the key %s: %w: use ECDSA, RSA or Ed25519", file, err)
	}
	return &signer{key, verify}, nil
}

// sign returns the signature in base64.
func (s *signer) sign(content []byte) (string, error) {
	message, hash := content, crypto.Hash(0)
	if _, ok := s.key.Public().(ed25519.PublicKey); !ok {
		h := crypto.SHA256.New()
		_, _ = h.Write(content)
		message, hash = h.Sum(nil), crypto.SHA256
	}
	// Without a source of chance ECDSA is deterministic, by RFC 6979.
	raw, err := s.key.Sign(nil, message, hash)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	if err := s.verify.VerifySignature(bytes.NewReader(raw), bytes.NewReader(content)); err != nil {
		return "", fmt.Errorf("the new signature does not verify: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// signAll signs the checksums, which cover every file; each module, since the
// manager can demand it; and the index, since a registry has no file of checksums.
func (p packer) signAll(digest string) error {
	if p.sign == nil {
		return nil
	}
	for _, file := range append(modules(), checksums) {
		content, err := os.ReadFile(filepath.Join(p.out, file))
		if err != nil {
			return err
		}
		text, err := p.sign.sign(content)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := p.write(file+".sig", []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return p.signImage(digest)
}

func (p packer) signImage(digest string) error {
	reference, err := name.NewDigest(p.image + "@" + digest)
	if err != nil {
		return err
	}
	text, err := payload.Cosign{Image: reference}.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := p.sign.sign(text)
	if err != nil {
		return err
	}
	stored, err := image.Signature(text, signed)
	if err != nil {
		return err
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return err
	}
	_, err = image.WriteImage(filepath.Join(p.out, manager+"-"+p.version+".sig.oci.tar"), stored, p.image, image.SignatureTag(hash))
	return err
}
