package egress_test

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func grant(t *testing.T, prefix string) egress.Grant {
	t.Helper()
	g, err := egress.ParseGrant(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newClient(t *testing.T, options egress.Options, grants ...egress.Grant) *egress.Client {
	t.Helper()
	c, err := egress.New(grants, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func get(url string) *abi.HttpRequest { return &abi.HttpRequest{Method: "GET", Url: url} }

func withHeader(url, name, value string) *abi.HttpRequest {
	return &abi.HttpRequest{Method: "GET", Url: url, Headers: []*abi.HttpHeader{{Name: name, Value: value}}}
}

func send(t *testing.T, c *egress.Client, requests ...*abi.HttpRequest) []*abi.HttpResult {
	t.Helper()
	results, err := c.Send(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func sendOne(t *testing.T, c *egress.Client, request *abi.HttpRequest) *abi.HttpResult {
	t.Helper()
	return send(t, c, request)[0]
}

func wantCode(t *testing.T, got *abi.HttpResult, want abi.Code, text string) {
	t.Helper()
	if abi.Code(got.Code) != want || !strings.Contains(errorOf(got).Message, text) {
		t.Errorf("%v: %q, want %v with %q", abi.Code(got.Code), errorOf(got).Message, want, text)
	}
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestRequestAndResponse(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header["X-A"], " ", r.Header["Accept-Encoding"], " ", r.UserAgent()))
		w.Header().Set("X-Latin1", "caf\xe9")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte("got "), body...))
	})
	client := newClient(t, egress.Options{}, grant(t, server.URL))
	got := sendOne(t, client, &abi.HttpRequest{Method: "POST", Url: server.URL + "/a%2Fb?q=1", Body: []byte("body"),
		Headers: []*abi.HttpHeader{{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}}})
	want := &abi.HttpResult{Response: &abi.HttpResponse{Status: 418, Body: []byte("got body"), Headers: []*abi.HttpHeader{
		{Name: "Content-Length", Value: "8"},
		{Name: "Content-Type", Value: "text/plain; charset=utf-8"},
		{Name: "X-Echo", Value: "POST /a%2Fb?q=1 [1 2] [gzip] wasm-ccm"},
		{Name: "X-Latin1", Value: "caf\uFFFD"},
	}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(abi.HttpResult{}, abi.HttpResponse{}, abi.HttpHeader{})); diff != "" {
		t.Error(diff)
	}
}

func TestHTTP2AndConnectionReuse(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	var connections atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client := newClient(t, egress.Options{RootCAs: roots}, grant(t, server.URL))
	for range 5 {
		if got := string(responseOf(sendOne(t, client, get(server.URL))).Body); got != "HTTP/2.0" {
			t.Errorf("protocol %q", got)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for 5 requests", n)
	}
	unverified := newClient(t, egress.Options{}, grant(t, server.URL))
	wantCode(t, sendOne(t, unverified, get(server.URL)), abi.CodeUnavailable, "give it as caBundle of the grant")
}

func TestRedirectsAreHandedBack(t *testing.T) {
	var elsewhere atomic.Bool
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			elsewhere.Store(true)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	got := sendOne(t, newClient(t, egress.Options{}, grant(t, server.URL)), get(server.URL))
	if responseOf(got).Status != http.StatusFound || elsewhere.Load() {
		t.Errorf("status %d, followed: %v", responseOf(got).Status, elsewhere.Load())
	}
}

// TestEnvironmentProxyIsIgnored runs itself in a process of its own: net/http
// reads the environment once.
func TestEnvironmentProxyIsIgnored(t *testing.T) {
	if os.Getenv("HTTP_PROXY") == "" {
		proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironmentProxyIsIgnored$", "-test.v")
		for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
			child.Env = append(child.Env, name+"="+proxy.URL)
		}
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "answered without a proxy") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	client, port := behindDNS(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, netip.MustParsePrefix("127.0.0.0/8"))
	if got := sendOne(t, client, get("http://cloud.example:"+port)); responseOf(got).Status != http.StatusOK {
		t.Fatal(show(got))
	}
	t.Log("answered without a proxy")
}

func TestBatchIsParallelAndKeepsItsOrder(t *testing.T) {
	const n = 8
	var arrived sync.WaitGroup
	arrived.Add(n)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait() // until all are here
		_, _ = io.WriteString(w, r.URL.Path)
	})
	var requests []*abi.HttpRequest
	for i := range n {
		requests = append(requests, get(fmt.Sprintf("%s/%d", server.URL, i)))
	}
	requests = append(requests, get("http://denied.example/"))
	results := send(t, newClient(t, egress.Options{}, grant(t, server.URL)), requests...)
	for i := range n {
		if got, want := string(responseOf(results[i]).Body), fmt.Sprintf("/%d", i); got != want {
			t.Errorf("result %d is %q", i, got)
		}
	}
	wantCode(t, results[n], abi.CodeDenied, "no grant")
}

func TestBatchSize(t *testing.T) {
	client := newClient(t, egress.Options{})
	for _, n := range []int{0, abi.MaxHTTPBatch + 1} {
		if _, err := client.Send(t.Context(), make([]*abi.HttpRequest, n)); err == nil {
			t.Errorf("a batch of %d was taken", n)
		}
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	var now, most atomic.Int32
	server := serve(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
	})
	requests := make([]*abi.HttpRequest, abi.MaxHTTPBatch)
	for i := range requests {
		requests[i] = get(server.URL)
	}
	for _, got := range send(t, newClient(t, egress.Options{MaxConcurrent: 3}, grant(t, server.URL)), requests...) {
		if got.Code != 0 {
			t.Error(errorOf(got).Message)
		}
	}
	if n := most.Load(); n > 3 {
		t.Errorf("%d requests at the same time, the limit is 3", n)
	}
}

func TestRateIsBounded(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	client := newClient(t, egress.Options{RequestsPerSecond: 0.001, Burst: 1}, grant(t, server.URL))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	results, err := client.Send(ctx, []*abi.HttpRequest{get(server.URL)})
	if err != nil || results[0].Code != 0 {
		t.Fatalf("first: %v, %v", results, err)
	}
	results, err = client.Send(ctx, []*abi.HttpRequest{get(server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, results[0], abi.CodeThrottled, "requests per second")
	if errorOf(results[0]).RetryAfterMs <= 0 {
		t.Error("it does not say when to ask again")
	}
}

func TestSizesAreBounded(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    abi.Code
	}{
		"endless body": {endless, abi.CodeTooLarge},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 4<<20))
			_ = z.Close()
		}, abi.CodeTooLarge},
		"many headers": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				w.Header().Add("X", "y")
			}
		}, abi.CodeTooLarge},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("y", 1<<20))
		}, abi.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, test.handler)
			client := newClient(t, egress.Options{MaxBatchBytes: 1 << 20}, grant(t, server.URL))
			wantCode(t, sendOne(t, client, get(server.URL)), test.want, "")
		})
	}
}

func TestResponsesOfABatchShareTheirBound(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 600)) })
	client := newClient(t, egress.Options{MaxBatchBytes: 1700}, grant(t, server.URL))
	ok, total := 0, 0
	for _, got := range send(t, client, get(server.URL), get(server.URL), get(server.URL), get(server.URL)) {
		if got.Code == 0 {
			ok++
		}
		total += len(responseOf(got).Body)
	}
	if ok == 4 || total > 1700 {
		t.Errorf("%d responses with %d bytes, the limit is 1700", ok, total)
	}
}

func TestTimesAreBounded(t *testing.T) {
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	drip := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	client := newClient(t, egress.Options{}, grant(t, hang.URL), grant(t, drip.URL))
	for name, server := range map[string]*httptest.Server{"no header": hang, "slow body": drip} {
		request := get(server.URL + "/path?token=hunter2")
		request.TimeoutMs = 50
		got := sendOne(t, client, request)
		wantCode(t, got, abi.CodeDeadline, "/path: no complete answer in time")
		if strings.Contains(errorOf(got).Message, "hunter2") {
			t.Errorf("%s: the error holds the query: %s", name, errorOf(got).Message)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	results, err := client.Send(ctx, []*abi.HttpRequest{get(hang.URL)})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, results[0], abi.CodeDeadline, "")
}

func TestErrorsHoldNoQuery(t *testing.T) {
	closed := serve(t, func(http.ResponseWriter, *http.Request) {})
	url := closed.URL
	closed.Close()
	client := newClient(t, egress.Options{}, grant(t, url))
	for _, raw := range []string{url + "/a?token=hunter2", "http://x y/?token=hunter2", "http://a:b?token=hunter2", "http://u:hunter2@a", url + "/?a=hunter2#%zz", "https://denied.example/?token=hunter2"} {
		got := sendOne(t, client, get(raw))
		if got.Code == 0 || strings.Contains(errorOf(got).Message, "hunter2") {
			t.Errorf("%s: %v %q", raw, abi.Code(got.Code), errorOf(got).Message)
		}
	}
}
