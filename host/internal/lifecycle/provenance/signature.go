package provenance

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxRaw bounds the signature proper, in bytes: RSA of 8192 bits has 1024.
const maxRaw = 1024

// bundleMediaType is the prefix of the type of every bundle version.
const bundleMediaType = "application/vnd.dev.sigstore.bundle"

// bundle has the fields used of a sigstore bundle. Certificates, entries of a transparency
// log and timestamps prove a keyless signer; here the keys are pinned, so they are ignored.
type bundle struct {
	MediaType        string          `json:"mediaType"`
	DSSEEnvelope     json.RawMessage `json:"dsseEnvelope"`
	MessageSignature *struct {
		MessageDigest *messageDigest `json:"messageDigest"`
		Signature     []byte         `json:"signature"`
	} `json:"messageSignature"`
}

type messageDigest struct {
	Algorithm string `json:"algorithm"`
	Digest    []byte `json:"digest"`
}

// parseSignature returns the raw signature from the file beside the module.
func parseSignature(m *message, stored []byte) ([]byte, error) {
	if len(stored) > MaxSignature {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(stored), MaxSignature)
	}
	stored = bytes.TrimSpace(stored)
	var raw []byte
	var err error
	if bytes.HasPrefix(stored, []byte("{")) {
		raw, err = parseBundle(m, stored)
	} else {
		raw, err = parseBase64(stored)
	}
	switch {
	case err != nil:
		return nil, err
	case len(raw) == 0:
		return nil, errors.New("it is empty")
	case len(raw) > maxRaw:
		return nil, fmt.Errorf("it has %d bytes, more than a signature of any key", len(raw))
	}
	return raw, nil
}

// parseBase64 accepts white space anywhere, as the base64 command breaks lines.
func parseBase64(stored []byte) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(stored), nil)))
	if err != nil {
		return nil, errors.New("it is neither base64 nor a bundle of sigstore in JSON")
	}
	return raw, nil
}

func parseBundle(m *message, stored []byte) ([]byte, error) {
	var b bundle
	if err := ReadJSON(stored, &b); err != nil {
		return nil, fmt.Errorf("its bundle is not valid: %w", err)
	}
	switch {
	case !strings.HasPrefix(b.MediaType, bundleMediaType):
		return nil, errors.New("it is JSON, but no bundle of sigstore (cosign sign-blob --new-bundle-format --bundle FILE)")
	case b.DSSEEnvelope != nil:
		return nil, errors.New("its bundle is an attestation, not a signature of the module (cosign sign-blob makes one)")
	case b.MessageSignature == nil:
		return nil, errors.New("its bundle has no messageSignature")
	}
	if d := b.MessageSignature.MessageDigest; d != nil {
		if err := d.check(m); err != nil {
			return nil, err
		}
	}
	return b.MessageSignature.Signature, nil
}

// check distinguishes a signature of another module from one by another key. It proves
// nothing: the digest is not signed.
func (d *messageDigest) check(m *message) error {
	hashes := map[string]crypto.Hash{"SHA2_256": crypto.SHA256, "SHA2_384": crypto.SHA384, "SHA2_512": crypto.SHA512}
	hash, ok := hashes[d.Algorithm]
	if !ok {
		return errors.New("the algorithm of its messageDigest is none of SHA2_256, SHA2_384 and SHA2_512")
	}
	if !bytes.Equal(d.Digest, m.digest(hash)) {
		return errors.New("its bundle signs another module (messageDigest)")
	}
	return nil
}
