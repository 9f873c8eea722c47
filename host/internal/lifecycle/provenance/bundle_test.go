package provenance_test

import (
	"crypto/sha256"
	"testing"

	bundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// The bundle is encoded by sigstore's own types, as cosign does it.
func TestBundleOfSigstoreIsAccepted(t *testing.T) {
	module := []byte("module")
	s := newSigner(t)
	sum := sha256.Sum256(module)
	stored, err := protojson.Marshal(&bundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &bundle.VerificationMaterial{
			Content:     &bundle.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{Hint: "hint"}},
			TlogEntries: []*rekor.TransparencyLogEntry{{LogIndex: 1, CanonicalizedBody: []byte("body")}},
		},
		Content: &bundle.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
			MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     s.sign(t, module),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newPolicy(t, nil, s.public)
	wantAllowed(t, p, module, stored)
	wantRefused(t, p, []byte("another"), stored, provenance.ReasonSignatureInvalid)
}
