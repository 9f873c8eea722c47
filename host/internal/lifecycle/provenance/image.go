package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

const (
	mediaTypeImageSignatures = "application/vnd.wasm-ccm.image-signatures.v1+json"
	// payloadType is cosign's type of an image's signed payload.
	payloadType = "cosign container image signature"
	// maxImageSignatures bounds the signatures that are verified.
	maxImageSignatures = 16

	// AnnotationModule is the annotation of an image's manifest, or index, with
	// the digest of the module.
	AnnotationModule = "dev.wasm-ccm.module.digest"
)

// ImageSignatures are the signatures of a module's image, with everything needed to verify
// them without the registry, which may be unreachable when the manager restarts.
type ImageSignatures struct {
	MediaType string `json:"mediaType"`
	// Document is the manifest or the index of the image; its digest is signed. It names the
	// module by AnnotationModule, or has it as a layer.
	Document   []byte           `json:"document"`
	Signatures []ImageSignature `json:"signatures"`
	// Beside is the signature of the module itself, from the file beside it; nil: none.
	Beside []byte `json:"beside,omitempty"`
}

// ImageSignature is one of cosign: base64 of a signature of the payload, or of
// an envelope (DSSE) with the payload.
type ImageSignature struct {
	// PayloadType is an envelope's, "" without one.
	PayloadType string `json:"payloadType,omitempty"`
	Payload     []byte `json:"payload"`
	Base64      string `json:"base64"`
}

// Encode returns the signature of a module in the form that Check takes.
func (s ImageSignatures) Encode() ([]byte, error) {
	s.MediaType = mediaTypeImageSignatures
	data, err := json.Marshal(s)
	if err == nil && len(data) > MaxSignature {
		err = fmt.Errorf("the manifest of the image and its signatures have more than %d bytes together: remove old signatures, or write a smaller manifest (ccmctl push)", MaxSignature)
	}
	return data, err
}

// Payload returns cosign's payload for the signature of an image.
func Payload(repository, image string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = repository, image, payloadType
	return json.Marshal(p)
}

// payload is Red Hat's "simple signing", which cosign signs.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional json.RawMessage `json:"optional"`
}

// decodeImageSignatures returns nil for a signature of another kind.
func decodeImageSignatures(stored []byte) *ImageSignatures {
	var s ImageSignatures
	if len(stored) > MaxSignature || ReadJSON(stored, &s) != nil || s.MediaType != mediaTypeImageSignatures {
		return nil
	}
	return &s
}

// CheckImage returns an *Error if no module of the image can pass Check, so that its layer
// need not be fetched. Artifact is the digest of a layer that is the module itself, "" for
// an archive: the signature may lie in the archive beside the module, which is known only
// after opening the layer.
func (p *Policy) CheckImage(s *ImageSignatures, artifact string) error {
	module := artifact
	if module == "" {
		module = annotated(s.Document)
	}
	if module != "" && len(p.digests) > 0 && !p.digests[module] {
		return notPinned(module)
	}
	if len(p.keys) == 0 || artifact == "" {
		return nil
	}
	if len(s.Signatures) == 0 {
		return p.unsigned(artifact)
	}
	if err := p.verifySignatures(artifact, s); err != nil {
		return p.wrongly(artifact, err)
	}
	return nil
}

// verifyImage accepts the signature beside the module, or one of the image: key, payload,
// digest of the manifest and digest of the module must form a chain.
func (p *Policy) verifyImage(m *message, s *ImageSignatures) error {
	module := Digest(m.content)
	if s.Beside == nil {
		return p.verifySignatures(module, s)
	}
	beside := p.verifyModule(m, s.Beside)
	if beside == nil {
		return nil
	}
	image := p.verifySignatures(module, s)
	if image == nil {
		return nil
	}
	return fmt.Errorf("beside the module: %w; %w", beside, image)
}

// verifySignatures requires one valid signature of the image.
func (p *Policy) verifySignatures(module string, s *ImageSignatures) error {
	// Invariant I6 (host/SECURITY.md): a signature of an image covers this module only if the
	// signed manifest names it.
	if err := namesModule(s.Document, module); err != nil {
		return fmt.Errorf("of the image: %w", err)
	}
	image, err := Digest(s.Document), errors.New("there is none")
	for _, one := range s.Signatures[:min(len(s.Signatures), maxImageSignatures)] {
		if err = p.verifyPayload(one, image); err == nil {
			return nil
		}
	}
	return fmt.Errorf("of the image: %w", err)
}

// annotated returns the digest in the annotation of a manifest or an index, "" without one.
func annotated(document []byte) string {
	var d struct {
		Annotations map[string]string `json:"annotations"`
	}
	if ReadJSON(document, &d) != nil || CheckDigest(d.Annotations[AnnotationModule]) != nil {
		return ""
	}
	return d.Annotations[AnnotationModule]
}

// namesModule returns an error unless a manifest, or an index, names the module.
func namesModule(document []byte, module string) error {
	var d struct {
		Annotations map[string]string `json:"annotations"`
		Layers      []struct {
			Digest string `json:"digest"`
		} `json:"layers"`
	}
	if err := ReadJSON(document, &d); err != nil {
		return fmt.Errorf("its manifest is not valid: %w", err)
	}
	if named, ok := d.Annotations[AnnotationModule]; ok {
		if named != module {
			return errors.New("its manifest names another module (annotation " + AnnotationModule + ")")
		}
		return nil
	}
	for _, layer := range d.Layers {
		if layer.Digest == module {
			return nil
		}
	}
	return errors.New("its manifest does not name the module: push the image with ccmctl push, or with the annotation " + AnnotationModule + ", and sign it again")
}

// verifyPayload verifies one signature, and that it covers the image.
func (p *Policy) verifyPayload(s ImageSignature, image string) error {
	message, claims := s.Payload, simpleClaims
	if s.PayloadType != "" {
		message, claims = s.envelope(), statementClaims
	}
	raw, err := parseBase64([]byte(s.Base64))
	switch {
	case err != nil:
		return err
	case len(raw) > maxRaw:
		return fmt.Errorf("it has %d bytes, more than a signature of any key", len(raw))
	case !p.signed(newMessage(message), raw):
		return p.untrusted("this image")
	}
	signed, ok := claims(s)
	if !ok {
		return errors.New("it is not the signature of an image")
	}
	// Invariant R17 (host/SECURITY.md): one key may sign for several repositories.
	return p.checkClaims(signed, image)
}

// simpleClaims returns the claim about the image in a payload.
func simpleClaims(s ImageSignature) ([]claim, bool) {
	var p payload
	if ReadJSON(s.Payload, &p) != nil || p.Critical.Type != payloadType {
		return nil, false
	}
	return []claim{{p.Critical.Identity.Reference, p.Critical.Image.Digest}}, true
}

// signed reports whether one of the keys has signed the message.
func (p *Policy) signed(m *message, raw []byte) bool {
	return slices.ContainsFunc(p.keys, func(k key) bool { return k.signed(m, raw) })
}

func (p *Policy) untrusted(what string) error {
	return fmt.Errorf("it was not made over %s with a trusted key (%d are configured)", what, len(p.keys))
}
