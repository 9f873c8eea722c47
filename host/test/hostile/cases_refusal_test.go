package hostile_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
)

// refusalCases ask the host about a secret, by having refused what might be it.
func refusalCases() []hostileCase {
	all := ending("",
		"guess_host", "guess_scheme", "guess_path", "guess_path_escaped", "guess_path_base64", "guess_query", "guess_method",
		"guess_header_name", "guess_header_value", "guess_body", "guess_credential", "guess_scope", "guess_unresolved", "guess_wildcard",
		"guess_event", "guess_event_reason", "guess_store_key", "guess_cache")
	for i := range all {
		all[i].grant = grantSecret
	}
	return append(all, hostileCase{name: "refused_flood", phase: phaseOp, grant: grantSecretAtDefaultRates})
}

// theSecret is what the guest of these cases guesses.
const theSecret = "pass4711-7"

// oneSecret is a Secret with one key.
type oneSecret struct{ value string }

func (s oneSecret) Get(context.Context, string, string) (map[string][]byte, string, error) {
	return map[string][]byte{"token": []byte(s.value)}, "1", nil
}

// withSecret gives a world the manager's network, with a credential.
func (w *world) withSecret(tb testing.TB, secret string, options egress.Options) *world {
	tb.Helper()
	spec := credential.Spec{Name: "cloud", Secret: types.NamespacedName{Namespace: "ns", Name: "cloud"}, Bearer: &credential.Bearer{}}
	set, err := credential.NewSet(oneSecret{secret}, []credential.Spec{spec}, credential.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	// The first use makes the secret known.
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://granted.example/", nil)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := set.Apply(tb.Context(), "cloud", "", req, nil); err != nil {
		tb.Fatal(err)
	}
	var grants []egress.Grant
	for _, prefix := range []string{"http://granted.example/v1/", "http://*.wild.example/"} {
		g, err := egress.ParseGrant(prefix)
		if err != nil {
			tb.Fatal(err)
		}
		g.Credentials = []string{"cloud"}
		grants = append(grants, g)
	}
	options.Credentials, options.MaxRetries, options.BreakerFailures = set, -1, 1<<20
	options.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no DNS here")
	}}
	client, err := egress.New(grants, options)
	if err != nil {
		tb.Fatal(err)
	}
	o := w.options
	o.HTTP, o.Scrub = client, func(text string) string { return string(set.Scrub([]byte(text))) }
	w.host = hostfunc.New(o)
	return w
}

// TestTenThousandGuesses asks the manager's host calls, with the right guess among
// the others: the answers are those of a host with another secret, byte by byte.
func TestTenThousandGuesses(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	const right = "004711"
	often := egress.Options{RequestsPerSecond: 1e9, Burst: 1e9}
	host, other := newWorld(true).withSecret(t, right, often).host, newWorld(true).withSecret(t, "another", often).host
	for part, request := range map[string]func(guess string) *abi.HttpRequest{
		"host": func(g string) *abi.HttpRequest {
			return &abi.HttpRequest{Method: "GET", Url: "http://" + g + ".example/"}
		},
		"path": func(g string) *abi.HttpRequest {
			return &abi.HttpRequest{Method: "GET", Url: "http://granted.example/" + g}
		},
		"method": func(g string) *abi.HttpRequest {
			return &abi.HttpRequest{Method: "x" + g, Url: "http://granted.example/v1/"}
		},
		"header": func(g string) *abi.HttpRequest {
			return &abi.HttpRequest{Method: "GET", Url: "http://granted.example/v1/", Headers: []*abi.HttpHeader{{Name: "X-Forwarded-" + g, Value: g}}}
		},
		"credential": func(g string) *abi.HttpRequest {
			return &abi.HttpRequest{Method: "GET", Url: "http://granted.example/v1/", Credential: g}
		},
	} {
		for n := range 10_000 {
			guess := []byte("000000")
			for i, rest := len(guess)-1, n; rest > 0; i, rest = i-1, rest/10 {
				guess[i] += byte(rest % 10)
			}
			call := encode(t, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{request(string(guess))}})
			code, told := host.HostCall(t.Context(), abi.CapabilityHTTP, call)
			otherCode, otherTold := other.HostCall(t.Context(), abi.CapabilityHTTP, call)
			if code != otherCode || string(told) != string(otherTold) {
				t.Fatalf("%s: the guess %s is answered %v %q, by a host with another secret %v %q", part, guess, code, told, otherCode, otherTold)
			}
		}
	}
}

func encode(tb testing.TB, m abi.Message) []byte {
	tb.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		tb.Fatal(err)
	}
	return data
}
