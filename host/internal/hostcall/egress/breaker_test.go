package egress_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// breakers are the changes of breakers that were observed.
func (o *observer) breakers() []string {
	return slices.DeleteFunc(o.all(), func(e string) bool { return !strings.Contains(e, " breaker ") })
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		cloud := newCloud(t, status(200))
		broken := true
		cloud.refuse = func(address string) error {
			if broken && strings.HasPrefix(address, "cloud") {
				return errors.New("connection refused")
			}
			return nil
		}
		client := cloud.client(t, egress.Options{MaxRetries: -1, Observer: seen}, cloudURL, "http://other.example/")
		for range 5 {
			wantCode(t, sendOne(t, client, request("POST", cloudURL)), abi.CodeUnavailable, "connection refused")
		}
		until := time.Now().Add(15 * time.Second).UTC().Format(time.RFC3339)
		for _, want := range []string{"nothing is sent to this host until " + until, "connection refused"} {
			wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeUnavailable, want)
		}
		if n := cloud.dials.Load(); n != 5 {
			t.Errorf("%d connections were tried, want 5", n)
		}
		if got := sendOne(t, client, get("http://other.example/")); got.Code != 0 {
			t.Errorf("another host: %v", show(got))
		}
		time.Sleep(16 * time.Second) // of the bubble
		wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeUnavailable, "connection refused")
		wantCode(t, sendOne(t, client, get(cloudURL)), abi.CodeUnavailable, "nothing is sent")
		time.Sleep(16 * time.Second)
		broken = false
		for range 3 {
			if got := sendOne(t, client, get(cloudURL)); responseOf(got).Status != 200 {
				t.Errorf("after it was mended: %v", show(got))
			}
		}
		want := []string{"closed -> open", "open -> half-open", "half-open -> open", "open -> half-open", "half-open -> closed"}
		for i := range want {
			want[i] = "cloud.example:80 breaker " + want[i]
		}
		if got := seen.breakers(); !slices.Equal(got, want) {
			t.Errorf("observed %q, want %q", got, want)
		}
	})
}

func TestNoCredentialIsAppliedWhileTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		applied := 0
		fake := credentials{apply: func(string, string, *http.Request, []byte) error {
			applied++
			return nil
		}}
		client := newCloud(t, status(503)).client(t, egress.Options{MaxRetries: -1, Credentials: fake}, cloudURL)
		for range 9 {
			sendOne(t, client, withCredential("token"))
		}
		if applied != 5 {
			t.Errorf("it was applied %d times, want 5", applied)
		}
	})
}

func TestBreakerSendsOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		cloud := newCloud(t, first(5, status(503)))
		client := cloud.client(t, egress.Options{MaxRetries: -1}, cloudURL)
		for range 5 {
			sendOne(t, client, get(cloudURL))
		}
		cloud.refuse = func(string) error {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return nil
		}
		client.Close() // so that the probe connects
		slow.Store(true)
		time.Sleep(16 * time.Second)
		ok, held := 0, 0
		for _, got := range send(t, client, slices.Repeat([]*abi.HttpRequest{get(cloudURL)}, 6)...) {
			switch {
			case responseOf(got).Status == 200:
				ok++
			case strings.Contains(errorOf(got).Message, "until a trial request succeeds"):
				held++
			default:
				t.Error(show(got))
			}
		}
		if ok != 1 || held != 5 {
			t.Errorf("%d requests were sent and %d held off, want 1 and 5", ok, held)
		}
	})
}

func TestBreakerCountsAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		var n atomic.Int32
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%3 != 0 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		client := cloud.client(t, egress.Options{Observer: seen, MaxRetries: -1}, cloudURL)
		for range 30 {
			sendOne(t, client, get(cloudURL))
		}
		if got := n.Load(); got != 20 {
			t.Errorf("%d requests were sent, want 20, for two in three failed", got)
		}
	})
}

// TestWhatDoesNotOpenTheBreaker: none of these says that the host is broken.
func TestWhatDoesNotOpenTheBreaker(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		timeout time.Duration
	}{
		"404":                  {status(404), time.Minute},
		"429":                  {status(429), time.Minute},
		"500":                  {status(500), time.Minute},
		"an impatient guest":   {hang, 500 * time.Millisecond},
		"too large a response": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &observer{}
				cloud := newCloud(t, test.handler)
				client := cloud.client(t, egress.Options{MaxRetries: -1, MaxBatchBytes: 1000, Observer: seen}, cloudURL)
				for range 30 {
					r := get(cloudURL)
					r.TimeoutMs = test.timeout.Milliseconds()
					sendOne(t, client, r)
				}
				if got := seen.breakers(); len(got) > 0 || cloud.requests.Load() != 30 {
					t.Errorf("observed %q after %d requests", got, cloud.requests.Load())
				}
			})
		})
	}
}

// TestSilentHost: a host that never answers takes neither the turns of the
// others, nor those of its own requests for ever.
func TestSilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		cloud := newCloud(t, func(_ http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "silent") {
				<-r.Context().Done()
			}
		})
		client := cloud.client(t, egress.Options{MaxConcurrent: 4, MaxTimeout: 30 * time.Second, Observer: seen}, "http://silent.example/", cloudURL)
		done := make(chan []*abi.HttpResult)
		go func() {
			done <- send(t, client, slices.Repeat([]*abi.HttpRequest{get("http://silent.example/")}, 20)...)
		}()
		synctest.Wait()
		start := time.Now()
		for range 50 {
			if got := sendOne(t, client, get(cloudURL)); got.Code != 0 || time.Since(start) != 0 {
				t.Fatalf("%v after %s", show(got), time.Since(start))
			}
		}
		for _, got := range <-done {
			wantCode(t, got, abi.CodeDeadline, "")
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("the requests to the silent host took %s", took)
		}
		if seen.most != 4 || seen.flight != 0 || seen.count("silent.example:80 throttled concurrency") == 0 {
			t.Errorf("%d requests at most and %d in the end were in flight; observed %q", seen.most, seen.flight, seen.all())
		}
	})
}

func TestHostsOfAWildcardAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		cloud := newCloud(t, status(200))
		cloud.refuse = func(address string) error {
			if strings.HasPrefix(address, "0.") {
				return errors.New("connection refused")
			}
			return nil
		}
		client := cloud.client(t, egress.Options{RequestsPerSecond: 1e6, Observer: seen}, "http://*.cloud.example/")
		for range 2 {
			sendOne(t, client, get("http://0.cloud.example/"))
		}
		time.Sleep(time.Millisecond) // of the bubble: the host is the oldest
		for i := range 400 {
			want := int32(200)
			got := sendOne(t, client, get(fmt.Sprintf("http://%d.cloud.example/", i+1)))
			if responseOf(got).Status != want {
				t.Fatal(show(got))
			}
		}
		if n := egress.Hosts(client); n > 256 {
			t.Errorf("%d hosts are kept in mind", n)
		}
		if n := seen.count("*.cloud.example:80 GET 2xx"); n != 400 {
			t.Errorf("%d requests were observed by the name of the grant", n)
		}
		if got := seen.breakers(); len(got) < 2 || !strings.HasSuffix(got[len(got)-1], "-> closed") {
			t.Errorf("the breaker of a forgotten host is left open: %q", got)
		}
	})
}
