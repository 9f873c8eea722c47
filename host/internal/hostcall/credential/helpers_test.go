package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

var secretName = types.NamespacedName{Namespace: "kube-system", Name: "cloud"}

// fakeSecrets has one Secret.
type fakeSecrets struct {
	mu      sync.Mutex
	version int
	data    map[string][]byte
}

func newFakeSecrets(pairs ...string) *fakeSecrets {
	f := &fakeSecrets{}
	f.set(pairs...)
	return f
}

func (f *fakeSecrets) set(pairs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		f.data[pairs[i]] = []byte(pairs[i+1])
	}
	f.version++
}

func (f *fakeSecrets) Get(_ context.Context, namespace, name string) (map[string][]byte, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if (types.NamespacedName{Namespace: namespace, Name: name}) != secretName {
		return nil, "", fmt.Errorf("Secret %s/%s does not exist", namespace, name)
	}
	return f.data, fmt.Sprint(f.version), nil
}

// newTestSet returns a set of one credential "cloud".
func newTestSet(t testing.TB, secrets Secrets, spec Spec) (*Set, *clocktesting.FakePassiveClock) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(start)
	spec.Name, spec.Secret = "cloud", secretName
	set, err := NewSet(secrets, []Spec{spec}, Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return set, clock
}

// serve returns the URL of a server on loopback.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// record returns the URL of a server that keeps its last request.
func record(t testing.TB) (string, *http.Request) {
	t.Helper()
	last := new(http.Request)
	var mu sync.Mutex // some tests send from several goroutines
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		*last = *r.Clone(context.Background())
		last.Body = io.NopCloser(bytes.NewReader(body))
	}), last
}

// answer is what a server sent.
type answer struct {
	status int
	header http.Header
	body   string
}

// send does what egress does: apply, send, hand back.
func send(t testing.TB, set *Set, scope, method, url, body string, headers ...string) answer {
	t.Helper()
	out, err := trySend(t, set, scope, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func trySend(t testing.TB, set *Set, scope, method, url, body string, headers ...string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	answered, err := set.Apply(t.Context(), "cloud", scope, req, []byte(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answered != nil {
		out = answered(resp.StatusCode, resp.Header, out)
	}
	return answer{resp.StatusCode, resp.Header, string(out)}, nil
}

// refused returns the error of Apply.
func refused(t testing.TB, err error, code abi.Code, parts ...string) {
	t.Helper()
	var e *abi.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *abi.Error", err, err)
	}
	if e.Code != code {
		t.Errorf("the code is %v, want %v: %v", e.Code, code, e)
	}
	for _, part := range parts {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q does not say %q", e.Message, part)
		}
	}
}

// apply is Set.Apply where nobody waits for the answer.
func apply(ctx context.Context, set *Set, name, scope string, req *http.Request) error {
	_, err := set.Apply(ctx, name, scope, req, nil)
	return err
}

func newRequest(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
