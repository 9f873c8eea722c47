package egress_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
)

// TestEveryWayOutAsksTheGrantsOfNow: whatever has a request leave again, or later,
// what was taken away in between is gone.
func TestEveryWayOutAsksTheGrantsOfNow(t *testing.T) {
	const kept, gone = "http://cloud.example/kept", "http://cloud.example/gone"
	to := func(place string) func(http.ResponseWriter, *http.Request, func()) {
		return func(w http.ResponseWriter, r *http.Request, _ func()) {
			http.Redirect(w, r, place, http.StatusSeeOther)
		}
	}
	for name, test := range map[string]struct {
		requests []*abi.HttpRequest
		// answer may withdraw what is not kept.
		answer func(w http.ResponseWriter, r *http.Request, withdraw func())
		// apply says that the credential withdraws it while it is asked.
		apply bool
		sent  int32
	}{
		"a first request":    {requests: []*abi.HttpRequest{get(gone)}},
		"another method":     {requests: []*abi.HttpRequest{request("POST", kept)}},
		"another credential": {requests: []*abi.HttpRequest{{Method: "GET", Url: kept, Credential: "token"}}},
		"one of a batch":     {requests: []*abi.HttpRequest{get(kept), get(gone), get(kept)}, sent: 2},
		"a redirect":         {requests: []*abi.HttpRequest{{Method: "GET", Url: kept, FollowRedirects: 2}}, answer: to(gone), sent: 1},
		"the second redirect": {requests: []*abi.HttpRequest{{Method: "GET", Url: kept, FollowRedirects: 2}}, sent: 2,
			answer: func(w http.ResponseWriter, r *http.Request, _ func()) {
				http.Redirect(w, r, map[string]string{"": "/kept?1", "1": "/gone"}[r.URL.RawQuery], http.StatusFound)
			}},
		"a redirect while it is withdrawn": {requests: []*abi.HttpRequest{{Method: "PUT", Url: kept, FollowRedirects: 1, Credential: "token"}}, sent: 1,
			answer: func(w http.ResponseWriter, r *http.Request, withdraw func()) { withdraw(); to(kept)(w, r, nil) }},
		"a retry": {requests: []*abi.HttpRequest{get(gone)}, sent: 1,
			answer: func(w http.ResponseWriter, _ *http.Request, withdraw func()) {
				withdraw()
				w.WriteHeader(http.StatusServiceUnavailable)
			}},
		"a retry after a pause": {requests: []*abi.HttpRequest{get(gone)}, sent: 1,
			answer: func(w http.ResponseWriter, _ *http.Request, withdraw func()) {
				withdraw()
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}},
		"a retry without an answer": {requests: []*abi.HttpRequest{get(gone)}, sent: 1,
			answer: func(_ http.ResponseWriter, _ *http.Request, withdraw func()) {
				withdraw()
				panic(http.ErrAbortHandler)
			}},
		"a renewed token": {requests: []*abi.HttpRequest{{Method: "GET", Url: gone, Credential: "token"}}, sent: 1,
			answer: func(w http.ResponseWriter, _ *http.Request, withdraw func()) {
				withdraw()
				w.WriteHeader(http.StatusUnauthorized)
			}},
		"who waits for a turn": {requests: []*abi.HttpRequest{get(gone), get(gone), get(gone)}, sent: 1,
			answer: func(_ http.ResponseWriter, _ *http.Request, withdraw func()) { synctest.Wait(); withdraw() }},
		"who waits for a credential": {requests: []*abi.HttpRequest{{Method: "GET", Url: gone, Credential: "token"}}, apply: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now atomic.Pointer[egress.Client]
				var later *egress.Client
				withdraw := func() { now.Store(later) }
				cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
					if test.answer != nil {
						test.answer(w, r, withdraw)
					}
				})
				fake := credentials{rejected: func(string, string) bool { return true }, apply: func(string, string, *http.Request, []byte) error {
					if test.apply {
						withdraw()
					} else if now.Load() == later {
						t.Error("a credential that is withdrawn is asked")
					}
					return nil
				}}
				onlyGET := grant(t, kept)
				onlyGET.Methods = []string{"GET"}
				later = newClient(t, egress.Options{Credentials: fake}, onlyGET)
				seen := &observer{}
				client := cloud.client(t, egress.Options{Credentials: fake, InForce: now.Load, MaxConcurrent: 1, Observer: seen}, "http://cloud.example/")
				now.Store(client)
				if test.answer == nil && !test.apply || strings.Contains(name, "redirect") && !strings.Contains(name, "while") {
					withdraw()
				}
				denied := 0
				for _, got := range send(t, client, test.requests...) {
					if abi.Code(got.Code) == abi.CodeDenied {
						denied++
						wantCode(t, got, abi.CodeDenied, "in the HostConfiguration")
					}
				}
				if want := max(1, len(test.requests)-int(test.sent)); denied != want || cloud.requests.Load() != test.sent || seen.count("refused denied") != want {
					t.Errorf("%d are denied, %d sent, %d counted as refused, want %d, %d", denied, cloud.requests.Load(), seen.count("refused denied"), want, test.sent)
				}
			})
		})
	}
}

// TestWithdrawnNetworks: what a grant names beside the URL is withdrawn with it,
// and a connection that is there helps nobody.
func TestWithdrawnNetworks(t *testing.T) {
	server := serve(t, status(http.StatusOK))
	own := grant(t, strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	own.CIDRs = loopback
	var now atomic.Pointer[egress.Client]
	client := newClient(t, egress.Options{InForce: now.Load}, own)
	for _, test := range []struct {
		cidrs []netip.Prefix
		want  abi.Code
	}{
		{loopback, abi.CodeOK},
		{nil, abi.CodeDenied},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.2/31"), netip.MustParsePrefix("10.0.0.0/8")}, abi.CodeDenied},
		{[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/30"), netip.MustParsePrefix("::/0")}, abi.CodeOK},
		{[]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, abi.CodeOK},
	} {
		later := own
		later.CIDRs = test.cidrs
		now.Store(newClient(t, egress.Options{}, later))
		wantCode(t, sendOne(t, client, get(own.String())), test.want, "")
	}
}

func TestAWithdrawnClientCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := grant(t, "https://cloud.example/")
		later := newClient(t, egress.Options{}, own)
		own.ClientCertificate = &egress.ClientCertificate{Get: func(context.Context) (*tls.Certificate, error) { return nil, errors.New("asked") }}
		client := newClient(t, egress.Options{InForce: func() *egress.Client { return later }}, own)
		wantCode(t, sendOne(t, client, get("https://cloud.example/")), abi.CodeDenied, "providers[].grants[].clientCertificate")
	})
}

// TestWithdrawnReads: what a grant says of writes is asked of both, too.
func TestWithdrawnReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, status(http.StatusOK))
		own := grant(t, cloudURL)
		later := newClient(t, egress.Options{}, own)
		own.Reads = []egress.Read{{Method: "POST"}}
		client := newClient(t, egress.Options{InForce: func() *egress.Client { return later }}, own)
		egress.ConnectBy(client, cloud.connect)
		if _, err := client.Send(writegate.NewContext(t.Context(), &writegate.Gate{}), []*abi.HttpRequest{request("POST", cloudURL)}); err != nil || cloud.requests.Load() != 0 {
			t.Errorf("%v, %d requests", err, cloud.requests.Load())
		}
	})
}

// TestOneWayOut: requests for a provider leave by one function, after permit. What
// else could send or connect in these rooms must first be looked at as those were,
// and asked of the grants of now.
func TestOneWayOut(t *testing.T) {
	ways := regexp.MustCompile(`\.RoundTrip\(|\bhttp\.(Client\{|DefaultClient|DefaultTransport|Get\(|Post\(|PostForm\(|Head\()|&http\.Transport\{|\bnet\.Dial\w*|\btls\.(Dial\w*|Client)\(|\begress\.New\(|\.(exchange|observed|permit|newRequest)\(`)
	found := map[string][]string{}
	for _, room := range []string{"..", "../../manager/grant"} {
		err := filepath.WalkDir(room, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				if way := ways.FindString(line); way != "" && !strings.HasPrefix(line, "func ") && !strings.HasPrefix(strings.TrimSpace(line), "//") {
					name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
					found[name] = append(found[name], way)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		// attempt asks before the credential and before it sends.
		"egress/exchange.go":   {".permit(", ".newRequest(", ".permit(", ".observed(", ".exchange(", ".RoundTrip("},
		"egress/transport.go":  {"&http.Transport{", "net.Dialer"},
		"egress/reach.go":      {"tls.Client("},  // of the network of now, without a request
		"credential/oauth2.go": {"http.Client{"}, // by the client of grant/credential.go
		"grant/credential.go":  {"egress.New("},
		"grant/network.go":     {"egress.New("},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}
