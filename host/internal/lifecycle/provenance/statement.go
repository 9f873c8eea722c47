package provenance

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	statementPayloadType = "application/vnd.in-toto+json"
	// signPredicate tells a signature of an image from an attestation about it,
	// as its SBOM, which the same key may have made of an image that nobody
	// wants to run.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	// maxPayload bounds the payload of an envelope, in bytes.
	maxPayload = 4 << 10
)

// statement is what is read of one of in-toto.
type statement struct {
	PredicateType string `json:"predicateType"`
	Subject       []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
}

// AddBundles adds the signatures of bundles of sigstore, as cosign has made them
// since its version 3. Others, and attestations, are left out. Certificates and
// entries of a log are not kept: the keys are pinned.
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
		if json.Unmarshal(data, &b) != nil || !strings.HasPrefix(b.MediaType, bundleMediaType) {
			continue
		}
		e := b.DSSEEnvelope
		if len(e.Signatures) != 1 || len(e.Payload) > maxPayload || len(e.Signatures[0].Sig) > 2*maxRaw {
			continue
		}
		one := ImageSignature{PayloadType: e.PayloadType, Payload: e.Payload, Base64: e.Signatures[0].Sig}
		if _, ok := statementDigests(one); ok {
			s.Signatures = append(s.Signatures, one)
		}
	}
}

// envelope is what is signed of an envelope: DSSE's pre-authentication encoding.
func (s ImageSignature) envelope() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(s.PayloadType), s.PayloadType, len(s.Payload), s.Payload)
}

// statementDigests are of the images that a statement of cosign is about.
func statementDigests(s ImageSignature) (digests []string, ok bool) {
	var st statement
	if s.PayloadType != statementPayloadType || json.Unmarshal(s.Payload, &st) != nil || st.PredicateType != signPredicate {
		return nil, false
	}
	for _, subject := range st.Subject {
		if hex := subject.Digest["sha256"]; hex != "" {
			digests = append(digests, "sha256:"+hex)
		}
	}
	return digests, true
}
