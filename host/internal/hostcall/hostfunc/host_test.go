package hostfunc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

var _ engine.Host = (*hostfunc.Host)(nil)

func encode(t testing.TB, m abi.Message) []byte {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// call makes a host call; response is nil where there is none.
func call(ctx context.Context, t testing.TB, h *hostfunc.Host, name string, request, response abi.Message) error {
	t.Helper()
	return callRaw(ctx, t, h, name, encode(t, request), response)
}

func callRaw(ctx context.Context, t testing.TB, h *hostfunc.Host, name string, request []byte, response abi.Message) error {
	t.Helper()
	code, result := h.HostCall(ctx, name, request)
	if code != abi.CodeOK {
		var detail abi.ErrorDetail
		if err := detail.UnmarshalVT(result); err != nil {
			t.Fatalf("the ErrorDetail does not decode: %v", err)
		}
		return &abi.Error{Code: code, Message: detail.Message, RetryAfter: time.Duration(detail.RetryAfterMs) * time.Millisecond}
	}
	if response == nil {
		if len(result) > 0 {
			t.Fatalf("%s has the result %x, want none", name, result)
		}
		return nil
	}
	if err := response.UnmarshalVT(result); err != nil {
		t.Fatalf("the response does not decode: %v", err)
	}
	return nil
}

func want(t *testing.T, err error, code abi.Code, text string) {
	t.Helper()
	var e *abi.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("error %v (%+v), want %v with %q", err, e, code, text)
	}
}

func onService(ctx context.Context) context.Context {
	return opcontext.NewContext(ctx, opcontext.Op{Object: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web", UID: "u"}})
}

// lines returns a logger and the lines that it has written.
func lines(verbosity int) (logr.Logger, *[]string) {
	var out []string
	return funcr.New(func(_, args string) { out = append(out, args) }, funcr.Options{Verbosity: verbosity}), &out
}

type fakeStore struct {
	read  func(prefix string) (*abi.StoreResponse, error)
	write func(*abi.StoreWrite) (*abi.StoreResponse, error)
}

func (s fakeStore) Read(_ context.Context, prefix string) (*abi.StoreResponse, error) {
	return s.read(prefix)
}

func (s fakeStore) Write(_ context.Context, w *abi.StoreWrite) (*abi.StoreResponse, error) {
	return s.write(w)
}

type fakeHTTP func([]*abi.HttpRequest) ([]*abi.HttpResult, error)

func (f fakeHTTP) Send(_ context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return f(requests)
}

type fakeEvents func(object runtime.Object, eventtype, reason, message string)

func (f fakeEvents) Event(object runtime.Object, eventtype, reason, message string) {
	f(object, eventtype, reason, message)
}

// granted has every capability; the fakes fail the test when they are called.
func granted(t *testing.T) hostfunc.Options {
	return hostfunc.Options{
		Provider: "static", Logger: logr.Discard(), Nodes: true, Cache: hostfunc.NewCache(clocktesting.NewFakePassiveClock(time.Unix(0, 0))),
		Events: fakeEvents(func(runtime.Object, string, string, string) { t.Error("an Event was made") }),
		Store: fakeStore{
			read:  func(string) (*abi.StoreResponse, error) { t.Error("the store was read"); return nil, nil },
			write: func(*abi.StoreWrite) (*abi.StoreResponse, error) { t.Error("the store was written"); return nil, nil },
		},
		HTTP: fakeHTTP(func([]*abi.HttpRequest) ([]*abi.HttpResult, error) { t.Error("a request was sent"); return nil, nil }),
		Kube: fakeKube{
			read:  func(*abi.KubeRequest) ([]byte, int, error) { t.Error("objects were read"); return nil, 0, nil },
			patch: func(*abi.KubeRequest, *corev1.ObjectReference) error { t.Error("an object was changed"); return nil },
		},
	}
}

func TestWithoutAGrant(t *testing.T) {
	h := hostfunc.New(hostfunc.Options{Provider: "static", Logger: logr.Discard()})
	for _, name := range abi.Capabilities() {
		text := `provider "static"`
		if name == abi.CapabilityHTTP {
			text = "providers[].grants"
		}
		want(t, callRaw(onService(t.Context()), t, h, name, nil, nil), abi.CodeDenied, text)
	}
	if err := call(t.Context(), t, h, abi.ImportLog, &abi.LogRequest{Message: "needs no grant"}, nil); err != nil {
		t.Error(err)
	}
}

func TestUndecodableRequests(t *testing.T) {
	h := hostfunc.New(granted(t))
	for _, name := range append(abi.Capabilities(), abi.ImportLog) {
		for _, request := range [][]byte{{0x0a}, {0x0a, 0x05, 'x'}, {0x07}, bytes.Repeat([]byte{0xff}, 20)} {
			want(t, callRaw(onService(t.Context()), t, h, name, request, nil), abi.CodeInvalid, name+": the request does not decode")
		}
	}
	want(t, callRaw(t.Context(), t, h, abi.CapabilityStore, make([]byte, abi.MaxHostCallBytes+1), nil), abi.CodeTooLarge, "limit")
	want(t, callRaw(t.Context(), t, h, "disk", nil, nil), abi.CodeNotImplemented, "disk")
}

func FuzzHostCall(f *testing.F) {
	for i := range append(abi.Capabilities(), abi.ImportLog) {
		f.Add(i, []byte{0x0a, 0x01, 'a', 0x12, 0x04, 0x0a, 0x00, 0x10, 0x01})
		for _, sparse := range []string{"", "\x0a\x00", "\x12\x00", "\x32\x00"} { // no part, or an empty one
			f.Add(i, []byte(sparse))
		}
	}
	options := hostfunc.Options{
		Provider: "fuzz", Logger: logr.Discard(), Nodes: true, Cache: hostfunc.NewCache(clocktesting.NewFakePassiveClock(time.Unix(0, 0))),
		Events: fakeEvents(func(runtime.Object, string, string, string) {}),
		Store: fakeStore{
			read:  func(string) (*abi.StoreResponse, error) { return &abi.StoreResponse{Version: "v"}, nil },
			write: func(*abi.StoreWrite) (*abi.StoreResponse, error) { return &abi.StoreResponse{Version: "v"}, nil },
		},
		HTTP: fakeHTTP(func(r []*abi.HttpRequest) ([]*abi.HttpResult, error) { return make([]*abi.HttpResult, len(r)), nil }),
		Kube: fakeKube{
			read:  func(*abi.KubeRequest) ([]byte, int, error) { return nil, 0, nil },
			patch: func(*abi.KubeRequest, *corev1.ObjectReference) error { return nil },
		},
		Rates: hostfunc.NewRates(hostfunc.Limits{StoreCalls: 1 << 30, StoreCallsBurst: 1 << 30, KubeCalls: 1 << 30, KubeCallsBurst: 1 << 30}),
	}
	h := hostfunc.New(options)
	f.Fuzz(func(t *testing.T, name int, request []byte) {
		names := append(abi.Capabilities(), abi.ImportLog)
		code, result := h.HostCall(onService(context.Background()), names[uint(name)%uint(len(names))], request)
		if !code.Known() || len(result) > abi.MaxHostResultBytes {
			t.Errorf("code %v with %d bytes", code, len(result))
		}
	})
}

func TestErrorsKeepTheirCode(t *testing.T) {
	options := granted(t)
	for name, test := range map[string]struct {
		err  error
		want abi.Code
	}{
		"code":      {&abi.Error{Code: abi.CodeConflict, Message: "text"}, abi.CodeConflict},
		"wrapped":   {fmt.Errorf("text: %w", &abi.Error{Code: abi.CodeTooLarge}), abi.CodeTooLarge},
		"deadline":  {fmt.Errorf("text: %w", context.DeadlineExceeded), abi.CodeDeadline},
		"other":     {errors.New("text"), abi.CodeInternal},
		"long":      {errors.New(strings.Repeat("ü", abi.MaxErrorMessageBytes)), abi.CodeInternal},
		"not UTF-8": {errors.New("a\xff"), abi.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			options.Store = fakeStore{read: func(string) (*abi.StoreResponse, error) { return nil, test.err }}
			err := call(t.Context(), t, hostfunc.New(options), abi.CapabilityStore, &abi.StoreRequest{}, nil)
			want(t, err, test.want, "store: ")
			if len(err.Error()) > abi.MaxErrorMessageBytes || strings.ToValidUTF8(err.Error(), "") != err.Error() {
				t.Errorf("a message of %d bytes: %q", len(err.Error()), err.Error())
			}
		})
	}
}

func TestRetryAfterReachesTheGuest(t *testing.T) {
	options := granted(t)
	options.Store = fakeStore{read: func(string) (*abi.StoreResponse, error) {
		return nil, &abi.Error{Code: abi.CodeThrottled, RetryAfter: 3 * time.Second}
	}}
	err := call(t.Context(), t, hostfunc.New(options), abi.CapabilityStore, &abi.StoreRequest{}, nil)
	var e *abi.Error
	if !errors.As(err, &e) || e.RetryAfter != 3*time.Second {
		t.Errorf("%+v", e)
	}
}

func TestStore(t *testing.T) {
	options := granted(t)
	var prefixes, versions []string
	options.Store = fakeStore{
		read: func(prefix string) (*abi.StoreResponse, error) {
			prefixes = append(prefixes, prefix)
			return &abi.StoreResponse{Version: "1", Entries: []*abi.StoreEntry{{Key: "a", Value: []byte("\xff")}}}, nil
		},
		write: func(w *abi.StoreWrite) (*abi.StoreResponse, error) {
			versions = append(versions, w.Version)
			return &abi.StoreResponse{Version: "2"}, nil
		},
	}
	h := hostfunc.New(options)
	var got abi.StoreResponse
	if err := call(t.Context(), t, h, abi.CapabilityStore, &abi.StoreRequest{Prefix: "p."}, &got); err != nil || got.Version != "1" || string(got.Entries[0].Value) != "\xff" {
		t.Errorf("read: %v, %v", &got, err)
	}
	got = abi.StoreResponse{}
	if err := call(t.Context(), t, h, abi.CapabilityStore, &abi.StoreRequest{Write: &abi.StoreWrite{Version: "1"}}, &got); err != nil || got.Version != "2" {
		t.Errorf("write: %v, %v", &got, err)
	}
	want(t, call(t.Context(), t, h, abi.CapabilityStore, &abi.StoreRequest{Write: &abi.StoreWrite{Version: "1"}, Prefix: "p"}, nil), abi.CodeInvalid, "prefix")
	if diff := cmp.Diff([][]string{{"p."}, {"1"}}, [][]string{prefixes, versions}); diff != "" {
		t.Error(diff)
	}
}

func TestStoreRateIsBounded(t *testing.T) {
	options := granted(t)
	options.Store = fakeStore{read: func(string) (*abi.StoreResponse, error) { return &abi.StoreResponse{Version: "1"}, nil }}
	options.Rates = hostfunc.NewRates(hostfunc.Limits{StoreCalls: 1, StoreCallsBurst: 1})
	h := hostfunc.New(options)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := call(ctx, t, h, abi.CapabilityStore, &abi.StoreRequest{}, &abi.StoreResponse{}); err != nil {
		t.Error(err)
	}
	want(t, call(ctx, t, h, abi.CapabilityStore, &abi.StoreRequest{}, nil), abi.CodeThrottled, "too many calls")
}

func TestHTTP(t *testing.T) {
	options := granted(t)
	options.HTTP = fakeHTTP(func(requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
		var out []*abi.HttpResult
		for _, r := range requests {
			out = append(out, &abi.HttpResult{Response: &abi.HttpResponse{Status: 200, Body: append(r.Body, 0xff)}})
		}
		return out, nil
	})
	h := hostfunc.New(options)
	var got abi.HttpSendResponse
	err := call(t.Context(), t, h, abi.CapabilityHTTP, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{Body: []byte("a")}, {Body: []byte("b")}}}, &got)
	if err != nil || len(got.Results) != 2 || string(got.Results[1].Response.Body) != "b\xff" {
		t.Errorf("%v, %v", &got, err)
	}
	for _, n := range []int{0, abi.MaxHTTPBatch + 1} {
		batch := &abi.HttpSendRequest{}
		for range n {
			batch.Requests = append(batch.Requests, &abi.HttpRequest{})
		}
		want(t, call(t.Context(), t, h, abi.CapabilityHTTP, batch, nil), abi.CodeInvalid, "in one batch")
	}
}

func TestResultThatIsTooLarge(t *testing.T) {
	options := granted(t)
	options.HTTP = fakeHTTP(func([]*abi.HttpRequest) ([]*abi.HttpResult, error) {
		return []*abi.HttpResult{{Response: &abi.HttpResponse{Body: make([]byte, abi.MaxHostResultBytes)}}}, nil
	})
	err := call(t.Context(), t, hostfunc.New(options), abi.CapabilityHTTP, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{{}}}, nil)
	want(t, err, abi.CodeTooLarge, "ask for less")
}
