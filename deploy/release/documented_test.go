package main

import (
	"bufio"
	"bytes"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// elsewhere are the programs of RELEASE.md that Debian does not have, or that
// need a node.
func elsewhere() []string { return []string{"cosign", "docker", "ctr", "make", "kubectl"} }

// TestDocumentedCommands runs the commands of RELEASE.md as they stand, upon a
// release and a registry.
func TestDocumentedCommands(t *testing.T) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	key := newKey(t)
	out := releaseOf(t, "v0.2.0", fakeParts(t), key)
	if err := os.Link(filepath.Join(filepath.Dir(key), "public.pem"), filepath.Join(out, "wasm-ccm.pub")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(bytes.NewBuffer(nil), "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	ran := 0
	for _, command := range commandsOf(t, "../RELEASE.md") {
		program, _, _ := strings.Cut(command, " ")
		if slices.Contains(elsewhere(), program) || program == ccmctl {
			continue
		}
		command = strings.ReplaceAll(command, "registry.example.com", host)
		command = strings.NewReplacer("skopeo copy", "skopeo copy --dest-tls-verify=false", "skopeo inspect", "skopeo inspect --tls-verify=false").Replace(command)
		if said, err := runIn(t, out, "bash", "-euo", "pipefail", "-c", command); err != nil {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
		ran++
	}
	if ran < 5 {
		t.Fatalf("only %d commands: is the document read rightly?", ran)
	}
	checkRegistry(t, host+"/cloud-controller-manager", filepath.Join(out, "cloud-controller-manager-v0.2.0.oci.tar"))
}

// checkRegistry looks whether the registry has the index with all that is in
// it, and its signature where cosign looks.
func checkRegistry(t *testing.T, repository, archive string) {
	t.Helper()
	reference, err := name.ParseReference(repository+":v0.2.0", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	_, want := openIndex(t, archive)
	if got, err := index.Digest(); err != nil || got != want {
		t.Errorf("the registry has %s (%v), the archive %s", got, err, want)
	}
	for _, m := range manifestOf(t, index).Manifests {
		if _, err := remote.Image(reference.Context().Digest(m.Digest.String())); err != nil {
			t.Errorf("%s: %v", m.Platform, err)
		}
	}
	if _, err := remote.Image(reference.Context().Tag("sha256-" + want.Hex + ".sig")); err != nil {
		t.Errorf("signature: %v", err)
	}
}

// commandsOf are the indented lines of a document.
func commandsOf(t *testing.T, document string) []string {
	t.Helper()
	f, err := os.Open(document)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if command, ok := strings.CutPrefix(s.Text(), "    "); ok {
			all = append(all, command)
		}
	}
	return all
}
