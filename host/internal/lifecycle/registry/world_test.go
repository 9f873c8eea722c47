package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

const (
	wasm      = "\x00asm\x01\x00\x00\x00"
	user      = "robot"
	password  = "correct horse"
	mediaWasm = "application/wasm"
)

// open starts a registry; it needs the binary (make registry).
func open(t testing.TB, o devregistry.Options) *devregistry.Registry {
	t.Helper()
	o.Dir = t.TempDir()
	r, err := devregistry.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func reference(t testing.TB, text string) registry.Reference {
	t.Helper()
	ref, err := registry.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// account is a keychain with one entry.
type account struct{ user, password string }

func (a account) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: a.user, Password: a.password}, nil
}

// nobody has credentials for other registries only.
type nobody struct{}

func (nobody) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

func content(module string) registry.Content {
	return registry.Content{
		Module: []byte(module), Files: map[string][]byte{"config.yaml": []byte("zones: []\n")},
		Platforms: []string{"linux/amd64", "linux/arm64"}, Version: "1.2.3",
	}
}

func push(t testing.TB, ref registry.Reference, c registry.Content, o registry.Options) string {
	t.Helper()
	index, err := registry.Pack(c)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := registry.Push(t.Context(), ref, index, o)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// pull looks at the registry once.
func pull(ctx context.Context, ref registry.Reference, o registry.Options) (*registry.Image, error) {
	client, err := registry.New(ref, o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	state, err := client.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	return client.Pull(ctx, state)
}

// wantError wants an *Error of that reason whose text has all of the words.
func wantError(t testing.TB, err error, reason string, words ...string) {
	t.Helper()
	var e *registry.Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error %v, want one of the reason %s", err, reason)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	for _, secret := range []string{password, "cm9ib3Q6"} { // base64 of robot:
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// put writes an image or an index that others made, without our checks.
func put(t testing.TB, text string, what any) {
	t.Helper()
	ref, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	switch x := what.(type) {
	case v1.Image:
		err = remote.Write(ref, x)
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, x)
	}
	if err != nil {
		t.Fatal(err)
	}
}
