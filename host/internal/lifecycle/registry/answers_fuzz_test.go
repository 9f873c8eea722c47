package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// said is what a registry answers to everything.
type said struct {
	status                  int
	challenge, kind, digest string
	body                    []byte
}

// FuzzAnswers reads an image from a registry that answers everything in one way,
// its token server as well. There is an *Error, or an image within the bounds.
func FuzzAnswers(f *testing.F) {
	var now atomic.Pointer[said]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := now.Load()
		w.Header().Set("WWW-Authenticate", strings.ReplaceAll(s.challenge, "HOST", "http://"+r.Host))
		w.Header().Set("Content-Type", s.kind)
		w.Header().Set("Docker-Content-Digest", s.digest)
		if r.URL.Path == "/token" {
			w.WriteHeader(http.StatusOK)
		} else {
			w.WriteHeader(s.status)
		}
		_, _ = w.Write(s.body) // whoever has enough is gone
	}))
	f.Cleanup(server.Close)
	const kind = "application/vnd.oci.image.manifest.v1+json"
	zeros := "sha256:" + strings.Repeat("0", 64)
	f.Add(200, "", kind, zeros, []byte(`{"schemaVersion":2,"layers":[{"mediaType":"application/wasm","digest":"`+zeros+`","size":1}]}`))
	f.Add(401, `Bearer realm="HOST/token",service="s",scope="x"`, "application/json", "", []byte(`{"token":"t","errors":[{"code":"DENIED","message":"no"}]}`))
	f.Add(401, `Basic realm="r"`, "", "", []byte(`{"errors":[{}]}`))
	f.Add(302, "", "", "", []byte("text"))
	ref, err := ParseReference(server.Listener.Addr().String() + "/p:v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, challenge, kind, digest string, body []byte) {
		now.Store(&said{min(max(status, 200), 599), challenge, kind, digest, body})
		client, err := New(ref, Options{MaxFile: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		err = look(t.Context(), client)
		var known *Error
		if err != nil && !errors.As(err, &known) {
			t.Fatalf("not an *Error: %v", err)
		}
	})
}

// look reads what there is, within a bound of what a layer may have.
func look(ctx context.Context, c *Client) error {
	state, err := c.Resolve(ctx)
	if err != nil {
		return err
	}
	image, err := c.Pull(ctx, state)
	if err != nil {
		return err
	}
	for _, content := range image.Files {
		if int64(len(content)) > c.limits.layer() {
			return io.ErrShortBuffer
		}
	}
	return nil
}
