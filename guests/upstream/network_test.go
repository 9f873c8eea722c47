package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/upstream/early"
)

// All kinds of HTTP clients that providers use lead to the host.
func TestWaysOut(t *testing.T) {
	for name, c := range map[string]struct {
		transport func(*bridge) *http.Transport
		url       string
	}{
		"the default transport": {func(b *bridge) *http.Transport {
			transport := &http.Transport{}
			early.Transport(transport)
			transport.RegisterProtocol("https", b) // as install does
			return transport
		}, "https://api.example.com/%s"},
		"a clone of it, https": {func(*bridge) *http.Transport {
			transport := &http.Transport{}
			early.Transport(transport)
			return transport.Clone()
		}, "https://api.example.com/%s"},
		"a clone of it, http": {func(*bridge) *http.Transport {
			transport := &http.Transport{}
			early.Transport(transport)
			return transport.Clone()
		}, "http://api.example.com/%s"},
		"one of its own, https": {func(b *bridge) *http.Transport {
			return &http.Transport{Proxy: proxyOf(b), TLSClientConfig: &tls.Config{RootCAs: b.server.ca.pool, MinVersion: tls.VersionTLS12}}
		}, "https://api.example.com/%s"},
		"one of its own, http": {func(b *bridge) *http.Transport {
			return &http.Transport{Proxy: proxyOf(b)}
		}, "http://api.example.com/%s"},
		"one of its own, an IP address": {func(b *bridge) *http.Transport {
			return &http.Transport{Proxy: proxyOf(b), TLSClientConfig: &tls.Config{RootCAs: b.server.ca.pool, MinVersion: tls.VersionTLS12}}
		}, "https://192.0.2.1:8443/%s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &servers{url: c.url}
			r := newRig(t, "requests: [{host: '*', credential: token}]", func(*Environment) (cloudprovider.Interface, error) { return &cloud{v2: s}, nil })
			before := early.Dial
			early.Dial = r.p.bridge.server.dial
			t.Cleanup(func() { early.Dial = before })
			if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
				t.Fatal(err)
			}
			s.client = &http.Client{Transport: c.transport(r.p.bridge)}
			r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"server": {"id": "101"}}` })
			var got abi.InstanceExistsResponse
			if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &got); err != nil || got.Existence != sdk.Exists {
				t.Fatalf("%v, %v", got.Existence, err)
			}
			if want := strings.ReplaceAll(c.url, "%s", "101"); r.requests[0].Url != want || r.requests[0].Credential != "token" {
				t.Errorf("sent to %s by %q, want %s", r.requests[0].Url, r.requests[0].Credential, want)
			}
			for _, header := range r.requests[0].Headers {
				if strings.Contains(header.Value, "the-guests-own") {
					t.Errorf("header %s left the guest", header.Name)
				}
			}
		})
	}
}

// Clients use no proxy for loopback: the guest listens there itself.
func TestLoopback(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "loopback: ["+address+"]", func(*Environment) (cloudprovider.Interface, error) {
		return &cloud{v2: &servers{&http.Client{Transport: &http.Transport{}}, address + "/%s"}}, nil
	})
	r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"server": {"id": "101"}}` })
	var got abi.InstanceExistsResponse
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &got); err != nil || got.Existence != sdk.Exists {
		t.Fatalf("%v, %v", got.Existence, err)
	}
	if r.requests[0].Url != address+"/101" {
		t.Errorf("sent to %s", r.requests[0].Url)
	}
}

// A client that missed the ways to the host reads "connection refused", as if
// the cloud were down. The op's error says what is missing.
func TestNoWayOut(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	address := "http://" + free.Addr().String()
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		return &cloud{v2: &servers{&http.Client{Transport: &http.Transport{}}, address + "/%s"}}, nil
	})
	err = r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{})
	if want := "add to the configuration loopback: [" + address + "]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	lookup := &url.Error{Op: "Get", URL: "https://api.example.com", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api.example.com"}}}
	if why := missing(lookup); !strings.Contains(why, "upstream.Environment.Transport") {
		t.Errorf("%v: %q", lookup, why)
	}
	if why := missing(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset")}); why != "" {
		t.Errorf("a connection that was there: %q", why)
	}
}

// Many providers read a token from a file beside their cloud config.
func TestNoFiles(t *testing.T) {
	r := newRig(t, "", func(*Environment) (cloudprovider.Interface, error) {
		return nil, fmt.Errorf("token: %w", &fs.PathError{Op: "open", Path: "/etc/mycloud/token", Err: syscall.EBADF})
	})
	err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{})
	if err == nil || !strings.Contains(err.Error(), "/etc/mycloud/token") || !strings.Contains(err.Error(), "a guest has no files") {
		t.Error(err)
	}
	if why := missing(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}); why != "" {
		t.Errorf("a file that was removed: %q", why)
	}
}

func proxyOf(b *bridge) func(*http.Request) (*url.URL, error) {
	return http.ProxyURL(&url.URL{Scheme: "http", Host: b.server.at.String()})
}

// A refusal by the host is a failed connection, on every way. The op's error
// has its reason exactly once, whether the client saw it or not.
func TestDeniedIsNoAnswer(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		s := &servers{url: "http://api.example.com/%s"}
		r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) { return &cloud{v2: s}, nil })
		if err := r.Call(abi.OpProbe, &abi.ProbeRequest{}, &abi.ProbeResponse{}); err != nil {
			t.Fatal(err)
		}
		s.client = &http.Client{Transport: r.p.bridge}
		if proxied {
			s.client.Transport = &http.Transport{Proxy: proxyOf(r.p.bridge)}
		}
		r.HTTP = func(*abi.HttpRequest) (*abi.HttpResponse, error) {
			return nil, sdk.Error(abi.CodeDenied, "no grant for it")
		}
		err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{})
		if err == nil || !proxied && sdk.CodeOf(err) != abi.CodeDenied || strings.Count(fmt.Sprint(err), "no grant for it") != 1 {
			t.Errorf("proxied %t: %v", proxied, err)
		}
	}
}

// Requests of several goroutines leave as one batch, and each gets its answer.
func TestBatch(t *testing.T) {
	const n = 100
	var largest int
	host := &batching{answered: func(size int) { largest = max(largest, size) }}
	b := newBridge()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n { // wait for the op
		wg.Go(func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://api.example.com/%d", i), nil)
			if err != nil {
				errs[i] = err
				return
			}
			response, err := b.RoundTrip(request)
			if err != nil {
				errs[i] = err
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err == nil && !strings.HasSuffix(string(body), fmt.Sprintf("/%d", i)) {
				err = fmt.Errorf("the answer of %s", body)
			}
			errs[i] = err
		})
	}
	for queued := 0; queued < n; {
		b.mu.Lock()
		queued = len(b.queue)
		b.mu.Unlock()
	}
	b.open(sdk.NewOp(host), "")
	wg.Wait()
	b.close()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if largest != abi.MaxHTTPBatch {
		t.Errorf("the largest batch had %d requests, want %d", largest, abi.MaxHTTPBatch)
	}
}

// batching answers each request with its URL.
type batching struct{ answered func(size int) }

func (h *batching) Now() time.Time      { return time.Time{} }
func (h *batching) Left() time.Duration { return time.Minute }
func (h *batching) HostCall(_ string, encoded []byte) (abi.Code, []byte) {
	var request abi.HttpSendRequest
	if err := request.UnmarshalVT(encoded); err != nil {
		return abi.CodeInternal, nil
	}
	h.answered(len(request.Requests))
	var response abi.HttpSendResponse
	for _, r := range request.Requests {
		response.Results = append(response.Results, &abi.HttpResult{Response: &abi.HttpResponse{Status: 200, Body: []byte(r.Url)}})
	}
	out, err := wire.Marshal(&response)
	if err != nil {
		return abi.CodeInternal, nil
	}
	return abi.CodeOK, out
}

// A request from the background waits for the next op; an abandoned one is not
// sent.
func TestRequestsWaitForAnOp(t *testing.T) {
	r := newRig(t, "", withServers("https://api.example.com/%s"))
	r.serve(func(*abi.HttpRequest) (int32, string) { return 200, `{"server": {"id": "101"}}` })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/given-up", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := r.p.bridge.RoundTrip(request); !errors.Is(err, context.Canceled) { //nolint:bodyclose // no body
		t.Errorf("%v, %v", response, err)
	}
	background := make(chan error)
	go func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/background", nil)
		if err == nil {
			var response *http.Response
			if response, err = r.p.bridge.RoundTrip(request); err == nil {
				err = response.Body.Close()
			}
		}
		background <- err
	}()
	for queued := 0; queued < 2; {
		r.p.bridge.mu.Lock()
		queued = len(r.p.bridge.queue)
		r.p.bridge.mu.Unlock()
	}
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", "fake:///101")}, &abi.InstanceExistsResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := <-background; err != nil {
		t.Error(err)
	}
	for _, request := range r.requests {
		if strings.HasSuffix(request.Url, "given-up") {
			t.Error("a request was sent that nobody waits for")
		}
	}
}
