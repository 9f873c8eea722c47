package registry_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/registry"
)

// liar is a registry that does what distribution does not.
type liar struct {
	*httptest.Server
	mux *http.ServeMux
	// credentials counts the requests that came with any.
	credentials atomic.Int32
}

func newLiar(t testing.TB, secure bool) *liar {
	t.Helper()
	l := &liar{mux: http.NewServeMux()}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			l.credentials.Add(1)
		}
		l.mux.ServeHTTP(w, r)
	})
	if secure {
		l.Server = httptest.NewTLSServer(handler)
	} else {
		l.Server = httptest.NewServer(handler)
	}
	l.mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	t.Cleanup(l.Close)
	return l
}

func (l *liar) address() string { return l.Listener.Addr().String() }

func (l *liar) options() registry.Options {
	if l.Certificate() == nil {
		return registry.Options{MaxFile: 1 << 20}
	}
	return registry.Options{MaxFile: 1 << 20, CABundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw}))}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// manifest is that of an artifact with that layer.
func manifest(layer string, size int) []byte {
	data, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": types.OCIManifestSchema1,
		"config": map[string]any{"mediaType": "application/vnd.wasm.config.v0+json", "digest": digestOf(nil), "size": 0},
		"layers": []any{map[string]any{"mediaType": mediaWasm, "digest": layer, "size": size}},
	})
	return data
}

// serve answers with a manifest, whatever the digest or tag, and says that it
// has the digest.
func (l *liar) serve(data []byte, digest string) {
	l.mux.HandleFunc("/v2/p/manifests/{ref}", func(w http.ResponseWriter, r *http.Request) {
		if ref := r.PathValue("ref"); strings.HasPrefix(ref, "sha256-") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(data)
		}
	})
}

func (l *liar) blob(handle http.HandlerFunc) { l.mux.HandleFunc("/v2/p/blobs/{digest}", handle) }

// endless writes for ever, as fast or as slowly as told.
func endless(pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			return
		}
		chunk := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			if pause > 0 {
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(pause):
				}
			}
		}
	}
}

// A registry that cannot answer for a moment says so in more words than a
// small module has: that is no mistake of the image.
func TestALongAnswerToASmallBlobPasses(t *testing.T) {
	for _, n := range []int{2, 10, 100_000} {
		l, module := newLiar(t, false), []byte(wasm)
		data := manifest(digestOf(module), len(module))
		l.serve(data, digestOf(data))
		l.blob(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("slow down ", n), http.StatusServiceUnavailable)
		})
		_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), l.options())
		wantError(t, err, registry.ReasonUnavailable, "503")
	}
}

// Each lie ends in an error that says what is wrong, and in no module.
func TestLiars(t *testing.T) {
	module := []byte(wasm)
	good := manifest(digestOf(module), len(module))
	other := manifest(digestOf([]byte("other")), 5)
	index := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	tests := map[string]struct {
		lie    func(l *liar)
		reason string
		words  []string
	}{
		"another manifest":    {func(l *liar) { l.serve(other, digestOf(good)) }, registry.ReasonDigestMismatch, []string{"another manifest than the digest names"}},
		"another layer":       {func(l *liar) { l.serve(good, digestOf(good)); l.blob(answer("\x00asm\x02\x00\x00\x00")) }, registry.ReasonDigestMismatch, []string{"something else for sha256:"}},
		"a longer layer":      {func(l *liar) { l.serve(good, digestOf(good)); l.blob(endless(0)) }, registry.ReasonDigestMismatch, []string{"more bytes than its manifest says"}},
		"a shorter layer":     {func(l *liar) { l.serve(good, digestOf(good)); l.blob(answer("\x00asm")) }, registry.ReasonDigestMismatch, []string{"something else for sha256:"}},
		"an endless manifest": {func(l *liar) { l.mux.HandleFunc("/v2/p/manifests/", endless(0)) }, registry.ReasonInvalid, []string{"longer than it may be"}},
		"a redirect to itself": {func(l *liar) {
			l.serve(good, digestOf(good))
			l.blob(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
		}, registry.ReasonUnavailable, []string{"wants more than 100 requests for one image"}},
		"a redirect to plain HTTP": {func(l *liar) {
			l.serve(good, digestOf(good))
			l.blob(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://192.0.2.1/x", http.StatusFound)
			})
		}, registry.ReasonUnavailable, []string{"plain HTTP is for registries on loopback only"}},
		"two types": {func(l *liar) { l.serve(index, digestOf(index)) }, registry.ReasonInvalid, []string{"calls itself"}},
		"a manifest for two readers": {func(l *liar) {
			two := slices.Concat([]byte(`{"layers":[],`), good[1:])
			l.serve(two, digestOf(two))
		}, registry.ReasonInvalid, []string{"a key stands twice"}},
		"no JSON": {func(l *liar) { l.serve([]byte("text"), digestOf([]byte("text"))) }, registry.ReasonInvalid, []string{"not valid JSON"}},
		"a failure": {func(l *liar) {
			l.mux.HandleFunc("/v2/p/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\x1b[31mred", http.StatusBadGateway) })
		}, registry.ReasonUnavailable, []string{"status 502"}},
		"a busy one": {func(l *liar) {
			l.mux.HandleFunc("/v2/p/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
		}, registry.ReasonUnavailable, []string{"status 429"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t, true)
			test.lie(l)
			image, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), l.options())
			wantError(t, err, test.reason, test.words...)
			if image != nil || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("image %v, error %q", image, err)
			}
		})
	}
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func TestADrippingRegistryEndsWithItsTime(t *testing.T) {
	l := newLiar(t, true)
	module := make([]byte, 1<<20)
	good := manifest(digestOf(module), len(module))
	l.serve(good, digestOf(good))
	l.blob(endless(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := pull(ctx, reference(t, l.address()+"/p:v1"), l.options())
	wantError(t, err, registry.ReasonUnavailable, "takes too long")
}

// A registry that wants ever more scopes would have us ask for ever.
func TestRequestsAreCounted(t *testing.T) {
	l := newLiar(t, true)
	l.mux.HandleFunc("/v2/p/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/v2/p/"+r.URL.Path, http.StatusFound)
	})
	client, err := registry.New(reference(t, l.address()+"/p:v1"), l.options())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var said string
	for range 20 {
		_, err := client.Resolve(t.Context())
		said = err.Error()
	}
	if !strings.Contains(said, "more than 100 requests") {
		t.Errorf("at last: %s", said)
	}
}

// Credentials go where the administrator has sent them, and to nobody whom a
// registry names.
func TestCredentialsStay(t *testing.T) {
	t.Run("foreign token server", func(t *testing.T) {
		l := newLiar(t, true)
		l.mux = http.NewServeMux()
		l.mux.HandleFunc("/v2/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://tokens.example.com/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
		o := l.options()
		o.Keys = account{user, password}
		_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
		wantError(t, err, registry.ReasonUnavailable, "sends for tokens to tokens.example.com", "credentials do not go there")
		if l.credentials.Load() != 0 {
			t.Error("it got credentials beside")
		}
	})
	t.Run("token server in the clear", func(t *testing.T) {
		plain := newLiar(t, false)
		l := newLiar(t, true)
		l.mux = http.NewServeMux()
		l.mux.HandleFunc("/v2/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token"`, plain.URL))
			w.WriteHeader(http.StatusUnauthorized)
		})
		o := l.options()
		o.Keys = account{user, password}
		_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
		wantError(t, err, registry.ReasonUnavailable)
		if plain.credentials.Load() != 0 {
			t.Error("credentials went over plain HTTP")
		}
	})
	t.Run("blobs elsewhere", func(t *testing.T) {
		module := []byte(wasm)
		good := manifest(digestOf(module), len(module))
		store := newLiar(t, true)
		store.mux.HandleFunc("/blob", answer(wasm))
		l := newLiar(t, true)
		l.mux = http.NewServeMux()
		l.serve(good, digestOf(good))
		l.blob(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, store.URL+"/blob", http.StatusFound) })
		l.mux.HandleFunc("/v2/{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
		o := l.options() // httptest's servers have one certificate
		o.Keys = account{user, password}
		image, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
		if err != nil || string(image.Files[registry.ModuleName]) != wasm {
			t.Fatalf("%v, %v", image, err)
		}
		if l.credentials.Load() == 0 || store.credentials.Load() != 0 {
			t.Errorf("the registry got credentials %d times, where its blobs are %d times", l.credentials.Load(), store.credentials.Load())
		}
	})
}

// A token server that answers with a secret and no token is not repeated.
// The registry itself may repeat them where a body comes with its error.
func TestABlobThatIsDeniedRepeatsNoCredentials(t *testing.T) {
	l, module := newLiar(t, true), []byte(wasm)
	l.mux = http.NewServeMux()
	l.mux.HandleFunc("/v2/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	data := manifest(digestOf(module), len(module))
	l.serve(data, digestOf(data))
	says := func(string) string { return "quota exceeded" }
	l.blob(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{"code": "DENIED", "message": says(password)}}})
	})
	o := l.options()
	o.Keys = account{user, password}
	_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
	wantError(t, err, registry.ReasonDenied, "denies it (403 DENIED: quota exceeded)")
	says = func(password string) string { return "no right with " + password }
	_, err = pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
	wantError(t, err, registry.ReasonDenied, "denies it (403)")
}

// A registry, or its token server, that repeats the credentials which it got is
// not repeated in turn: more people read Events than Secrets.
func TestWordsWithCredentialsAreNotRepeated(t *testing.T) {
	for name, says := range map[string]func(user, password, header string) string{
		"password": func(_, password, _ string) string { return "wrong: " + password },
		"header":   func(_, _, header string) string { return "wrong: " + header },
	} {
		for _, challenge := range []string{`Basic realm="r"`, `Bearer realm="%s/token"`} {
			t.Run(name+" "+challenge[:5], func(t *testing.T) {
				l := newLiar(t, true)
				l.mux = http.NewServeMux()
				l.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
					text := "sign in"
					if user, password, ok := r.BasicAuth(); ok {
						text = says(user, password, r.Header.Get("Authorization"))
					}
					w.Header().Set("WWW-Authenticate", strings.Replace(challenge, "%s", l.URL, 1))
					w.WriteHeader(http.StatusUnauthorized)
					_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{"code": "DENIED", "message": text}}})
				})
				o := l.options()
				o.Keys = account{user, password}
				_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
				wantError(t, err, registry.ReasonDenied, "denies it (401")
			})
		}
	}
}

func TestAnswersOfTokenServersAreNotRepeated(t *testing.T) {
	l := newLiar(t, true)
	l.mux = http.NewServeMux()
	l.mux.HandleFunc("/v2/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token"`, l.URL))
		w.WriteHeader(http.StatusUnauthorized)
	})
	l.mux.HandleFunc("/token", answer(`{"refresh_token":"`+password+`"}`))
	o := l.options()
	o.Keys = account{user, password}
	_, err := pull(t.Context(), reference(t, l.address()+"/p:v1"), o)
	wantError(t, err, registry.ReasonUnavailable, "answers without a token")
}
