package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// RoundTrip answers client-go.
func (k *kube) RoundTrip(r *http.Request) (*http.Response, error) {
	s, known, rest := parsePath(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/version":
		return replyJSON(r, http.StatusOK, libraryVersion())
	case r.Method == http.MethodPost && s.resource == "events":
		return k.event(r)
	case r.Method == http.MethodPatch && s.resource == "events":
		// The patch of an earlier Event: the recorder then sends it anew,
		// whole.
		return refuse(r, http.StatusNotFound, metav1.StatusReasonNotFound, "events are not kept here")
	case known == nil:
		return k.forbid(r, s.resource, "the host has no "+s.resource+" for providers: only nodes, services, endpointslices, configmaps and secrets")
	case r.Method == http.MethodGet && rest == "":
		return k.read(r, s, known)
	case r.Method == http.MethodPatch && (rest == "" || rest == "status"), r.Method == http.MethodPut && rest == "":
		// A patch of the status may change metadata as well, as
		// service/helpers.PatchService does.
		return k.change(r, s, known)
	}
	return k.forbid(r, s.resource+"/"+rest, onlyMetadata)
}

const onlyMetadata = "a provider may change annotations and labels of the Service or Node of its op, by providers[].kube.annotations and labels of the HostConfiguration, and nothing else"

func (k *kube) read(r *http.Request, s scope, known *kind) (*http.Response, error) {
	q, err := newQuery(r, s, known)
	switch {
	case err != nil:
		return k.failed(r, err)
	case isTrue(r.URL, "watch"):
		return k.watch(r, q)
	case s.name != "":
		return k.get(r, q)
	}
	return k.list(r, q)
}

// libraryVersion is the API server's version for the provider: that of the
// libraries that it was built with.
func libraryVersion() *version.Info {
	return &version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0+wasm-ccm"}
}

// event makes an Event for the op's object, by the host call event. Those of
// other objects are only logged.
func (k *kube) event(r *http.Request) (*http.Response, error) {
	body, got, err := decode(r)
	if err != nil {
		return k.failed(r, err)
	}
	switch e := got.(type) {
	case *v1.Event:
		k.bridge.event(aboutOf(e.InvolvedObject), e.Type, e.Reason, e.Message)
	case *eventsv1.Event:
		k.bridge.event(aboutOf(e.Regarding), e.Type, e.Reason, e.Note)
	default:
		return k.failed(r, sdk.Invalidf("%T is no event", got))
	}
	return reply(r, http.StatusCreated, r.Header.Get("Content-Type"), body), nil
}

func aboutOf(o v1.ObjectReference) string { return o.Kind + "/" + o.Namespace + "/" + o.Name }

// decode reads a request's object.
func decode(r *http.Request) (body []byte, o runtime.Object, err error) {
	if body, err = io.ReadAll(r.Body); err != nil {
		return nil, nil, err
	}
	if o, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err != nil {
		return nil, nil, invalid(err)
	}
	return body, o, nil
}

// answers maps the host's errors to a client's.
var answers = map[abi.Code]struct {
	status int
	reason metav1.StatusReason
}{
	abi.CodeDenied:      {http.StatusForbidden, metav1.StatusReasonForbidden},
	abi.CodeNotFound:    {http.StatusNotFound, metav1.StatusReasonNotFound},
	abi.CodeConflict:    {http.StatusConflict, metav1.StatusReasonConflict},
	abi.CodeInvalid:     {http.StatusBadRequest, metav1.StatusReasonBadRequest},
	abi.CodeTooLarge:    {http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge},
	abi.CodeThrottled:   {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests},
	abi.CodeUnavailable: {http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
	abi.CodeDeadline:    {http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
}

// failed answers with an error of the host. Client-go itself retries the
// transient ones.
func (k *kube) failed(r *http.Request, err error) (*http.Response, error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	a, known := answers[sdk.CodeOf(err)]
	if !known {
		a.status, a.reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
	}
	response, err := refuse(r, a.status, a.reason, err.Error())
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		response.Header.Set("Retry-After", "1")
	}
	return response, err
}

// maxTold bounds the refusals that are logged.
const maxTold = 64

// forbid refuses a request that no host call can serve, and logs it once.
func (k *kube) forbid(r *http.Request, resource, message string) (*http.Response, error) {
	what := r.Method + " " + resource
	k.mu.Lock()
	first := !k.told[what] && len(k.told) < maxTold
	k.told[what] = true
	if r.Method == http.MethodGet {
		k.refused[resource] = true
	}
	k.mu.Unlock()
	if first {
		log.Printf("upstream: the provider's request %s %s is refused: %s", r.Method, r.URL.Path, message)
	}
	return refuse(r, http.StatusForbidden, metav1.StatusReasonForbidden, message)
}

func refuse(r *http.Request, code int, reason metav1.StatusReason, message string) (*http.Response, error) {
	return replyJSON(r, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
		Message: fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, message),
	})
}

func replyJSON(r *http.Request, code int, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return reply(r, code, asJSON, data), nil
}

func reply(r *http.Request, code int, contentType string, data []byte) *http.Response {
	return stream(r, code, contentType, io.NopCloser(bytes.NewReader(data)), int64(len(data)))
}

func stream(r *http.Request, code int, contentType string, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: length, Request: r,
	}
}
