package statusapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// fake gives predefined answers.
type fake struct {
	err   error
	asked v1alpha1.Object
	text  string
	hold  chan struct{} // nil: it answers at once
	// These are the answers, unless nil.
	status      *v1alpha1.Status
	explanation *v1alpha1.Explanation
	calls       *v1alpha1.Calls
}

func (f *fake) Status(ctx context.Context) (*v1alpha1.Status, error) {
	if f.hold != nil {
		select {
		case f.hold <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		<-ctx.Done()
	}
	return cmp.Or(f.status, &v1alpha1.Status{Manager: v1alpha1.Manager{Version: f.text}}), f.err
}

func (f *fake) Why(_ context.Context, o v1alpha1.Object) (*v1alpha1.Explanation, error) {
	f.asked = o
	return cmp.Or(f.explanation, &v1alpha1.Explanation{Object: o, State: v1alpha1.StateDone}), f.err
}

func (f *fake) Reachability(context.Context) (*v1alpha1.Reachability, error) {
	return &v1alpha1.Reachability{}, f.err
}

func (f *fake) Calls(provider string) (*v1alpha1.Calls, error) {
	f.asked = v1alpha1.Object{Kind: "calls", Name: provider}
	return cmp.Or(f.calls, &v1alpha1.Calls{}), f.err
}

func serve(f *fake) http.Handler {
	mux := http.NewServeMux()
	Install(mux, f)
	return mux
}

func get(t *testing.T, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

func TestWhatIsAsked(t *testing.T) {
	for _, test := range []struct {
		method, query string
		code          int
		asked         v1alpha1.Object
	}{
		{"GET", "kind=Service&namespace=default&name=web", 200, v1alpha1.Object{Kind: "Service", Namespace: "default", Name: "web"}},
		{"GET", "kind=Node&namespace=default&name=worker-1.example.com", 200, v1alpha1.Object{Kind: "Node", Name: "worker-1.example.com"}},
		{"GET", "kind=Provider&name=static", 200, v1alpha1.Object{Kind: "Provider", Name: "static"}},
		{"HEAD", "kind=Route&name=a", 200, v1alpha1.Object{Kind: "Route", Name: "a"}},
		{"GET", "kind=Secret&namespace=default&name=web", 400, v1alpha1.Object{}},
		{"GET", "kind=Service&name=web", 400, v1alpha1.Object{}},
		{"GET", "kind=Service&namespace=a/b&name=web", 400, v1alpha1.Object{}},
		{"GET", "kind=Node", 400, v1alpha1.Object{}},
		{"GET", "kind=Node&name=" + url.QueryEscape("a\nb\x1b[31m"), 400, v1alpha1.Object{}},
		{"GET", "kind=Node&name=" + strings.Repeat("a", maxQuery), 400, v1alpha1.Object{}},
		{"GET", "", 400, v1alpha1.Object{}},
		{"POST", "kind=Provider&name=static", 405, v1alpha1.Object{}},
		{"DELETE", "kind=Provider&name=static", 405, v1alpha1.Object{}},
	} {
		f := &fake{}
		w := get(t, serve(f), test.method, v1alpha1.WhyPath+"?"+test.query)
		if w.Code != test.code || f.asked != test.asked {
			t.Errorf("%s %.60q: %d, asked %v: %s", test.method, test.query, w.Code, f.asked, w.Body)
		}
		if strings.ContainsRune(w.Body.String(), 0x1b) {
			t.Errorf("%.60q comes back as it was written: %q", test.query, w.Body)
		}
	}
}

func TestWhoseCallsAreAsked(t *testing.T) {
	for query, test := range map[string]struct {
		code     int
		provider string
	}{
		"":                {200, ""},
		"provider=static": {200, "static"},
		"provider=" + url.QueryEscape("a\nb\x1b[31m"): {400, ""},
		"provider=a/b": {400, ""},
	} {
		f := &fake{}
		w := get(t, serve(f), "GET", v1alpha1.CallsPath+"?"+query)
		if w.Code != test.code || f.asked.Name != test.provider || (f.asked.Kind == "calls") != (test.code == 200) {
			t.Errorf("%.60q: %d, asked %v: %s", query, w.Code, f.asked, w.Body)
		}
		if strings.ContainsRune(w.Body.String(), 0x1b) {
			t.Errorf("%.60q comes back as it was written: %q", query, w.Body)
		}
	}
	if w := get(t, serve(&fake{}), "POST", v1alpha1.CallsPath); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// An error has the code of the API server's, and one line.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int32
		text string
	}{
		{apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "a"), 404, `nodes "a" not found`},
		{apierrors.NewServiceUnavailable("it does not lead"), 503, "it does not lead"},
		{errors.New("two\nlines"), 500, "Internal error occurred: two; lines"},
	} {
		w := get(t, serve(&fake{err: test.err}), "GET", v1alpha1.WhyPath+"?kind=Node&name=a")
		var said metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Code != test.code || w.Code != int(test.code) || said.Message != test.text || said.Kind != "Status" {
			t.Errorf("%v: %d %v: %s", test.err, w.Code, err, w.Body)
		}
	}
}

// Concurrent answers are bounded, and the size of each.
func TestAnswersAreBounded(t *testing.T) {
	answer := func(more int) *httptest.ResponseRecorder {
		return get(t, serve(&fake{text: strings.Repeat("a", more)}), "GET", v1alpha1.StatusPath)
	}
	room := v1alpha1.MaxAnswer - answer(1).Body.Len() + 1
	if w := answer(room); w.Code != http.StatusOK || w.Body.Len() != v1alpha1.MaxAnswer {
		t.Errorf("the largest answer: %d, %d bytes", w.Code, w.Body.Len())
	}
	w := answer(room + 1)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "more than 4 MiB") || w.Body.Len() > 1<<10 {
		t.Errorf("a larger answer: %d, %d bytes", w.Code, w.Body.Len())
	}
	f := &fake{hold: make(chan struct{})}
	h := serve(f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxAtOnce {
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", v1alpha1.StatusPath, nil))
		<-f.hold
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", v1alpha1.StatusPath, nil))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", w.Code, w.Body)
	}
}
