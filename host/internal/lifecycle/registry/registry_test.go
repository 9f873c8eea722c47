package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
	"github.com/wasm-ccm/wasm-ccm/host/test/devregistry"
)

func TestWhatIsPushedIsPulled(t *testing.T) {
	r := open(t, devregistry.Options{TLS: true, User: user, Password: password})
	ref := reference(t, r.Address+"/providers/mycloud:v1")
	o := registry.Options{CABundle: r.CABundle, Keys: account{user, password}}
	first := push(t, ref, content(wasm+"first"), o)
	if again := push(t, ref, content(wasm+"first"), o); again != first {
		t.Errorf("the same content has the digests %s and %s", first, again)
	}
	image, err := pull(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{registry.ModuleName: []byte(wasm + "first"), "config.yaml": []byte("zones: []\n")}
	if diff := cmp.Diff(want, image.Files); diff != "" || image.Digest != first {
		t.Errorf("digest %s, want %s; files (-want +got):\n%s", image.Digest, first, diff)
	}
	second := push(t, ref, content(wasm+"second"), o)
	for text, want := range map[string]string{
		r.Address + "/providers/mycloud:v1":                "second",
		r.Address + "/providers/mycloud@" + first:          "first",
		r.Address + "/providers/mycloud:v1@" + first:       "first",
		r.Address + "/providers/mycloud:deleted@" + second: "second",
	} {
		image, err := pull(t.Context(), reference(t, text), o)
		if err != nil || string(image.Files[registry.ModuleName]) != wasm+want {
			t.Errorf("%s: %v, %v, want the %s", text, image, err, want)
		}
	}
}

func TestSignaturesAreFound(t *testing.T) {
	r := open(t, devregistry.Options{})
	ref := reference(t, r.Address+"/p:v1")
	digest := push(t, ref, content(wasm), registry.Options{})
	for _, signature := range []registry.Signature{{Payload: []byte("{1}"), Base64: "b25l"}, {Payload: []byte("{2}"), Base64: "dHdv"}} {
		if err := registry.PushSignature(t.Context(), ref, digest, signature, registry.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	image, err := pull(t.Context(), ref, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []registry.Signature{{Payload: []byte("{1}"), Base64: "b25l"}, {Payload: []byte("{2}"), Base64: "dHdv"}}
	if diff := cmp.Diff(want, image.Signatures); diff != "" {
		t.Errorf("signatures (-want +got):\n%s", diff)
	}
}

// cosign has put bundles beside images since its version 3, as what refers to
// them; distribution knows them by a tag.
func TestBundlesAreFound(t *testing.T) {
	r := open(t, devregistry.Options{})
	ref := reference(t, r.Address+"/p:v1")
	digest := push(t, ref, content(wasm), registry.Options{})
	for name, kind := range map[string]types.MediaType{"bundle": "application/vnd.dev.sigstore.bundle.v0.3+json", "sbom": "text/spdx+json"} {
		refers(t, ref, digest, layer([]byte(name), kind))
	}
	image, err := pull(t.Context(), ref, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]byte{[]byte("bundle")}, image.Bundles); diff != "" {
		t.Errorf("bundles (-want +got):\n%s", diff)
	}
}

// refers pushes an artifact that refers to an image.
func refers(t *testing.T, ref registry.Reference, digest string, l v1.Layer) {
	t.Helper()
	hash, err := v1.NewHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := l.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	artifact := mutate.Subject(imageOf(t, types.OCIManifestSchema1, kind, l), v1.Descriptor{MediaType: types.OCIImageIndex, Digest: hash}).(v1.Image)
	own, err := artifact.Digest()
	if err != nil {
		t.Fatal(err)
	}
	put(t, ref.Context().String()+"@"+own.String(), artifact)
}

// What a user sees when the registry does not give what the reference names.
func TestMessages(t *testing.T) {
	private := open(t, devregistry.Options{TLS: true, User: user, Password: password})
	gone := open(t, devregistry.Options{})
	if err := gone.Stop(); err != nil {
		t.Fatal(err)
	}
	right := registry.Options{CABundle: private.CABundle, Keys: account{user, password}}
	ref := private.Address + "/p:v1"
	push(t, reference(t, ref), content(wasm), right)
	with := func(o registry.Options) registry.Options {
		o.CABundle, o.KeysOf = private.CABundle, "pullSecret ns/name"
		return o
	}
	none := strings.Repeat("0", 64)
	tests := map[string]struct {
		reference string
		options   registry.Options
		reason    string
		words     []string
	}{
		"no Secret":             {ref, with(registry.Options{}), registry.ReasonDenied, []string{"401", "name a Secret of the type kubernetes.io/dockerconfigjson", "source.oci.pullSecret"}},
		"Secret of others":      {ref, with(registry.Options{Keys: nobody{}}), registry.ReasonDenied, []string{"pullSecret ns/name has no entry for " + private.Address + "/p"}},
		"wrong password":        {ref, with(registry.Options{Keys: account{user, "guessed"}}), registry.ReasonDenied, []string{"does not take the credentials of the pullSecret ns/name"}},
		"no such tag":           {private.Address + "/p:v2", right, registry.ReasonNotFound, []string{"has no such image", "404", "ccmctl push"}},
		"no such repository":    {private.Address + "/q:v1", right, registry.ReasonNotFound, []string{"has no such image"}},
		"no such digest":        {private.Address + "/p@sha256:" + none, right, registry.ReasonNotFound, []string{"has no such image"}},
		"unknown authority":     {ref, registry.Options{}, registry.ReasonUnavailable, []string{"certificate", "source.oci.caBundle"}},
		"nobody listens":        {gone.Address + "/p:v1", registry.Options{}, registry.ReasonUnavailable, []string{"cannot be asked", "dial", "refused"}},
		"caBundle is no bundle": {ref, registry.Options{CABundle: "x"}, registry.ReasonInvalid, []string{"caBundle has no certificate"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := pull(t.Context(), reference(t, test.reference), test.options)
			wantError(t, err, test.reason, test.words...)
			_, again := pull(t.Context(), reference(t, test.reference), test.options)
			if again == nil || again.Error() != err.Error() {
				t.Errorf("the same failure has other words: %v, then %v", err, again)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for text, good := range map[string]bool{
		"registry.example.com/p:v1": true, "registry.example.com:5000/a/b/c:v1.2.3_4": true, "127.0.0.1:5000/p" + digest: true, "docker.io/me/p:v1": true,
		"p:v1": false, "registry.example.com/p": false, "registry.example.com/p@sha256:abc": false, "registry.example.com/P:v1": false, "": false,
		"https://registry.example.com/p:v1": false, "oci://registry.example.com/p:v1": false, "registry.example.com/" + strings.Repeat("a", 600) + ":v1": false,
		"registry.example.com/p@sha512:" + strings.Repeat("a", 128): false, "registry.example.com/../p:v1": false, "user:password@registry.example.com/p:v1": false,
	} {
		_, err := registry.ParseReference(text)
		if (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && !strings.Contains(err.Error(), "HOST[:PORT]/PATH:TAG") {
			t.Errorf("%q: the error does not say how a reference is written: %v", text, err)
		}
	}
}
