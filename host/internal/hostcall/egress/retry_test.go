package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

const cloudURL = "http://cloud.example/"

// first fails the first n requests by fail and answers the others with their
// body.
func first(n int, fail http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n--
		failing := n >= 0
		mu.Unlock()
		if failing {
			fail(w, r)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// cut closes the connection instead of an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func TestRetries(t *testing.T) {
	for name, test := range map[string]struct {
		fail    http.HandlerFunc
		methods string
		want    int // status; 0: an error
		sent    int32
		event   string
	}{
		"502":                  {status(502), "GET HEAD OPTIONS PUT DELETE", 200, 3, "cloud.example:80 retried 502"},
		"503":                  {status(503), "GET PUT", 200, 3, "cloud.example:80 retried 503"},
		"504":                  {status(504), "GET PUT", 200, 3, "cloud.example:80 retried 504"},
		"429":                  {status(429), "GET PUT", 200, 3, "cloud.example:80 retried 429"},
		"connection cut":       {cut, "GET PUT DELETE", 200, 3, "cloud.example:80 retried connection"},
		"not idempotent":       {status(503), "POST PATCH", 503, 1, ""},
		"429, not idempotent":  {status(429, "Retry-After", "3"), "POST PATCH", 429, 1, ""},
		"cut, not idempotent":  {cut, "POST PATCH", 0, 1, ""},
		"error of the request": {status(404), "GET PUT", 404, 1, ""},
		"error of the server":  {status(500), "GET PUT", 500, 1, ""},
	} {
		for method := range strings.FieldsSeq(test.methods) {
			t.Run(name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					seen := &observer{}
					cloud := newCloud(t, first(2, test.fail))
					client := cloud.client(t, egress.Options{Observer: seen}, cloudURL)
					r := request(method, cloudURL)
					r.Body = []byte("body")
					got := sendOne(t, client, r)
					if int(responseOf(got).Status) != test.want || cloud.requests.Load() != test.sent {
						t.Errorf("%v after %d requests, want status %d after %d", show(got), cloud.requests.Load(), test.want, test.sent)
					}
					if test.want == 200 && method == "PUT" && string(responseOf(got).Body) != "body" {
						t.Errorf("the body that was sent again is %q", responseOf(got).Body)
					}
					if test.event != "" && seen.count(test.event) != 2 {
						t.Errorf("observed %q", seen.all())
					}
				})
			})
		}
	}
}

func TestPostIsSentAgainWhereNothingWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(201))
		cloud.refuse = func(string) error {
			if cloud.dials.Load() < 3 {
				return errors.New("connection refused")
			}
			return nil
		}
		got := sendOne(t, cloud.client(t, egress.Options{}, cloudURL), request("POST", cloudURL))
		if responseOf(got).Status != 201 || cloud.requests.Load() != 1 {
			t.Errorf("%v after %d requests", show(got), cloud.requests.Load())
		}
	})
}

func TestRetriesEnd(t *testing.T) {
	for _, retries := range []int{-1, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, status(503))
			got := sendOne(t, cloud.client(t, egress.Options{MaxRetries: retries}, cloudURL), get(cloudURL))
			if want := int32(max(0, retries) + 1); responseOf(got).Status != 503 || cloud.requests.Load() != want {
				t.Errorf("%v after %d requests, want %d", show(got), cloud.requests.Load(), want)
			}
		})
	}
}

func TestRetriesLeaveTheBatchItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, first(3, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(make([]byte, 900))
		}))
		got := sendOne(t, cloud.client(t, egress.Options{MaxBatchBytes: 1200}, cloudURL), get(cloudURL))
		if responseOf(got).Status != 200 {
			t.Error(show(got))
		}
	})
}

func TestCutBodiesLeaveTheBatchItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, first(3, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(make([]byte, 900))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		got := sendOne(t, cloud.client(t, egress.Options{MaxBatchBytes: 1200}, cloudURL), get(cloudURL))
		if responseOf(got).Status != 200 {
			t.Error(show(got))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	inSeconds := func(n int) func() string { return func() string { return fmt.Sprint(n) } }
	for name, test := range map[string]struct {
		status  int
		header  func() string
		timeout time.Duration
		want    abi.Code
		asked   time.Duration // when to ask again, or the wait
	}{
		"seconds":             {429, inSeconds(7), time.Minute, abi.CodeOK, 7 * time.Second},
		"date":                {503, func() string { return time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat) }, time.Minute, abi.CodeOK, 9 * time.Second},
		"date in the past":    {503, func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, time.Minute, abi.CodeOK, 0},
		"not valid":           {503, func() string { return "soon" }, time.Minute, abi.CodeOK, 0},
		"more than there is":  {429, inSeconds(20), 10 * time.Second, abi.CodeThrottled, 20 * time.Second},
		"more than is waited": {429, inSeconds(120), 4 * time.Minute, abi.CodeThrottled, 2 * time.Minute},
		"an age":              {503, func() string { return "99999999999999999999" }, time.Minute, abi.CodeThrottled, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t, first(1, func(w http.ResponseWriter, r *http.Request) {
					status(test.status, "Retry-After", test.header())(w, r)
				}))
				r := get(cloudURL)
				r.TimeoutMs = test.timeout.Milliseconds()
				start := time.Now()
				got := sendOne(t, cloud.client(t, egress.Options{}, cloudURL), r)
				took := time.Since(start)
				wantCode(t, got, test.want, "")
				if test.want == abi.CodeThrottled {
					if asked := time.Duration(errorOf(got).RetryAfterMs) * time.Millisecond; took != 0 || asked < test.asked || asked > test.asked+time.Second {
						t.Errorf("throttled for %s after %s, want %s at once", asked, took, test.asked)
					}
				} else if took < test.asked || took > test.asked+time.Second {
					t.Errorf("it was sent again after %s, want %s", took, test.asked)
				}
			})
		})
	}
}

func TestOtherRequestsHonourRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		cloud := newCloud(t, first(1, status(429, "Retry-After", "5")))
		client := cloud.client(t, egress.Options{Observer: seen}, cloudURL, "http://other.example/")
		if got := sendOne(t, client, request("POST", cloudURL)); responseOf(got).Status != 429 {
			t.Fatal(show(got))
		}
		start := time.Now()
		short := get(cloudURL)
		short.TimeoutMs = 1000
		wantCode(t, sendOne(t, client, short), abi.CodeThrottled, "Retry-After")
		if got := sendOne(t, client, get("http://other.example/")); got.Code != 0 || time.Since(start) != 0 {
			t.Errorf("another host had to wait %s: %v", time.Since(start), got)
		}
		if got := sendOne(t, client, request("POST", cloudURL)); responseOf(got).Status != 200 || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %s, want 5s", show(got), time.Since(start))
		}
		if seen.count("cloud.example:80 throttled retry_after") != 1 {
			t.Errorf("observed %q", seen.all())
		}
	})
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &observer{}
		cloud := newCloud(t, status(503))
		client := cloud.client(t, egress.Options{BreakerFailures: 1 << 20, Observer: seen}, cloudURL)
		const n = 200
		for range n {
			sendOne(t, client, get(cloudURL))
		}
		if got := cloud.requests.Load(); got < n+10 || got > n*12/10 {
			t.Errorf("%d requests were sent for %d, want at most a fifth more", got, n)
		}
		if seen.count("cloud.example:80 throttled retry_budget") == 0 {
			t.Error("nobody was told that the budget was used up")
		}
		time.Sleep(2 * time.Minute) // of the bubble
		before := cloud.requests.Load()
		sendOne(t, client, get(cloudURL))
		if got := cloud.requests.Load() - before; got != 4 {
			t.Errorf("after two minutes a request was sent %d times, want 4", got)
		}
	})
}

func TestBackoffGrowsAndDiffers(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			cloud := newCloud(t, status(503))
			sendOne(t, cloud.client(t, egress.Options{Backoff: time.Second}, cloudURL), get(cloudURL))
			took := time.Since(start)
			if took > 7*time.Second {
				t.Errorf("it waited %s in all", took)
			}
			waits[took.Truncate(time.Millisecond)] = true
		})
	}
	if len(waits) < 10 {
		t.Errorf("only %d different waits of 20: %v", len(waits), waits)
	}
}

func TestNoRetryWhereItCannotHelp(t *testing.T) {
	for name, err := range map[string]error{
		"no such host": &net.DNSError{Err: "no such host", Name: "cloud.example", IsNotFound: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t, status(200))
				cloud.refuse = func(string) error { return err }
				wantCode(t, sendOne(t, cloud.client(t, egress.Options{}, cloudURL), get(cloudURL)), abi.CodeUnavailable, "no such host")
				if n := cloud.dials.Load(); n != 1 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}
