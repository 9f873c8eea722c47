package provenance_test

import (
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
)

// A document that two readers understand differently is refused, however well it
// is signed.
func TestSignedJSONIsReadInOneWay(t *testing.T) {
	module, other := []byte("\x00asm\x01\x00\x00\x00 a module"), []byte("\x00asm\x01\x00\x00\x00 another")
	ours := newSigner(t)
	policy := newPolicy(t, nil, ours.public)
	good := ours.image(t, annotated(module))
	wantAllowed(t, policy, module, good.encode(t))

	digest, another := provenance.Digest(module), provenance.Digest(other)
	for name, document := range map[string]string{
		"annotations twice":         fmt.Sprintf(`{"annotations":{%[1]q:%[3]q},"annotations":{%[1]q:%[2]q}}`, provenance.AnnotationModule, digest, another),
		"an annotation twice":       fmt.Sprintf(`{"annotations":{%[1]q:%[3]q,%[1]q:%[2]q}}`, provenance.AnnotationModule, digest, another),
		"annotations in two cases":  fmt.Sprintf(`{"annotations":{%[1]q:%[3]q},"Annotations":{%[1]q:%[2]q}}`, provenance.AnnotationModule, digest, another),
		"annotations in another":    fmt.Sprintf(`{"layers":[{"digest":%[2]q}],"Annotations":{%[1]q:%[2]q}}`, provenance.AnnotationModule, digest),
		"annotations by a Kelvin":   fmt.Sprintf(`{"layers":[{"digest":%q,"\u212a":1,"k":2}]}`, digest),
		"the digest of a layer":     fmt.Sprintf(`{"layers":[{"Digest":%q}]}`, digest),
		"layers twice, the same":    fmt.Sprintf(`{"layers":[{"digest":%[1]q}],"layers":[{"digest":%[1]q}]}`, digest),
		"layers in two, the same":   fmt.Sprintf(`{"layers":[{"digest":%[1]q}],"LAYERS":[{"digest":%[1]q}]}`, digest),
		"twice where nobody looks":  fmt.Sprintf(`{"layers":[{"digest":%q}],"config":{"a":{"b":1,"b":2}}}`, digest),
		"something after the first": string(annotated(module)) + `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, policy, module, ours.image(t, []byte(document)).encode(t), provenance.ReasonSignatureInvalid)
		})
	}

	image := provenance.Digest(good.document)
	for _, payload := range []string{
		fmt.Sprintf(`{"critical":{"image":{"docker-manifest-digest":%q,"docker-manifest-digest":%q},"type":"cosign container image signature"}}`, another, image),
		fmt.Sprintf(`{"critical":{"image":{"Docker-Manifest-Digest":%q},"type":"cosign container image signature"}}`, image),
		fmt.Sprintf(`{"critical":{"image":{"docker-manifest-digest":%q},"type":"attestation"},"Critical":{"type":"cosign container image signature"}}`, image),
	} {
		t.Run(payload[:30], func(t *testing.T) {
			i := good
			i.payload = []byte(payload)
			i.signature = base64.StdEncoding.EncodeToString(ours.sign(t, i.payload))
			wantRefused(t, policy, module, i.encode(t), provenance.ReasonSignatureInvalid)
		})
	}

	raw := base64.StdEncoding.EncodeToString(ours.sign(t, module))
	const media = "application/vnd.dev.sigstore.bundle.v0.3+json"
	for bundle, allowed := range map[string]bool{
		fmt.Sprintf(`{"mediaType":%q,"messageSignature":{"signature":%q}}`, media, raw):                                              true,
		fmt.Sprintf(`{"mediaType":%q,"messageSignature":{"Signature":%q}}`, media, raw):                                              false,
		fmt.Sprintf(`{"mediaType":%q,"messageSignature":{"signature":"AA==","signature":%q}}`, media, raw):                           false,
		fmt.Sprintf(`{"mediaType":%q,"dsseEnvelope":{},"dsseEnvelope":null,"messageSignature":{"signature":%q}}`, media, raw):        false,
		fmt.Sprintf(`{"mediaType":%q,"messageSignature":{"signature":%q},"DSSEENVELOPE":{"payload":"AA=="}}`, media, raw):            false,
		fmt.Sprintf(`{"mediaType":"x","MediaType":%q,"messageSignature":{"signature":%q}}`, media, raw):                              false,
		fmt.Sprintf(`{"mediaType":%q,"verificationMaterial":{"a":[{"b":1,"B":1}]},"messageSignature":{"signature":%q}}`, media, raw): false,
	} {
		t.Run(bundle, func(t *testing.T) {
			if allowed {
				wantAllowed(t, policy, module, []byte(bundle))
			} else {
				wantRefused(t, policy, module, []byte(bundle), provenance.ReasonSignatureInvalid)
			}
		})
	}
}

// Nobody who reads something signed reads it by encoding/json.
func TestNobodyReadsSignedJSONOtherwise(t *testing.T) {
	files, err := filepath.Glob("../[pr]*/*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "../provenance/json.go" || !strings.Contains(name, "/provenance/") && !strings.Contains(name, "/registry/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "json" && (s.Sel.Name == "Unmarshal" || s.Sel.Name == "NewDecoder") {
				t.Errorf("%s uses json.%s: use provenance.ReadJSON", name, s.Sel.Name)
			}
			return true
		})
	}
}
