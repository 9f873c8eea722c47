package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// fault is a failure of a cloud. A faulty request goes to a server of the kit,
// over a real connection and through the host's own client, or, with mangle, to
// the cloud, whose answer is changed.
type fault struct {
	name string
	// answer is the server's handler; it may be nil with mangle.
	answer func(w http.ResponseWriter, r *http.Request)
	// status is the status that a message should name, or 0.
	status int
	// mangle changes the cloud's answer.
	mangle func(*abi.HttpResult)
	// store is the store's answer; abi.CodeOK: the store has no fault.
	store abi.Code
	// lost: the request is carried out, and its answer lost.
	lost bool
	// hangs: there is no answer before the end of the op.
	hangs bool
	// readsOnly: for a write this may be a correct answer.
	readsOnly bool
}

// retryAfter is the delay of a throttling cloud: longer than the host waits by
// itself, so that it reaches the provider.
const retryAfter = 120 * time.Second

const page = "<!DOCTYPE html><html><head><title>Maintenance</title></head><body><h1>We will be back soon</h1></body></html>"

// faults returns all faults.
func faults() []*fault {
	return []*fault{
		throttling(),
		status(http.StatusRequestEntityTooLarge, "application/json", `{"overLimit":{"code":413,"message":"over limit","retryAfter":"120"}}`, map[string]string{"Retry-After": "120"}),
		status(http.StatusInternalServerError, "application/json", `{"error":{"code":500,"message":"internal error"}}`, nil),
		status(http.StatusBadGateway, "text/html", page, nil),
		unavailable(),
		status(http.StatusUnauthorized, "application/json", `{"error":{"code":401,"message":"the request you have made requires authentication"}}`, nil),
		status(http.StatusForbidden, "application/json", `{"error":{"code":403,"message":"policy does not allow it"}}`, nil),
		{name: "hang", answer: hang, hangs: true, store: abi.CodeDeadline},
		{name: "reset", answer: reset, store: abi.CodeUnavailable},
		{name: "truncated", mangle: truncate, readsOnly: true},
		{name: "200 with a page of HTML", answer: answering(http.StatusOK, "text/html", page, nil), readsOnly: true},
		{name: "an empty object {}", answer: answering(http.StatusOK, "application/json", "{}", nil), readsOnly: true},
	}
}

// conflict is the answer for a busy or concurrently changed object.
func conflict() *fault {
	f := status(http.StatusConflict, "application/json", `{"error":{"code":409,"message":"the object is busy"}}`, nil)
	f.store = abi.CodeConflict
	return f
}

// lostAnswer is a request that is carried out without an answer.
func lostAnswer() *fault {
	return &fault{name: "answer lost", mangle: lose, store: abi.CodeUnavailable, lost: true}
}

func throttling() *fault {
	f := status(http.StatusTooManyRequests, "application/json", `{"error":{"code":429,"message":"too many requests"}}`, map[string]string{"Retry-After": strconv.Itoa(int(retryAfter.Seconds()))})
	f.store = abi.CodeThrottled
	return f
}

func unavailable() *fault {
	return status(http.StatusServiceUnavailable, "text/plain", "no server is available", nil)
}

func status(code int, kind, body string, headers map[string]string) *fault {
	f := &fault{name: strconv.Itoa(code), status: code, answer: answering(code, kind, body, headers)}
	if code == http.StatusServiceUnavailable {
		f.store = abi.CodeUnavailable
	}
	return f
}

func answering(code int, kind, body string, headers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the client may be gone
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// reset aborts the connection in the middle of an exchange.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise the close is graceful
	}
	_ = conn.Close()
}

// truncate cuts a body in half, with a matching length. A refusal loses its
// whole body, since its status alone is sufficient.
func truncate(r *abi.HttpResult) {
	if r.Response == nil {
		return
	}
	if r.Response.Status >= http.StatusBadRequest {
		lose(r)
	} else {
		r.Response.Body = r.Response.Body[:len(r.Response.Body)/2]
	}
}

func lose(r *abi.HttpResult) {
	*r = abi.HttpResult{Code: uint32(abi.CodeUnavailable), Error: &abi.ErrorDetail{Message: "connection reset by peer"}}
}

// quickly is the host's first delay before a retry, reduced to save time.
const quickly = 10 * time.Millisecond

// faultServer is a failing cloud. It listens on loopback.
type faultServer struct {
	server  *http.Server
	address netip.AddrPort
	current atomic.Pointer[fault]
	served  atomic.Int64
	options egress.Options
	names   []string // of credentials
}

// newFaultServer serves until close. The options are those for the requests.
func newFaultServer(ctx context.Context, options egress.Options, credentials []string) (*faultServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a server for faults: %w", err)
	}
	options.Backoff = quickly // its failures are no overload
	s := &faultServer{address: listener.Addr().(*net.TCPAddr).AddrPort(), options: options, names: credentials}
	s.server = &http.Server{ReadHeaderTimeout: grant.LoadTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		s.current.Load().answer(w, r)
	})}
	go func() { _ = s.server.Serve(listener) }() // until close
	return s, nil
}

func (s *faultServer) close() { _ = s.server.Close() }

// client returns a client without history: no breaker is open and no budget used.
func (s *faultServer) client() (*egress.Client, error) {
	return egress.New([]egress.Grant{{
		Scheme: "http", Host: s.address.Addr().String(), Port: s.address.Port(), PathPrefix: "/", Credentials: s.names,
	}}, s.options)
}

// redirected is the request with the server's address.
func (s *faultServer) redirected(request *abi.HttpRequest) (*abi.HttpRequest, error) {
	u, err := url.Parse(request.Url)
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	u.Scheme, u.Host = "http", s.address.String()
	out := &abi.HttpRequest{
		Method: request.Method, Url: u.String(), Headers: request.Headers, Body: request.Body, TimeoutMs: request.TimeoutMs,
		FollowRedirects: request.FollowRedirects,
	}
	// Options.HTTP has its own credentials.
	if slices.Contains(s.names, request.Credential) {
		out.Credential, out.CredentialScope = request.Credential, request.CredentialScope
	}
	return out, nil
}

// send sends requests into the fault.
func (s *faultServer) send(ctx context.Context, f *fault, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	s.current.Store(f)
	out := make([]*abi.HttpRequest, len(requests))
	for i, request := range requests {
		if out[i], err = s.redirected(request); err != nil {
			return nil, err
		}
	}
	return client.Send(ctx, out)
}
