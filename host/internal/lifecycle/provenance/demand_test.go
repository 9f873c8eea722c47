package provenance_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

func demand(t *testing.T, p *provenance.Policy, repository, minimum string) *provenance.Policy {
	t.Helper()
	p, err := p.Demand(repository, minimum)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// versioned is a module whose manifest has that version.
func versioned(t *testing.T, version string) []byte {
	t.Helper()
	module, err := manifest.Append([]byte("\x00asm\x01\x00\x00\x00"), fmt.Appendf(nil, `{"name":"p","version":%q,"abi":{"min":1,"max":1},"ops":["instance_exists"]}`, version))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// An old module keeps its signature: only the demanded version stops it.
func TestAnOlderSignedModuleIsRefused(t *testing.T) {
	ours := newSigner(t)
	policy := newPolicy(t, nil, ours.public)
	for version, ok := range map[string]bool{
		"1.4.0": true, "v1.4.0": true, "1.4.1": true, "1.10.0": true, "2.0.0-rc.1": true, "1.4.0+build.7": true,
		"1.3.9": false, "1.4.0-rc.1": false, "0.9.0": false, "1.4": false, "latest": false, "99999999999999999999.0.0": false,
	} {
		t.Run(version, func(t *testing.T) {
			module := versioned(t, version)
			beside := []byte(base64.StdEncoding.EncodeToString(ours.sign(t, module)))
			of := ours.image(t, annotated(module)).encode(t)
			for _, signature := range [][]byte{beside, of} {
				wantAllowed(t, policy, module, signature)
				if ok {
					wantAllowed(t, demand(t, policy, "", "1.4.0"), module, signature)
					continue
				}
				if text := wantRefused(t, demand(t, policy, "", "1.4.0"), module, signature, provenance.ReasonVersionTooOld); !strings.Contains(text, `"`+version+`"`) || !strings.Contains(text, "minimumVersion") {
					t.Error(text)
				}
			}
		})
	}
	t.Run("a module without a manifest", func(t *testing.T) {
		module := []byte("\x00asm\x01\x00\x00\x00")
		wantRefused(t, demand(t, policy, "", "1.4.0"), module, []byte(base64.StdEncoding.EncodeToString(ours.sign(t, module))), provenance.ReasonVersionTooOld)
	})
}

// One key signs for several repositories, and one of them is demanded.
func TestAnImageOfAnotherRepositoryIsRefused(t *testing.T) {
	const sign = "https://sigstore.dev/cosign/sign/v1"
	module, ours := versioned(t, "1.0.0"), newSigner(t)
	document := annotated(module)
	policy := newPolicy(t, nil, ours.public)
	demanding := demand(t, policy, "registry.example.com/p", "")
	signed := func(identity string) image {
		i := ours.image(t, document)
		i.payload = []byte(strings.Replace(string(i.payload), "registry.example.com/p", identity, 1))
		i.signature = base64.StdEncoding.EncodeToString(ours.sign(t, i.payload))
		return i
	}
	for _, identity := range []string{"registry.example.com/p", "registry.example.com/p:v1", "registry.example.com/p@" + provenance.Digest(document)} {
		wantAllowed(t, demanding, module, signed(identity).encode(t))
	}
	for _, identity := range []string{"registry.example.com/q", "registry.example.com/p/q", "registry.example.com:5000/p", "example.com/p", "p", "", "registry.example.com/P", "registry.example.com/p "} {
		t.Run(identity, func(t *testing.T) {
			wantAllowed(t, policy, module, signed(identity).encode(t))
			if text := wantRefused(t, demanding, module, signed(identity).encode(t), provenance.ReasonSignatureInvalid); !strings.Contains(text, "provenance.repository") || !strings.Contains(text, "ccmctl push --key KEY module.wasm registry.example.com/p:TAG") {
				t.Error(text)
			}
		})
	}
	t.Run("beside the module", func(t *testing.T) {
		beside := []byte(base64.StdEncoding.EncodeToString(ours.sign(t, module)))
		wantAllowed(t, policy, module, beside)
		wantRefused(t, demanding, module, beside, provenance.ReasonSignatureInvalid)
		i := signed("registry.example.com/q")
		i.beside = beside
		wantRefused(t, demanding, module, i.encode(t), provenance.ReasonSignatureInvalid)
	})
	t.Run("a bundle", func(t *testing.T) {
		for name, want := range map[string]bool{"": false, "registry.example.com/q": false, "registry.example.com/p": true} {
			s := provenance.ImageSignatures{Document: document}
			s.AddBundles([][]byte{ours.namedBundle(t, sign, name, document)})
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			wantAllowed(t, policy, module, data)
			if want {
				wantAllowed(t, demanding, module, data)
			} else {
				wantRefused(t, demanding, module, data, provenance.ReasonSignatureInvalid)
			}
		}
	})
	t.Run("before its layer is fetched", func(t *testing.T) {
		s := &provenance.ImageSignatures{Document: document}
		i := signed("registry.example.com/q")
		s.Signatures = []provenance.ImageSignature{{Payload: i.payload, Base64: i.signature}}
		if policy.CheckImage(s, provenance.Digest(module)) != nil || demanding.CheckImage(s, provenance.Digest(module)) == nil {
			t.Error("what cannot pass is fetched, or the other way round")
		}
	})
}

func TestWhatCannotBeDemanded(t *testing.T) {
	for _, repository := range []string{"p", "registry.example.com/p:v1", "registry.example.com/p@sha256:" + strings.Repeat("0", 64), "https://registry.example.com/p", "registry.example.com/", "registry.example.com/../p", strings.Repeat("a", 300)} {
		if provenance.CheckRepository(repository) == nil {
			t.Errorf("%q is a repository", repository)
		}
	}
	for _, minimum := range []string{"1", "1.4", "x", "99999999999999999999.0.0"} {
		if provenance.CheckMinimum(minimum) == nil {
			t.Errorf("%q is a version", minimum)
		}
	}
}
