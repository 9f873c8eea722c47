package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wasm-ccm/wasm-ccm/deploy/internal/imagetest"
)

func TestIndexHasTwoImagesAndWhatIsSaidOfThem(t *testing.T) {
	out := packed(t, fakeParts(t), "")
	index, _ := openIndex(t, filepath.Join(out, "cloud-controller-manager-v1.2.3.oci.tar"))
	manifest := manifestOf(t, index)
	for key, want := range map[string]string{
		"org.opencontainers.image.version": "v1.2.3", "org.opencontainers.image.revision": testCommit, "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
	} {
		if got := manifest.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64", "unknown/unknown", "unknown/unknown"}, platforms); diff != "" {
		t.Fatalf("platforms (-want +got):\n%s", diff)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		checkImageOf(t, index, manifest.Manifests[i], arch)
		said := manifest.Manifests[i+2]
		if said.Annotations["vnd.docker.reference.type"] != "attestation-manifest" || said.Annotations["vnd.docker.reference.digest"] != manifest.Manifests[i].Digest.String() {
			t.Errorf("the attestations of %s are marked %v", arch, said.Annotations)
		}
		checkAttestations(t, out, index, said.Digest, manifest.Manifests[i].Digest, arch)
	}
}

func checkImageOf(t *testing.T, index v1.ImageIndex, d v1.Descriptor, arch string) {
	t.Helper()
	image, err := index.Image(d.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("the image of %s is broken: %v", arch, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.Created.Unix() != 1_700_000_000 || config.Config.User != "65532:65532" {
		t.Errorf("%s: it is for %s, of %s, runs as %s", arch, config.Architecture, config.Created, config.Config.User)
	}
}

// checkAttestations reads the statements with in-toto's and SPDX's own libraries.
func checkAttestations(t *testing.T, out string, index v1.ImageIndex, of, image v1.Hash, arch string) {
	t.Helper()
	stored, err := index.Image(of)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := stored.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, l := range manifest.Layers {
		types = append(types, l.Annotations["in-toto.io/predicate-type"])
		layer, err := stored.LayerByDigest(l.Digest)
		if err != nil {
			t.Fatal(err)
		}
		content, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != l.Digest.Hex || int64(len(text)) != l.Size {
			t.Errorf("the attestation %s of %s is broken", l.Digest, arch)
		}
		s := statementOf(t, text)
		if string(l.MediaType) != "application/vnd.in-toto+json" || s.PredicateType != types[len(types)-1] || s.Subject[0].Digest["sha256"] != image.Hex {
			t.Errorf("%s: %s, %s, of %v", arch, l.MediaType, s.PredicateType, s.Subject)
		}
		predicate, err := protojson.Marshal(s.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		switch s.PredicateType {
		case "https://spdx.dev/Document":
			inImage, inFile := documentOf(t, predicate), documentOf(t, read(t, filepath.Join(out, "cloud-controller-manager-linux-"+arch+".spdx.json")))
			if diff := cmp.Diff(inFile, inImage, cmp.AllowUnexported(spdx.Package{})); diff != "" {
				t.Errorf("the SBOM of %s in the image is not the file (-file +image):\n%s", arch, diff)
			}
		default:
			checkProvenance(t, predicate)
		}
	}
	if diff := cmp.Diff([]string{"https://spdx.dev/Document", "https://slsa.dev/provenance/v1"}, types); diff != "" {
		t.Errorf("attestations of %s (-want +got):\n%s", arch, diff)
	}
}

func TestProvenanceIsOfEveryFile(t *testing.T) {
	out := packed(t, fakeParts(t), "")
	s := statementOf(t, read(t, filepath.Join(out, "provenance.intoto.json")))
	subjects := map[string]string{}
	for _, subject := range s.Subject {
		subjects[subject.Name] = subject.Digest["sha256"]
	}
	files, err := sums(out)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range files {
		if f.Name != checksums && f.Name != "provenance.intoto.json" {
			want[f.Name] = f.SHA256
		}
	}
	_, digest := openIndex(t, filepath.Join(out, "cloud-controller-manager-v1.2.3.oci.tar"))
	want["pkg:oci/cloud-controller-manager"] = digest.Hex
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	predicate, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	checkProvenance(t, predicate)
}

func checkProvenance(t *testing.T, predicate []byte) {
	t.Helper()
	p := &slsa.Provenance{}
	if err := protojson.Unmarshal(predicate, p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("provenance: %v", err)
	}
	var materials []string
	for _, m := range p.BuildDefinition.ResolvedDependencies {
		materials = append(materials, m.Uri+" "+m.Digest["gitCommit"])
	}
	if !slices.Contains(materials, "git+https://github.com/wasm-ccm/wasm-ccm "+testCommit) || !slices.Contains(materials, "pkg:deb/debian/llvm-19-dev@1:19.1.4-1 ") {
		t.Errorf("made from %q", materials)
	}
	if p.RunDetails.Metadata != nil {
		t.Errorf("the provenance has a time or a name of its build: %v", p.RunDetails.Metadata)
	}
}

func TestSBOMsSayWhatProgramsAreMadeOf(t *testing.T) {
	out := packed(t, fakeParts(t), "")
	tests := map[string][]string{
		"ccmctl-linux-arm64.spdx.json":                   {"ccmctl-linux-arm64 v1.2.3", "golang.org/x/exp ", "stdlib "},
		"static.wasm.spdx.json":                          {"static.wasm v1.2.3", "example.com/sdk v1.2.3", "example.com/json v1.0.0"},
		"cloud-controller-manager-linux-amd64.spdx.json": {"cloud-controller-manager v1.2.3", "golang.org/x/exp ", "stdlib ", "golang.org/x/crypto/x509roots/fallback v0.0.0-"},
	}
	for name, want := range tests {
		d := documentOf(t, read(t, filepath.Join(out, name)))
		var has []string
		for _, p := range d.Packages {
			has = append(has, p.PackageName+" "+p.PackageVersion)
			if p.FilesAnalyzed || p.PackageDownloadLocation == "" || len(p.PackageExternalReferences) != 1 {
				t.Errorf("%s: incomplete: %+v", name, p)
			}
		}
		for _, w := range want {
			if !slices.ContainsFunc(has, func(h string) bool { return strings.HasPrefix(h, w) }) {
				t.Errorf("%s has %q, want %q among them", name, has, w)
			}
		}
		if d.CreationInfo.Created != "2023-11-14T22:13:20Z" || d.SPDXVersion != "SPDX-2.3" {
			t.Errorf("%s: %s of %s", name, d.SPDXVersion, d.CreationInfo.Created)
		}
	}
}

func documentOf(t *testing.T, text []byte) *spdx.Document {
	t.Helper()
	d, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(d); err != nil {
		t.Errorf("SPDX document: %v", err)
	}
	return d
}

func statementOf(t *testing.T, text []byte) *intoto.Statement {
	t.Helper()
	s := &intoto.Statement{}
	if err := protojson.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("statement: %v", err)
	}
	return s
}

func manifestOf(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// openIndex returns the only index of an archive.
func openIndex(t *testing.T, archive string) (v1.ImageIndex, v1.Hash) {
	t.Helper()
	top, only := imagetest.Open(t, archive)
	index, err := top.ImageIndex(only.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, only.Digest
}
