// Package statusapi serves the manager's API (host/status/v1alpha1) over HTTP,
// and its form for people: the status page. It may import only that package and
// text. The manager's secure port has already authenticated and authorized the
// client with the API server.
package statusapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Source provides the answers. It is safe for concurrent use. Its errors are
// apierrors if the client is to get the code.
type Source interface {
	// Status of the manager and its providers.
	Status(ctx context.Context) (*v1alpha1.Status, error)
	// Why explains one object.
	Why(ctx context.Context, object v1alpha1.Object) (*v1alpha1.Explanation, error)
	// Calls to the cloud of a provider, or for "" of all.
	Calls(provider string) (*v1alpha1.Calls, error)
	// Reachability connects to the granted hosts, or returns a recent result.
	Reachability(ctx context.Context) (*v1alpha1.Reachability, error)
}

const (
	// maxAtOnce bounds concurrent answers.
	maxAtOnce = 4
	// answerTimeout bounds one answer.
	answerTimeout = 10 * time.Second
	// maxQuery bounds the query of a request, in bytes.
	maxQuery = 4 << 10
)

// Mux receives the handlers.
type Mux interface {
	Handle(path string, handler http.Handler)
}

// Install adds the paths of the API.
func Install(mux Mux, source Source) {
	turns := make(chan struct{}, maxAtOnce)
	mux.Handle(v1alpha1.StatusPath, answering(turns, func(ctx context.Context, _ url.Values) (any, error) { return source.Status(ctx) }))
	mux.Handle(v1alpha1.WhyPath, answering(turns, why(source)))
	mux.Handle(v1alpha1.CallsPath, answering(turns, calls(source)))
	mux.Handle(v1alpha1.ReachabilityPath, answering(turns, func(ctx context.Context, _ url.Values) (any, error) { return source.Reachability(ctx) }))
	newPages().install(mux, turns, source)
}

// why explains the object in a query.
func why(source Source) func(context.Context, url.Values) (any, error) {
	return func(ctx context.Context, query url.Values) (any, error) {
		object, err := objectOf(query)
		if err != nil {
			return nil, err
		}
		return source.Why(ctx, object)
	}
}

// calls returns the calls of the provider in a query, or of all.
func calls(source Source) func(context.Context, url.Values) (any, error) {
	return func(_ context.Context, query url.Values) (any, error) {
		provider := query.Get("provider")
		if provider != "" && len(validation.IsDNS1123Subdomain(provider)) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("provider %s: must be the name of a provider", text.Quote(provider)))
		}
		return source.Calls(provider)
	}
}

// answering makes the handler of one path.
func answering(turns chan struct{}, answer func(context.Context, url.Values) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		object, err := inTurn(ctx, turns, r, answer)
		if err != nil {
			object = statusOf(err)
		}
		write(w, r, object)
	})
}

func inTurn(ctx context.Context, turns chan struct{}, r *http.Request, answer func(context.Context, url.Values) (any, error)) (any, error) {
	// Invariant V2 (host/SECURITY.md): nothing but reading, few at a time, and for a bounded time.
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "this API is read-only: use GET", 0, true)
	}
	if len(r.URL.RawQuery) > maxQuery {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the query has more than %d bytes", maxQuery))
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("others are being answered: ask again", 1)
	}
	return answer(ctx, r.URL.Query())
}

// kinds are the kinds of objects with an explanation.
var kinds = []string{v1alpha1.KindService, v1alpha1.KindNode, v1alpha1.KindRoute, v1alpha1.KindVolume, v1alpha1.KindProvider}

// objectOf reads the object in a query.
func objectOf(query url.Values) (v1alpha1.Object, error) {
	o := v1alpha1.Object{Kind: query.Get("kind"), Namespace: query.Get("namespace"), Name: query.Get("name")}
	switch {
	case !slices.Contains(kinds, o.Kind):
		return o, apierrors.NewBadRequest(fmt.Sprintf("kind %s: must be one of %s", text.Quote(o.Kind), strings.Join(kinds, ", ")))
	case len(validation.IsDNS1123Subdomain(o.Name)) > 0:
		return o, apierrors.NewBadRequest(fmt.Sprintf("name %s: must be the name of an object", text.Quote(o.Name)))
	case o.Kind == v1alpha1.KindService && len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return o, apierrors.NewBadRequest(fmt.Sprintf("namespace %s: must be the name of a namespace", text.Quote(o.Namespace)))
	case o.Kind != v1alpha1.KindService:
		o.Namespace = ""
	}
	return o, nil
}

// statusOf formats an error as the API server does.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	s := known.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	s.Message = text.Line(s.Message, v1alpha1.MaxText)
	s.Details = nil
	return &s
}

func write(w http.ResponseWriter, r *http.Request, object any) {
	code := http.StatusOK
	if s, failed := object.(*metav1.Status); failed {
		code = int(s.Code)
	}
	data, err := json.MarshalIndent(object, "", "  ")
	data = append(data, '\n')
	if err == nil && len(data) > v1alpha1.MaxAnswer {
		err = fmt.Errorf("it has more than %d MiB; ask for the calls of one provider, or for one object (why)", v1alpha1.MaxAnswer>>20)
	}
	if err != nil {
		http.Error(w, "the answer cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	if _, err := w.Write(data); err != nil {
		klog.FromContext(r.Context()).V(2).Info("An answer was not read to its end", "path", r.URL.Path, "err", err)
	}
}
