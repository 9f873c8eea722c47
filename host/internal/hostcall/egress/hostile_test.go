package egress_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// site is a granted server and one that is not, both on 127.0.0.1, and a DNS
// that says so for every name.
type site struct {
	client        *egress.Client
	granted, port string // the granted prefix, and its port
	other         string // port of the other server
	reached       atomic.Int32
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	other := serve(t, func(http.ResponseWriter, *http.Request) { s.reached.Add(1) })
	granted := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		s.reached.Add(1)
	})
	_, s.port, _ = net.SplitHostPort(granted.Listener.Addr().String())
	_, s.other, _ = net.SplitHostPort(other.Listener.Addr().String())
	s.granted = "http://cloud.example:" + s.port + "/v1/"
	g := grant(t, s.granted)
	g.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s.client = newClient(t, egress.Options{Resolver: answers(t, netip.MustParseAddr("127.0.0.1"))}, g)
	return s
}

// TestHostileRequests: whatever were sent would arrive at a server.
func TestHostileRequests(t *testing.T) {
	s := newSite(t)
	if got := sendOne(t, s.client, get(s.granted)); got.Code != 0 || s.reached.Load() != 1 {
		t.Fatalf("what is granted: %s", show(got))
	}
	at := func(host string) *abi.HttpRequest { return get("http://" + host + ":" + s.port + "/v1/") }
	redirect := func(to string) *abi.HttpRequest {
		return &abi.HttpRequest{Method: "GET", Url: s.granted + "?to=" + to, FollowRedirects: 10}
	}
	for name, test := range map[string]struct {
		request *abi.HttpRequest
		want    abi.Code
		text    string
	}{
		"other port":                    {get("http://cloud.example:" + s.other + "/v1/"), abi.CodeDenied, `{scheme: http, host: "cloud.example", port: ` + s.other + `} to the grants`},
		"other scheme":                  {get("https://cloud.example:" + s.port + "/v1/"), abi.CodeDenied, "no grant"},
		"other path":                    {get("http://cloud.example:" + s.port + "/v2/"), abi.CodeDenied, "no grant"},
		"IP literal":                    {at("127.0.0.1"), abi.CodeDenied, "no grant"},
		"IPv6 literal":                  {at("[::1]"), abi.CodeDenied, "no grant"},
		"IPv4-mapped IPv6":              {at("[::ffff:127.0.0.1]"), abi.CodeInvalid, "IPv4 address as IPv4"},
		"IPv4-mapped IPv6 in hex":       {at("[::ffff:7f00:1]"), abi.CodeInvalid, "IPv4 address as IPv4"},
		"IPv4-compatible IPv6":          {at("[::127.0.0.1]"), abi.CodeDenied, "no grant"},
		"decimal IPv4":                  {at("2130706433"), abi.CodeInvalid, "ends like an IP address"},
		"octal IPv4":                    {at("0177.0.0.01"), abi.CodeInvalid, "ends like an IP address"},
		"hex IPv4":                      {at("0x7f.0x0.0x0.0x1"), abi.CodeInvalid, "ends like an IP address"},
		"hex IPv4 of one number":        {at("0x7f000001"), abi.CodeInvalid, "ends like an IP address"},
		"short IPv4":                    {at("127.1"), abi.CodeInvalid, "ends like an IP address"},
		"trailing dot":                  {at("cloud.example."), abi.CodeInvalid, "trailing dot"},
		"punycode of a look-alike":      {at("xn--clud-55d.example"), abi.CodeDenied, "no grant"},
		"look-alike":                    {at("clоud.example"), abi.CodeInvalid, "xn--"},
		"folds to the granted name":     {at("ⓒloud.example"), abi.CodeInvalid, "xn--"},
		"full-width dot":                {at("cloud．example"), abi.CodeInvalid, "xn--"},
		"escaped host":                  {at("cloud%2eexample"), abi.CodeInvalid, "not valid"},
		"userinfo":                      {get("http://cloud.example:" + s.port + "@127.0.0.1:" + s.other + "/v1/"), abi.CodeInvalid, "user name or password"},
		"userinfo with the granted":     {get("http://u:p@cloud.example:" + s.port + "/v1/"), abi.CodeInvalid, "user name or password"},
		"backslash for userinfo":        {get("http://127.0.0.1:" + s.other + `\@cloud.example:` + s.port + "/v1/"), abi.CodeInvalid, "not valid"},
		"Host header":                   {withHeader(s.granted, "Host", "other.example"), abi.CodeInvalid, "must not be set"},
		"Host header by a newline":      {withHeader(s.granted, "X-A", "b\r\nHost: other.example"), abi.CodeInvalid, "not valid"},
		"absolute path":                 {get("http://cloud.example:" + s.port + "//127.0.0.1:" + s.other + "/"), abi.CodeDenied, "no grant"},
		"redirect to another host":      {redirect("http://other.example:" + s.port + "/v1/"), abi.CodeDenied, "redirected from"},
		"redirect to another port":      {redirect("http://cloud.example:" + s.other + "/v1/"), abi.CodeDenied, "redirected from"},
		"redirect without a scheme":     {redirect("//127.0.0.1:" + s.other + "/v1/"), abi.CodeDenied, "no grant"},
		"redirect to the metadata":      {redirect("http://169.254.169.254/latest/"), abi.CodeDenied, "no grant"},
		"redirect above the path":       {redirect("../admin"), abi.CodeDenied, "no grant"},
		"redirect, then userinfo":       {redirect("http://cloud.example@127.0.0.1:" + s.other + "/v1/"), abi.CodeDenied, "user name or password"},
		"redirect to decimal IPv4":      {redirect("http://2130706433:" + s.port + "/v1/"), abi.CodeDenied, "ends like an IP address"},
		"redirect to a file":            {redirect("file:///etc/passwd"), abi.CodeDenied, "scheme"},
		"body that is too large":        {&abi.HttpRequest{Method: "PUT", Url: s.granted, Body: make([]byte, 9<<20)}, abi.CodeTooLarge, "the limit is 8388608"},
		"scope that is too large":       {&abi.HttpRequest{Method: "GET", Url: s.granted, CredentialScope: strings.Repeat("x", 257)}, abi.CodeTooLarge, "the limit is 256"},
		"credential nobody configured":  {&abi.HttpRequest{Method: "GET", Url: s.granted, Credential: "admin"}, abi.CodeDenied, "no credential named"},
		"more redirects than there may": {&abi.HttpRequest{Method: "GET", Url: s.granted, FollowRedirects: 1 << 31}, abi.CodeInvalid, "the limit is 10"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.reached.Load()
			wantCode(t, sendOne(t, s.client, test.request), test.want, test.text)
			if s.reached.Load() != before {
				t.Error("it arrived at a server")
			}
		})
	}
}

// TestHostileDNS: the name is granted, the second answer of DNS is not.
func TestHostileDNS(t *testing.T) {
	for _, second := range []string{"169.254.169.254", "10.0.0.1", "192.168.0.1", "100.100.100.200", "::1", "fd00:ec2::254", "fe80::1", "::ffff:169.254.169.254"} {
		t.Run("rebinding to "+second, func(t *testing.T) {
			addr := netip.MustParseAddr(second)
			client, port := behindDNS(t, []netip.Addr{netip.MustParseAddr("127.0.0.1"), addr}, netip.MustParsePrefix("127.0.0.1/32"))
			if addr.Is6() { // a resolver that has no other address
				client, port = behindDNS(t, []netip.Addr{addr}, netip.MustParsePrefix("127.0.0.1/32"))
			} else if got := sendOne(t, client, get("http://cloud.example:"+port)); got.Code != 0 {
				t.Fatal(show(got))
			}
			wantCode(t, sendOne(t, client, get("http://cloud.example:"+port)), abi.CodeDenied, "resolves to an address that is refused")
		})
	}
}

// raw answers each connection by write, after one request, until write fails.
func raw(t *testing.T, write func(io.Writer) error) (url string, written *atomic.Int64) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	written = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_ = write(&counter{conn, written})
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String(), written
}

type counter struct {
	w io.Writer
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// forever writes head, and then part until that fails.
func forever(head, part string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, head)
		for err == nil {
			_, err = io.WriteString(w, part)
		}
		return err
	}
}

// TestHostileAnswers: each would fill the memory of the host, and ends within
// the bounds.
func TestHostileAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	gibibyte := func(w io.Writer) error {
		_, err := fmt.Fprintf(w, ok+"Content-Length: %d\r\n\r\n", 1<<30)
		for i := 0; err == nil && i < 1<<30/(64<<10); i++ {
			_, err = w.Write(make([]byte, 64<<10))
		}
		return err
	}
	bomb := func(w io.Writer) error {
		if _, err := io.WriteString(w, ok+"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		z := gzip.NewWriter(w)
		for range 1 << 30 / (1 << 20) {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
		return z.Close()
	}
	empty := string(gzipped())
	chunk := "10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n"
	for name, test := range map[string]struct {
		write func(io.Writer) error
		want  abi.Code
		text  string
	}{
		"1 GiB body":                {gibibyte, abi.CodeTooLarge, "in pages"},
		"endless body":              {forever(ok+"Connection: close\r\n\r\n", strings.Repeat("x", 64<<10)), abi.CodeTooLarge, "in pages"},
		"endless chunks":            {forever(ok+"Transfer-Encoding: chunked\r\n\r\n", chunk), abi.CodeTooLarge, "in pages"},
		"gzip bomb":                 {bomb, abi.CodeTooLarge, "in pages"},
		"endless gzip of nothing":   {forever(ok+"Content-Encoding: gzip\r\nConnection: close\r\n\r\n", strings.Repeat(empty, 1000)), abi.CodeTooLarge, "too large"},
		"endless headers":           {forever(ok, "X-A: b\r\n"), abi.CodeTooLarge, "headers exceeded"},
		"endless header":            {forever(ok+"X-A: ", strings.Repeat("x", 1000)), abi.CodeTooLarge, "headers exceeded"},
		"endless status":            {forever("HTTP/1.1 200 ", strings.Repeat("x", 1000)), abi.CodeTooLarge, "headers exceeded"},
		"many headers":              {forever(ok+strings.Repeat("A: b\r\n", 300)+"Content-Length: 0\r\n\r\n", ""), abi.CodeTooLarge, "301 headers"},
		"endless interim responses": {forever("", "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n"), abi.CodeTooLarge, "headers exceeded"},
		"endless trailers":          {forever(ok+"Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n0\r\n", "X-A: b\r\n"), abi.CodeUnavailable, "trailer"},
		"endless chunk extension":   {forever(ok+"Transfer-Encoding: chunked\r\n\r\n1;a=", "bbbbbbbb"), abi.CodeUnavailable, "read the body"},
		"another protocol":          {forever("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "x"), abi.CodeUnavailable, "switched protocols"},
		"no HTTP":                   {forever("", "SSH-2.0-OpenSSH\r\n"), abi.CodeUnavailable, "malformed"},
		"two lengths":               {forever(ok+"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "x"), abi.CodeUnavailable, "Content-Length"},
	} {
		t.Run(name, func(t *testing.T) {
			url, written := raw(t, test.write)
			client := newClient(t, egress.Options{MaxRetries: -1, MaxTimeout: time.Minute}, grant(t, url))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := sendOne(t, client, get(url))
			runtime.ReadMemStats(&after)
			wantCode(t, got, test.want, test.text)
			// 8 MiB and what the kernel buffers; readers that grow allocate a few
			// times that.
			if n := written.Load(); n > 32<<20 {
				t.Errorf("the server could send %d bytes", n)
			}
			if n := after.Sys - min(after.Sys, before.Sys); n > 100<<20 {
				t.Errorf("the process grew by %d bytes", n)
			}
		})
	}
}

func TestHostileHTTP2Headers(t *testing.T) {
	for n, want := range map[int]abi.Code{65: abi.CodeTooLarge, 2000: abi.CodeUnavailable} {
		server := serveTLS(t, nil)
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := range n {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		})
		client := newClient(t, egress.Options{MaxRetries: -1}, server.granted(t, "/"))
		wantCode(t, sendOne(t, client, get(server.URL)), want, "")
	}
}

// TestSlowDrip: a byte every second is progress, and ends by the deadline all
// the same.
func TestSlowDrip(t *testing.T) {
	drip := func(w io.Writer, flush func(), done <-chan struct{}) {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				flush()
			case <-done:
				return
			}
		}
	}
	t.Run("body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
				drip(w, func() { _ = http.NewResponseController(w).Flush() }, r.Context().Done())
			})
			endsAfter(t, cloud.client(t, egress.Options{}, cloudURL), 30*time.Second)
		})
	})
	t.Run("header", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
				drip(conn, func() {}, over)
			})
			endsAfter(t, cloud.client(t, egress.Options{}, cloudURL), 30*time.Second)
		})
	})
	t.Run("TLS handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := newClient(t, egress.Options{MaxRetries: -1}, grant(t, "https://cloud.example/"))
			egress.ConnectBy(client, func(context.Context, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					_, _ = io.Copy(io.Discard, there)
				}()
				return here, nil
			})
			start := time.Now()
			wantCode(t, sendOne(t, client, get("https://cloud.example/")), abi.CodeUnavailable, "handshake timeout")
			if took := time.Since(start); took != 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
}

// TestScrubbingEndsByTheDeadline: an answer that cannot be searched in time is none.
func TestScrubbingEndsByTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
		client := cloud.client(t, egress.Options{Credentials: slowScrubber{}}, cloudURL)
		endsAfter(t, client, 5*time.Second)
	})
}

// slowScrubber scrubs until it is told to end.
type slowScrubber struct{ credentials }

func (slowScrubber) ScrubContext(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func endsAfter(t *testing.T, client *egress.Client, timeout time.Duration) {
	t.Helper()
	request := get(cloudURL)
	request.TimeoutMs = timeout.Milliseconds()
	start := time.Now()
	wantCode(t, sendOne(t, client, request), abi.CodeDeadline, "no complete answer in time")
	if took := time.Since(start); took != timeout {
		t.Errorf("it ended after %s", took)
	}
}

// TestPlainAnswerToTLS does not fall back to anything.
func TestPlainAnswerToTLS(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked without TLS") })
	url := strings.Replace(server.URL, "http://", "https://", 1)
	wantCode(t, sendOne(t, newClient(t, egress.Options{}, grant(t, url)), get(url)), abi.CodeUnavailable, "does not look like a TLS handshake")
}
