// Package attestation writes what is said of a release as statements of
// in-toto in JSON: its provenance by SLSA, and any other predicate. Equal input
// makes equal bytes.
package attestation

import (
	"bytes"
	"encoding/json"
	"fmt"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// ProvenanceType is the predicate type of a provenance.
	ProvenanceType = "https://slsa.dev/provenance/v1"

	repository = "https://github.com/wasm-ccm/wasm-ccm"
	// buildType names the meaning of the parameters, which deploy/RELEASE.md has.
	buildType = repository + "/blob/main/deploy/RELEASE.md#provenance"
)

// Subject is a file or an image that a statement is about.
type Subject struct {
	Name string
	// SHA256 in hexadecimal digits, without sha256:.
	SHA256 string
}

// Statement says the predicate, in JSON, of the subjects.
func Statement(subjects []Subject, predicateType string, predicate []byte) ([]byte, error) {
	content := &structpb.Struct{}
	if err := protojson.Unmarshal(predicate, content); err != nil {
		return nil, fmt.Errorf("predicate %s: %w", predicateType, err)
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Predicate: content}
	for _, subject := range subjects {
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: subject.Name, Digest: map[string]string{"sha256": subject.SHA256}})
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("statement of %s: %w", predicateType, err)
	}
	return marshal(s)
}

// Build is what a release was made from.
type Build struct {
	// Version of the release, and the full commit of its source.
	Version, Commit string
	// Go is the toolchain, such as go1.26.8.
	Go string
	// Image is the name that the image bears.
	Image string
	// Packages are those of Debian that the modules were compiled with, and their versions.
	Packages []Package
}

// Package is one of Debian.
type Package struct{ Name, Version string }

// Provenance returns the predicate. It has no times and no names of builders:
// whoever builds the same commit again gets the same. Who vouches for it is
// who signed it.
func Provenance(b Build) ([]byte, error) {
	external, err := structpb.NewStruct(map[string]any{"version": b.Version, "image": b.Image, "source": "git+" + repository})
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	materials := []*intoto.ResourceDescriptor{
		{Uri: "git+" + repository, Digest: map[string]string{"gitCommit": b.Commit}},
		{Uri: "pkg:golang/toolchain@" + b.Go},
	}
	for _, p := range b.Packages {
		materials = append(materials, &intoto.ResourceDescriptor{Uri: "pkg:deb/debian/" + p.Name + "@" + p.Version})
	}
	provenance := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{BuildType: buildType, ExternalParameters: external, ResolvedDependencies: materials},
		RunDetails:      &slsa.RunDetails{Builder: &slsa.Builder{Id: repository + "/blob/" + b.Commit + "/Makefile#release"}},
	}
	if err := provenance.Validate(); err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	return marshal(provenance)
}

// marshal writes JSON without the spaces that protojson varies.
func marshal(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
