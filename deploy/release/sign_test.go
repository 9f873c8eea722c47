package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/imagetest"
)

func TestEveryKindOfKeySignsTheSameAgain(t *testing.T) {
	tests := map[string]struct{ make, verify string }{
		"ECDSA":   {"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem", "openssl dgst -sha256 -verify public.pem -signature raw content"},
		"P-384":   {"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out key.pem", "openssl dgst -sha256 -verify public.pem -signature raw content"},
		"SEC 1":   {"openssl ecparam -name prime256v1 -genkey -noout -out key.pem", "openssl dgst -sha256 -verify public.pem -signature raw content"},
		"RSA":     {"openssl genrsa -out key.pem 2048", "openssl dgst -sha256 -verify public.pem -signature raw content"},
		"Ed25519": {"openssl genpkey -algorithm ed25519 -out key.pem", "openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in content -sigfile raw"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if said, err := runIn(t, dir, "sh", "-ec", test.make+"; openssl pkey -in key.pem -pubout -out public.pem; printf content >content"); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			first, second := signed(t, filepath.Join(dir, "key.pem")), signed(t, filepath.Join(dir, "key.pem"))
			if first != second {
				t.Errorf("the signatures %s and %s of the same content differ", first, second)
			}
			if said, err := runIn(t, dir, "sh", "-ec", "echo "+first+" | base64 -d >raw; "+test.verify); err != nil {
				t.Errorf("openssl: %v: %s", err, said)
			}
		})
	}
}

// A key of cosign, or of ccmctl with a password, is encrypted.
func TestEncryptedKey(t *testing.T) {
	password := func(bool) ([]byte, error) { return []byte("password"), nil }
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), password)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(key, private, 0o600), os.WriteFile(filepath.Join(dir, "public.pem"), public, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := newSigner(key); err == nil || !strings.Contains(err.Error(), "set COSIGN_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
	t.Setenv("COSIGN_PASSWORD", "another")
	if _, err := newSigner(key); err == nil || strings.Contains(err.Error(), "another") {
		t.Errorf("with another password: %v", err)
	}
	t.Setenv("COSIGN_PASSWORD", "password")
	raw, err := base64.StdEncoding.DecodeString(signed(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier(t, key).VerifySignature(bytes.NewReader(raw), strings.NewReader("content")); err != nil {
		t.Errorf("the signature: %v", err)
	}
}

func signed(t *testing.T, key string) string {
	t.Helper()
	s, err := newSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.sign([]byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// It is stored as cosign stores it, and verified as cosign verifies it.
func TestSignatureOfTheImage(t *testing.T) {
	key := newKey(t)
	out := packed(t, fakeParts(t), key)
	_, index := openIndex(t, filepath.Join(out, "cloud-controller-manager-v1.2.3.oci.tar"))
	archive, d := imagetest.Open(t, filepath.Join(out, "cloud-controller-manager-v1.2.3.sig.oci.tar"))
	if got, want := d.Annotations["org.opencontainers.image.ref.name"], "sha256-"+index.Hex+".sig"; got != want {
		t.Errorf("the tag of the signature is %s, want %s", got, want)
	}
	image, err := archive.Image(d.Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	payload, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier(t, key).VerifySignature(bytes.NewReader(raw), bytes.NewReader(payload)); err != nil {
		t.Errorf("the signature: %v", err)
	}
	var said struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &said); err != nil || said.Critical.Image.Digest != index.String() {
		t.Errorf("signed is %s (%v), want %s", payload, err, index)
	}
}

func verifier(t *testing.T, key string) signature.Verifier {
	t.Helper()
	text, err := os.ReadFile(strings.Replace(key, "key.pem", "public.pem", 1))
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
