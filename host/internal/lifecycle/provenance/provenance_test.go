package provenance_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func newPolicy(t testing.TB, digests []string, keys ...string) *provenance.Policy {
	t.Helper()
	p, err := provenance.New(digests, keys)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantAllowed(t testing.TB, p *provenance.Policy, module, signature []byte) {
	t.Helper()
	if err := p.Check(module, signature); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
}

// wantRefused returns the error's text.
func wantRefused(t testing.TB, p *provenance.Policy, module, signature []byte, reason string) string {
	t.Helper()
	err := p.Check(module, signature)
	var refused *provenance.Error
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Fatalf("Check = %v, want an *Error with the reason %s", err, reason)
	}
	if !strings.Contains(err.Error(), provenance.Digest(module)) {
		t.Errorf("the error does not name the digest that was found: %v", err)
	}
	return err.Error()
}

// signer is a key on P-256.
type signer struct {
	private *ecdsa.PrivateKey
	public  string
}

func newSigner(t testing.TB) signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{private, publicPEM(t, private.Public())}
}

func (s signer) sign(t testing.TB, module []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(module)
	raw, err := ecdsa.SignASN1(rand.Reader, s.private, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func publicPEM(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func base64Of(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func TestPolicy(t *testing.T) {
	module := []byte("module")
	a, b := newSigner(t), newSigner(t)
	pinned := []string{provenance.Digest([]byte("another")), provenance.Digest(module)}
	other := pinned[:1]
	byA, byB := []byte(base64Of(a.sign(t, module))), []byte(base64Of(b.sign(t, module)))
	tests := map[string]struct {
		digests   []string
		keys      []string
		signature []byte
		reason    string
	}{
		"nothing demanded":                  {},
		"nothing demanded, a bad signature": {signature: []byte("!")},
		"pinned":                            {digests: pinned},
		"pinned, a bad signature":           {digests: pinned, signature: []byte("!")},
		"not pinned":                        {digests: other, reason: provenance.ReasonDigestNotPinned},
		"signed":                            {keys: []string{b.public, a.public}, signature: byA},
		"not signed":                        {keys: []string{a.public}, reason: provenance.ReasonSignatureMissing},
		"signed by another":                 {keys: []string{a.public}, signature: byB, reason: provenance.ReasonSignatureInvalid},
		"pinned and signed":                 {digests: pinned, keys: []string{a.public}, signature: byA},
		"pinned, not signed":                {digests: pinned, keys: []string{a.public}, reason: provenance.ReasonSignatureMissing},
		"pinned, signed by another":         {digests: pinned, keys: []string{a.public}, signature: byB, reason: provenance.ReasonSignatureInvalid},
		"signed, not pinned":                {digests: other, keys: []string{a.public}, signature: byA, reason: provenance.ReasonDigestNotPinned},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(t, test.digests, test.keys...)
			if test.reason == "" {
				wantAllowed(t, p, module, test.signature)
				return
			}
			text := wantRefused(t, p, module, test.signature, test.reason)
			if test.reason != provenance.ReasonDigestNotPinned && !strings.Contains(text, "ccmctl sign --key KEY module.wasm") {
				t.Errorf("the error does not say how to mend it: %s", text)
			}
			for _, secret := range append(other, a.public, b.public) {
				if strings.Contains(text, secret) {
					t.Errorf("the error tells what is pinned: %s", text)
				}
			}
		})
	}
}

func TestDigest(t *testing.T) {
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := provenance.Digest(nil); got != empty {
		t.Errorf("Digest of nothing = %s, want %s", got, empty)
	}
}

// cosign signs so what goes into a transparency log.
func TestEd25519ph(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	module := []byte("module")
	sum := sha512.Sum512(module)
	raw, err := private.Sign(nil, sum[:], &ed25519.Options{Hash: crypto.SHA512})
	if err != nil {
		t.Fatal(err)
	}
	p := newPolicy(t, nil, publicPEM(t, public))
	wantAllowed(t, p, module, []byte(base64Of(raw)))
	wantRefused(t, p, []byte("another"), []byte(base64Of(raw)), provenance.ReasonSignatureInvalid)
}

func bundleOf(mediaType, algorithm string, digest, raw []byte) string {
	return fmt.Sprintf(`{"mediaType": %q, "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": [{"logIndex": "1"}]},
		"messageSignature": {"messageDigest": {"algorithm": %q, "digest": %q}, "signature": %q}}`, mediaType, algorithm, base64Of(digest), base64Of(raw))
}

func TestSignatureForms(t *testing.T) {
	module := []byte("module")
	s := newSigner(t)
	raw := s.sign(t, module)
	text := base64Of(raw)
	sum, sum512, wrong := sha256.Sum256(module), sha512.Sum512(module), sha256.Sum256([]byte("another"))
	const v3 = "application/vnd.dev.sigstore.bundle.v0.3+json"
	tests := map[string]struct{ stored, err string }{
		"base64":                      {stored: text},
		"base64 with white space":     {stored: " \r\n" + text[:10] + "\n" + text[10:] + "\r\n\t"},
		"bundle":                      {stored: bundleOf(v3, "SHA2_256", sum[:], raw)},
		"bundle with white space":     {stored: "\n " + bundleOf(v3, "SHA2_256", sum[:], raw) + "\n"},
		"bundle with SHA-512":         {stored: bundleOf(v3, "SHA2_512", sum512[:], raw)},
		"bundle of cosign 2":          {stored: bundleOf("application/vnd.dev.sigstore.bundle+json;version=0.1", "SHA2_256", sum[:], raw)},
		"bundle without a digest":     {stored: `{"mediaType": "` + v3 + `", "messageSignature": {"signature": "` + text + `"}}`},
		"bundle of another module":    {stored: bundleOf(v3, "SHA2_256", wrong[:], raw), err: "signs another module"},
		"bundle with a truncated sum": {stored: bundleOf(v3, "SHA2_256", nil, raw), err: "signs another module"},
		"bundle with MD5":             {stored: bundleOf(v3, "MD5", sum[:], raw), err: "none of SHA2_256"},
		"bundle with a wrong one":     {stored: bundleOf(v3, "SHA2_256", sum[:], append([]byte{1}, raw...)), err: "not made over this module"},
		"bundle without a signature":  {stored: `{"mediaType": "` + v3 + `"}`, err: "no messageSignature"},
		"bundle with an empty one":    {stored: bundleOf(v3, "SHA2_256", sum[:], nil), err: "it is empty"},
		"attestation":                 {stored: `{"mediaType": "` + v3 + `", "dsseEnvelope": {}}`, err: "attestation"},
		"JSON of another kind":        {stored: `{"base64Signature": "` + text + `"}`, err: "no bundle of sigstore"},
		"JSON that ends":              {stored: `{"mediaType": `, err: "not valid"},
		"JSON of other types":         {stored: `{"mediaType": 1}`, err: "not valid"},
		"white space":                 {stored: " \n", err: "it is empty"},
		"raw":                         {stored: string(raw), err: "neither base64 nor"},
		"base64 without padding":      {stored: text + "A", err: "neither base64 nor"},
		"two":                         {stored: text + "\n" + text, err: "sign it again"},
		"another point":               {stored: base64Of(append(bytes.Clone(raw[:len(raw)-1]), raw[len(raw)-1]^1)), err: "not made over this module"},
		"zeros":                       {stored: base64Of(make([]byte, 64)), err: "not made over this module"},
		"long":                        {stored: base64Of(make([]byte, 1025)), err: "more than a signature of any key"},
		"huge":                        {stored: strings.Repeat("A", provenance.MaxSignature+1), err: "more than 65536"},
		"deep":                        {stored: strings.Repeat(`{"a":`, 12000), err: "not valid"},
	}
	p := newPolicy(t, nil, s.public)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.err == "" {
				wantAllowed(t, p, module, []byte(test.stored))
				return
			}
			got := wantRefused(t, p, module, []byte(test.stored), provenance.ReasonSignatureInvalid)
			if !strings.Contains(got, test.err) || len(got) > 600 || strings.Contains(got, "\n") {
				t.Errorf("error %q, want one short line with %q", got, test.err)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	rsaKey := func(bits int) string {
		t.Setenv("GODEBUG", "rsa1024min=0")
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return publicPEM(t, k.Public())
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := newSigner(t)
	private, err := x509.MarshalPKCS8PrivateKey(s.private)
	if err != nil {
		t.Fatal(err)
	}
	privateText := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	tests := map[string]struct{ key, err string }{
		"empty":       {"", "it is not PEM"},
		"garbage":     {"garbage", "it is not PEM"},
		"private":     {privateText, "another type"},
		"two":         {s.public + s.public, "something follows"},
		"broken":      {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a public key"},
		"long":        {strings.Repeat("x", 17<<10), "longer than"},
		"RSA of 1024": {rsaKey(1024), "RSA key of 1024 bits"},
		"P-224":       {publicPEM(t, p224.Public()), "on P-224"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := provenance.New(nil, []string{s.public, test.key})
			if err == nil || !strings.Contains(err.Error(), "publicKeys[1]: ") || !strings.Contains(err.Error(), test.err) {
				t.Fatalf("New = %v, want publicKeys[1]: ... %s", err, test.err)
			}
			if line := strings.Split(privateText, "\n")[1]; strings.Contains(err.Error(), line) {
				t.Errorf("the error tells a private key")
			}
		})
	}
}

func TestNewJoinsMistakes(t *testing.T) {
	valid := provenance.Digest(nil)
	_, err := provenance.New([]string{"sha256:abc", valid, strings.ToUpper(valid), strings.TrimPrefix(valid, "sha256:"), valid + "\n"}, []string{"x", newSigner(t).public, "y"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, place := range []string{"digests[0]: ", "digests[2]: ", "digests[3]: ", "digests[4]: ", "publicKeys[0]: ", "publicKeys[2]: "} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%s is missing in %q", place, err)
		}
	}
	if strings.Contains(err.Error(), "digests[1]") || strings.Contains(err.Error(), "publicKeys[1]") {
		t.Errorf("a valid entry is refused: %v", err)
	}
	many := make([]string, provenance.MaxEntries+1)
	_, err = provenance.New(many, many)
	if err == nil || !strings.Contains(err.Error(), "digests: there are 65") || !strings.Contains(err.Error(), "publicKeys: there are 65") {
		t.Errorf("New with 65 of each = %v", err)
	}
}

func TestCheckIsConcurrent(t *testing.T) {
	module := []byte("module")
	s := newSigner(t)
	p := newPolicy(t, []string{provenance.Digest(module)}, s.public)
	signature := []byte(base64Of(s.sign(t, module)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantAllowed(t, p, module, signature) })
	}
	wg.Wait()
}

// No signature is one of a module that nobody has signed.
func FuzzCheck(f *testing.F) {
	module := []byte("module")
	s := newSigner(f)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	p := newPolicy(f, nil, s.public, publicPEM(f, public))
	raw, sum := s.sign(f, module), sha256.Sum256(module)
	f.Add([]byte(base64Of(raw)))
	f.Add([]byte(bundleOf("application/vnd.dev.sigstore.bundle.v0.3+json", "SHA2_256", sum[:], raw)))
	f.Add([]byte(base64Of(make([]byte, ed25519.SignatureSize))))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle","messageSignature":{}}`))
	f.Fuzz(func(t *testing.T, signature []byte) {
		err := p.Check([]byte("another"), signature)
		var refused *provenance.Error
		if !errors.As(err, &refused) {
			t.Fatalf("Check = %v for a module that nobody has signed", err)
		}
		if len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") {
			t.Fatalf("an error of %d bytes: %q", len(err.Error()), err)
		}
		_ = p.Check(module, signature)
	})
}
