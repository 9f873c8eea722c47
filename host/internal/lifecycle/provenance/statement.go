package provenance

import (
	"fmt"
	"strings"
)

const (
	statementPayloadType = "application/vnd.in-toto+json"
	// signPredicate distinguishes a signature of an image from an attestation about it, as its
	// SBOM, which the same key may have made for an image that must not run.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	// maxPayload bounds the payload of an envelope, in bytes.
	maxPayload = 4 << 10
)

// statement has the fields used of an in-toto statement.
type statement struct {
	PredicateType string `json:"predicateType"`
	Subject       []struct {
		// Name is the repository, if the signer gave one.
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
}

// AddBundles adds the signatures of sigstore bundles, as cosign makes them since version 3.
// Other bundles and attestations are ignored. Certificates and log entries are dropped: the
// keys are pinned.
func (s *ImageSignatures) AddBundles(bundles [][]byte) {
	for _, data := range bundles {
		var b struct {
			MediaType    string `json:"mediaType"`
			DSSEEnvelope struct {
				Payload     []byte `json:"payload"`
				PayloadType string `json:"payloadType"`
				Signatures  []struct {
					Sig string `json:"sig"`
				} `json:"signatures"`
			} `json:"dsseEnvelope"`
		}
		if ReadJSON(data, &b) != nil || !strings.HasPrefix(b.MediaType, bundleMediaType) {
			continue
		}
		e := b.DSSEEnvelope
		if len(e.Signatures) != 1 || len(e.Payload) > maxPayload || len(e.Signatures[0].Sig) > 2*maxRaw {
			continue
		}
		one := ImageSignature{PayloadType: e.PayloadType, Payload: e.Payload, Base64: e.Signatures[0].Sig}
		if _, ok := statementClaims(one); ok {
			s.Signatures = append(s.Signatures, one)
		}
	}
}

// envelope returns the signed bytes of an envelope: DSSE's pre-authentication encoding.
func (s ImageSignature) envelope() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(s.PayloadType), s.PayloadType, len(s.Payload), s.Payload)
}

// statementClaims returns the claims about images in a statement of cosign.
func statementClaims(s ImageSignature) (claims []claim, ok bool) {
	var st statement
	if s.PayloadType != statementPayloadType || ReadJSON(s.Payload, &st) != nil || st.PredicateType != signPredicate {
		return nil, false
	}
	for _, subject := range st.Subject {
		if hex := subject.Digest["sha256"]; hex != "" {
			claims = append(claims, claim{subject.Name, "sha256:" + hex})
		}
	}
	return claims, true
}
