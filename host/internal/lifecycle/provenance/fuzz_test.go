package provenance_test

import (
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// FuzzBundles reads what lies in a registry beside an image: whatever it is, it
// is no signature of ours, also before the layer is fetched.
func FuzzBundles(f *testing.F) {
	module := []byte("\x00asm")
	s := newSigner(f)
	f.Add(annotated(module), s.bundleOf(f, "https://sigstore.dev/cosign/sign/v1", annotated(module)))
	f.Add(layered(module), []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{"signatures":[{}]}}`))
	policy := newPolicy(f, nil, newSigner(f).public)
	digest := provenance.Digest(module)
	f.Fuzz(func(t *testing.T, document, bundle []byte) {
		signatures := provenance.ImageSignatures{Document: document}
		signatures.AddBundles([][]byte{bundle, bundle})
		if policy.CheckImage(&signatures, digest) == nil {
			t.Fatal("a signature of nobody is accepted")
		}
		stored, err := signatures.Encode()
		if err == nil && policy.Check(module, stored) == nil {
			t.Fatal("a signature of nobody is accepted")
		}
	})
}

// FuzzKey reads a key of a configuration: what is taken verifies nothing that it
// has not signed.
func FuzzKey(f *testing.F) {
	f.Add(newSigner(f).public)
	f.Add("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := provenance.New(nil, []string{text})
		if err == nil && policy.Check([]byte("\x00asm"), []byte("AAAA")) == nil {
			t.Fatal("any signature is accepted")
		}
	})
}
