package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

const (
	mediaTypeImageSignatures = "application/vnd.wasm-ccm.image-signatures.v1+json"
	// payloadType is what cosign calls what it signs of an image.
	payloadType = "cosign container image signature"
	// maxImageSignatures bounds those that are looked at.
	maxImageSignatures = 16

	// AnnotationModule is the annotation of an image's manifest, or index, with
	// the digest of the module.
	AnnotationModule = "dev.wasm-ccm.module.digest"
)

// ImageSignatures are the signatures of an image that a module was in, with all
// that is needed to verify them without the registry: it may be away when the
// manager is started again.
type ImageSignatures struct {
	MediaType string `json:"mediaType"`
	// Document is the manifest or the index of the image, whose digest is
	// signed. It names the module by AnnotationModule, or has it as a layer.
	Document   []byte           `json:"document"`
	Signatures []ImageSignature `json:"signatures"`
	// Beside is the signature of the module itself, as it lies beside it; nil:
	// there is none.
	Beside []byte `json:"beside,omitempty"`
}

// ImageSignature is one of cosign: base64 of a signature of the payload, or of
// an envelope (DSSE) with the payload.
type ImageSignature struct {
	// PayloadType is that of an envelope, and "" without one.
	PayloadType string `json:"payloadType,omitempty"`
	Payload     []byte `json:"payload"`
	Base64      string `json:"base64"`
}

// Encode returns what Check takes as the signature of a module.
func (s ImageSignatures) Encode() ([]byte, error) {
	s.MediaType = mediaTypeImageSignatures
	data, err := json.Marshal(s)
	if err == nil && len(data) > MaxSignature {
		err = fmt.Errorf("the manifest of the image and its signatures have more than %d bytes together: remove old signatures, or write a smaller manifest (ccmctl push)", MaxSignature)
	}
	return data, err
}

// Payload returns what a signature of an image is of, as cosign has it.
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
	Optional map[string]any `json:"optional"`
}

// decodeImageSignatures returns nil for a signature of another kind.
func decodeImageSignatures(stored []byte) *ImageSignatures {
	var s ImageSignatures
	if len(stored) > MaxSignature || json.Unmarshal(stored, &s) != nil || s.MediaType != mediaTypeImageSignatures {
		return nil
	}
	return &s
}

// CheckImage returns an *Error when no module of the image can pass Check, so that
// its layer need not be fetched. Artifact is the digest of a layer that is the
// module itself, "" of an archive: the signature may lie in there beside the
// module, which is known only when the layer was opened.
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
		return unsigned(artifact)
	}
	if err := p.verifySignatures(artifact, s); err != nil {
		return wrongly(artifact, err)
	}
	return nil
}

// verifyImage takes the signature beside the module, or one of the image: then
// key, payload, digest of the manifest, digest of the module hang together.
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

// verifySignatures wants one of those of the image to be good: none is an error.
func (p *Policy) verifySignatures(module string, s *ImageSignatures) error {
	// Invariant I6 (host/SECURITY.md): a signature of an image is one of this module only if the
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

// annotated is the digest of the module that a manifest, or an index, names by
// its annotation, "" when it names none.
func annotated(document []byte) string {
	var d struct {
		Annotations map[string]string `json:"annotations"`
	}
	if json.Unmarshal(document, &d) != nil || CheckDigest(d.Annotations[AnnotationModule]) != nil {
		return ""
	}
	return d.Annotations[AnnotationModule]
}

// namesModule reports whether a manifest, or an index, is about a module.
func namesModule(document []byte, module string) error {
	var d struct {
		Annotations map[string]string `json:"annotations"`
		Layers      []struct {
			Digest string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return errors.New("its manifest is not valid JSON")
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

// verifyPayload verifies one signature, and that it is of that image.
func (p *Policy) verifyPayload(s ImageSignature, image string) error {
	message, digests := s.Payload, simpleDigests
	if s.PayloadType != "" {
		message, digests = s.envelope(), statementDigests
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
	signed, ok := digests(s)
	switch {
	case !ok:
		return errors.New("it is of something else than an image")
	case !slices.Contains(signed, image):
		return fmt.Errorf("it is of another image than %s", image)
	}
	return nil
}

// simpleDigests are of the image that a payload names.
func simpleDigests(s ImageSignature) ([]string, bool) {
	var p payload
	if json.Unmarshal(s.Payload, &p) != nil || p.Critical.Type != payloadType {
		return nil, false
	}
	return []string{p.Critical.Image.Digest}, true
}

// signed reports whether one of the keys has signed the message.
func (p *Policy) signed(m *message, raw []byte) bool {
	return slices.ContainsFunc(p.keys, func(k key) bool { return k.signed(m, raw) })
}

func (p *Policy) untrusted(what string) error {
	return fmt.Errorf("it was not made over %s with a trusted key (%d are configured)", what, len(p.keys))
}
