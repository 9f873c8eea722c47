package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

// registryFor starts a private registry with TLS, does docker login, and
// returns the flag for its certificate.
func (b bench) registryFor(t *testing.T) (address, caFlag string) {
	t.Helper()
	r, err := devregistry.Start(devregistry.Options{Dir: t.TempDir(), TLS: true, User: "robot", Password: "hush hush"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	auth := base64.StdEncoding.EncodeToString([]byte("robot:hush hush"))
	b.write(t, "config.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.Address, auth))
	t.Setenv("DOCKER_CONFIG", b.dir)
	return r.Address, "--ca-file=" + b.write(t, "ca.crt", []byte(r.CABundle))
}

func TestPushAndPull(t *testing.T) {
	b := newBench(t)
	address, ca := b.registryFor(t)
	ref := address + "/providers/static:v1"
	b.write(t, "config.yaml", []byte("zones: []\n"))
	private, public := b.generate(t, "pair")
	mustCcmctl(t, "sign", "--key", private, b.path("module.wasm"))
	pushed := mustCcmctl(t, "push", ca, "--config", b.path("config.yaml"), "--key", private, b.path("module.wasm"), ref)
	if again := mustCcmctl(t, "push", ca, "--config", b.path("config.yaml"), b.path("module.wasm"), ref); again != pushed || !strings.Contains(pushed, provenance.Digest(b.module)) {
		t.Errorf("pushed first %q, then %q", pushed, again)
	}
	mustCcmctl(t, "pull", ca, "-o", b.path("out"), ref)
	for name, want := range map[string][]byte{
		"provider.wasm": b.module, "config.yaml": []byte("zones: []\n"), "provider.wasm.sig": b.read(t, "module.wasm.sig"),
	} {
		if got := b.read(t, filepath.Join("out", name)); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes came back of %d", name, len(got), len(want))
		}
	}
	mustCcmctl(t, "verify", "--key", public, b.path("out/provider.wasm"))
	wantFailure(t, "exists: remove it", "pull", ca, "-o", b.path("out"), ref)
	wantFailure(t, "has no such image", "pull", ca, address+"/providers/static:v2")
	wantFailure(t, "give a tag", "push", ca, b.path("module.wasm"), strings.Fields(pushed)[1])
	wantFailure(t, "write HOST[:PORT]/PATH:TAG", "push", ca, b.path("module.wasm"), "static")
	wantFailure(t, "name the module", "push", ca, "--config", b.write(t, "inventory.yaml", nil), b.path("module.wasm"), ref)
	if err := os.Remove(b.path("config.json")); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, "docker login", "pull", ca, ref)
}

// Container runtimes can import the archive, and its digest is that of push.
func TestPack(t *testing.T) {
	b := newBench(t)
	address, ca := b.registryFor(t)
	ref := address + "/providers/static:v1"
	packed := mustCcmctl(t, "pack", "--name", ref, "-o", b.path("image.tar"), b.path("module.wasm"))
	pushed := mustCcmctl(t, "push", ca, b.path("module.wasm"), ref)
	if !strings.HasPrefix(packed, pushed) {
		t.Errorf("packed %q, pushed %q", packed, pushed)
	}
	blobs, index := map[string]bool{}, v1.IndexManifest{}
	for r := tar.NewReader(bytes.NewReader(b.read(t, "image.tar"))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok {
			blobs["sha256:"+name] = provenance.Digest(data) == "sha256:"+name
		} else if h.Name == "index.json" {
			if err := json.Unmarshal(data, &index); err != nil {
				t.Fatal(err)
			}
		}
	}
	// An index, a manifest and a configuration for each of two platforms, and one layer.
	if len(blobs) != 6 || len(index.Manifests) != 1 || !blobs[index.Manifests[0].Digest.String()] || index.Manifests[0].Annotations["io.containerd.image.name"] != ref {
		t.Errorf("blobs %v, index %+v", blobs, index)
	}
	for name, whole := range blobs {
		if !whole {
			t.Errorf("%s is something else", name)
		}
	}
	wantFailure(t, "exists", "pack", "--name", ref, "-o", b.path("image.tar"), b.path("module.wasm"))
	wantFailure(t, "platform", "pack", "--name", ref, "--platform", "amd64", "-o", b.path("other.tar"), b.path("module.wasm"))
}
