package provenance_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// image is a signed image in pieces, so that a test can exchange one.
type image struct {
	document, payload []byte
	signature         string
	beside            []byte
}

func (i image) encode(t testing.TB) []byte {
	t.Helper()
	data, err := provenance.ImageSignatures{
		Document: i.document, Beside: i.beside,
		Signatures: []provenance.ImageSignature{{Payload: i.payload, Base64: i.signature}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// annotated names the module as ccmctl push does, layered as an artifact has it.
func annotated(module []byte) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[],"annotations":{%q:%q}}`, provenance.AnnotationModule, provenance.Digest(module))
}

func layered(module []byte) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"layers":[{"mediaType":"application/wasm","digest":%q,"size":%d}]}`, provenance.Digest(module), len(module))
}

func payloadOf(t testing.TB, document []byte) []byte {
	t.Helper()
	payload, err := provenance.Payload("registry.example.com/p", provenance.Digest(document))
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func (s signer) image(t testing.TB, document []byte) image {
	t.Helper()
	payload := payloadOf(t, document)
	return image{document: document, payload: payload, signature: base64.StdEncoding.EncodeToString(s.sign(t, payload))}
}

// The chain is key, payload, digest of the manifest, digest of the module: no
// link of it can be exchanged.
func TestSignaturesOfImages(t *testing.T) {
	module, other := []byte("\x00asm\x01\x00\x00\x00 a module"), []byte("\x00asm\x01\x00\x00\x00 another")
	ours, theirs := newSigner(t), newSigner(t)
	policy := newPolicy(t, nil, ours.public)
	for name, document := range map[string][]byte{"annotation": annotated(module), "layer": layered(module)} {
		wantAllowed(t, policy, module, ours.image(t, document).encode(t))
		if text := wantRefused(t, policy, other, ours.image(t, document).encode(t), provenance.ReasonSignatureInvalid); !strings.Contains(text, "manifest") {
			t.Errorf("%s: %s", name, text)
		}
	}
	good := ours.image(t, annotated(module))
	besides := base64.StdEncoding.EncodeToString(ours.sign(t, module))
	broken := map[string]func(i *image){
		"another key":                func(i *image) { *i = theirs.image(t, i.document) },
		"another manifest":           func(i *image) { i.document = append(i.document, ' ') },
		"another payload":            func(i *image) { i.payload = payloadOf(t, layered(module)) },
		"a signature of the module":  func(i *image) { i.signature = besides },
		"a signature of the digest":  func(i *image) { i.signature = base64.StdEncoding.EncodeToString(ours.sign(t, i.document)) },
		"no base64":                  func(i *image) { i.signature = "!" },
		"a long signature":           func(i *image) { i.signature = strings.Repeat("A", 4096) },
		"no signature":               func(i *image) { i.signature = "" },
		"a manifest of another":      func(i *image) { *i = ours.image(t, annotated(other)) },
		"a manifest that names none": func(i *image) { *i = ours.image(t, []byte(`{"schemaVersion":2,"layers":[]}`)) },
		"a manifest that is none":    func(i *image) { *i = ours.image(t, []byte(`text`)) },
		"annotation against layer": func(i *image) {
			*i = ours.image(t, fmt.Appendf(nil, `{"layers":[{"digest":%q}],"annotations":{%q:%q}}`, provenance.Digest(module), provenance.AnnotationModule, provenance.Digest(other)))
		},
		"a payload of something else": func(i *image) {
			i.payload = []byte(strings.ReplaceAll(string(i.payload), "cosign container image signature", "attestation"))
			i.signature = base64.StdEncoding.EncodeToString(ours.sign(t, i.payload))
		},
		"a signature of another beside": func(i *image) {
			*i = theirs.image(t, i.document)
			i.beside = []byte(base64.StdEncoding.EncodeToString(ours.sign(t, other)))
		},
	}
	for name, change := range broken {
		t.Run(name, func(t *testing.T) {
			i := good
			i.document, i.payload = append([]byte{}, good.document...), append([]byte{}, good.payload...)
			change(&i)
			wantRefused(t, policy, module, i.encode(t), provenance.ReasonSignatureInvalid)
		})
	}
	t.Run("no signatures at all", func(t *testing.T) {
		for _, s := range []provenance.ImageSignatures{{}, {Document: good.document}, {Document: good.document, Beside: []byte{}}, {Document: good.document, Signatures: []provenance.ImageSignature{{}}}} {
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			wantRefused(t, policy, module, data, provenance.ReasonSignatureInvalid)
		}
	})
	t.Run("one beside is enough", func(t *testing.T) {
		i := theirs.image(t, annotated(module))
		i.beside = []byte(besides)
		wantAllowed(t, policy, module, i.encode(t))
	})
	t.Run("a pinned digest is that of the module", func(t *testing.T) {
		wantAllowed(t, newPolicy(t, []string{provenance.Digest(module)}, ours.public), module, good.encode(t))
		wantRefused(t, newPolicy(t, []string{provenance.Digest(good.document)}, ours.public), module, good.encode(t), provenance.ReasonDigestNotPinned)
	})
}

// What openssl signs of cosign's own payload is accepted: this text is what
// cosign 2 writes.
func TestPayloadOfCosign(t *testing.T) {
	module := []byte("\x00asm")
	key, public := opensslKey(t, "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
	document := layered(module)
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"registry.example.com/p"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, provenance.Digest(document))
	if ours := payloadOf(t, document); string(ours) != string(payload) {
		t.Errorf("Payload = %s, cosign writes %s", ours, payload)
	}
	i := image{document: document, payload: payload, signature: strings.TrimSpace(string(opensslSign(t, key, "sha256", payload)))}
	wantAllowed(t, newPolicy(t, nil, public), module, i.encode(t))
}

func FuzzImageSignatures(f *testing.F) {
	module := []byte("\x00asm")
	s := newSigner(f)
	good := s.image(f, annotated(module)).encode(f)
	f.Add(good)
	if empty, err := (provenance.ImageSignatures{Document: annotated(module)}).Encode(); err == nil {
		f.Add(empty)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(good, &parts); err != nil {
		f.Fatal(err)
	}
	policy := newPolicy(f, nil, newSigner(f).public)
	f.Fuzz(func(t *testing.T, stored []byte) {
		if policy.Check(module, stored) == nil {
			t.Fatal("a signature of nobody is accepted")
		}
	})
}

// bundleOf is a bundle as cosign 3 makes it of an image.
func (s signer) bundleOf(t testing.TB, predicate string, documents ...[]byte) []byte {
	t.Helper()
	return s.namedBundle(t, predicate, "", documents...)
}

// namedBundle is one whose subjects have a name.
func (s signer) namedBundle(t testing.TB, predicate, name string, documents ...[]byte) []byte {
	t.Helper()
	subjects := make([]string, len(documents))
	for i, d := range documents {
		subjects[i] = fmt.Sprintf(`{"name":%q,"digest":{"sha256":%q},"annotations":{}}`, name, strings.TrimPrefix(provenance.Digest(d), "sha256:"))
	}
	const kind = "application/vnd.in-toto+json"
	payload := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[%s],"predicateType":%q,"predicate":{}}`, strings.Join(subjects, ","), predicate)
	signature := s.sign(t, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload))
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"x"}},"dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":%q}]}}`,
		base64.StdEncoding.EncodeToString([]byte(payload)), kind, base64.StdEncoding.EncodeToString(signature))
}

func TestBundlesOfImages(t *testing.T) {
	const sign = "https://sigstore.dev/cosign/sign/v1"
	module, other := []byte("\x00asm a module"), []byte("\x00asm another")
	document := annotated(module)
	ours, theirs := newSigner(t), newSigner(t)
	policy := newPolicy(t, nil, ours.public)
	with := func(bundles ...[]byte) []byte {
		s := provenance.ImageSignatures{Document: document}
		s.AddBundles(bundles)
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good := ours.bundleOf(t, sign, document)
	wantAllowed(t, policy, module, with(good))
	wantAllowed(t, policy, module, with([]byte("{}"), theirs.bundleOf(t, sign, document), ours.bundleOf(t, sign, other, document)))
	for name, bundle := range map[string][]byte{
		"another key":      theirs.bundleOf(t, sign, document),
		"another image":    ours.bundleOf(t, sign, other),
		"an attestation":   ours.bundleOf(t, "https://spdx.dev/Document", document),
		"no subject":       ours.bundleOf(t, sign),
		"another payload":  []byte(strings.Replace(string(good), "application/vnd.in-toto+json", "application/vnd.in-toto+jsox", 1)),
		"not a bundle":     []byte(strings.Replace(string(good), "sigstore.bundle", "sigstore.bungle", 1)),
		"no JSON":          []byte("text"),
		"a large payload":  ours.bundleOf(t, sign, append([][]byte{document}, make([][]byte, 100)...)...),
		"two signatures":   []byte(strings.Replace(string(good), `"signatures":[`, `"signatures":[{"sig":""},`, 1)),
		"of the module":    ours.bundleOf(t, sign, module),
		"simple, in there": []byte(strings.Replace(string(good), `"payloadType"`, `"payloadTypo"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, policy, module, with(bundle), provenance.ReasonSignatureInvalid)
		})
	}
}
