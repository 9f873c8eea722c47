package conformance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
)

// shelf is the cloud of guests/faulty, with tokens of a Keystone.
type shelf struct {
	server *httptest.Server

	mu      sync.Mutex
	objects map[string]string
	logins  int
}

const password = "open-sesame-now"

func newShelf(tb testing.TB) *shelf {
	s := &shelf{objects: map[string]string{"/probe": "", "/server/worker-1": "", "/server/worker-2": ""}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.URL.Path == "/v3/auth/tokens":
			s.login(w, r)
		case r.Header.Get("X-Auth-Token") != "token-of-the-shelf":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			s.object(w, r)
		}
	}))
	tb.Cleanup(s.server.Close)
	return s
}

func (s *shelf) login(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(body), `"`+password+`"`) {
		reply(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 401, "message": "The request you have made requires authentication."}})
		return
	}
	s.logins++
	w.Header().Set("X-Subject-Token", "token-of-the-shelf")
	reply(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"issued_at": time.Now().UTC().Format(time.RFC3339), "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"user": map[string]any{"id": "u", "name": "demo"}, "project": map[string]any{"id": "p", "name": "demo", "domain": map[string]any{"id": "default", "name": "Default"}},
	}})
}

func (s *shelf) object(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/route" {
		for path, body := range s.objects {
			if name, ok := strings.CutPrefix(path, "/route/"); ok {
				_, _ = io.WriteString(w, name+" "+body+"\n")
			}
		}
		return
	}
	body, found := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut:
		sent, _ := io.ReadAll(r.Body)
		s.objects[r.URL.Path] = string(sent)
	case !found:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		delete(s.objects, r.URL.Path)
	default:
		_, _ = io.WriteString(w, body)
	}
}

// faultyOptions run guests/faulty with the signer module signer-keystone.
func faultyOptions(tb testing.TB, config string) (conformance.Options, *shelf) {
	s := newShelf(tb)
	p := provider(tb, s.server.URL)
	p.Credentials = []v1alpha1.Credential{{
		Name: "cloud", Secret: v1alpha1.Reference{Namespace: "kube-system", Name: "keystone"},
		PublicKeys: []string{"username", "user_domain_name", "project_name", "project_domain_name"},
		Signer: &v1alpha1.SignerCredential{
			Config: "auth_url: " + s.server.URL + "/v3\n",
			Tokens: []v1alpha1.Endpoint{{URL: s.server.URL + "/v3/auth/tokens"}},
		},
	}}
	return conformance.Options{
		Module: built(tb, "faulty.wasm"), Config: []byte(strings.ReplaceAll(config, "URL", s.server.URL)),
		Engine: wazero.New(wazero.Options{CacheDir: tb.TempDir()}), Provider: p,
		Signers: map[string][]byte{"cloud": built(tb, "signer-keystone.wasm")},
		Secrets: conformance.Secrets{types.NamespacedName{Namespace: "kube-system", Name: "keystone"}: {
			"username": []byte("demo"), "password": []byte(password), "user_domain_name": []byte("Default"),
			"project_name": []byte("demo"), "project_domain_name": []byte("Default"),
		}},
		FaultTimeout: 300 * time.Millisecond, MaxWait: 50 * time.Millisecond,
		Cases: conformance.Cases{
			Nodes:  []conformance.Node{{Name: "worker-1"}, {Name: "worker-2"}},
			Routes: []conformance.Route{{Node: "worker-1", CIDR: "10.244.1.0/24"}},
		},
	}, s
}

// TestFaulty: configured mistakes of the compiled guest are found on the real
// engine, over the network and with a signer.
func TestFaulty(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	const counting = "count=URL\ncredential=cloud\nprobe=cloud\nroutes=on"
	for _, c := range []struct {
		name, config string
		annotations  map[string]string
		pass, fail   string
	}{
		{name: "well", config: counting,
			pass: "load probe probe-credentials instance-exists instance-metadata instance-foreign safe-exists " +
				"lb-name lb-ensure lb-nodes lb-ports crash-ensure crash-update crash-delete recover-ensure fault-401 throttled hang route-crash secrets",
			fail: "instance-unknown"}, // there is no shutdown
		{name: "routes lead to unknown nodes", config: counting, fail: "route-unknown"},
		{name: "every instance exists", config: "exists=yes", fail: "instance-unknown instance-foreign lb-absent lb-delete"},
		{name: "no instance exists", config: "exists=no", fail: "instance-exists"},
		{name: "it changes its mind", config: "exists=flaky", fail: "instance-exists"},
		{name: "probe", config: "probe=fail", fail: "probe probe-credentials"},
		{name: "it traps", config: "trap=3", fail: "instance-exists instance-metadata lb-ensure"},
		{name: "ensure traps", config: counting, annotations: map[string]string{"ensure": "trap"}, fail: "lb-ensure crash-ensure"},
		{name: "delete traps", config: counting, annotations: map[string]string{"delete": "trap"}, fail: "lb-delete crash-delete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, s := faultyOptions(t, c.config)
			ids := strings.Fields(c.pass + " " + c.fail)
			o.Only = regexp.MustCompile("^(" + strings.Join(ids, "|") + ")$")
			o.Cases = annotated(t, o.Cases, c.annotations)
			report := run(t, o)
			for _, r := range report.Results {
				want := conformance.Pass
				if strings.Contains(" "+c.fail+" ", " "+r.ID+" ") {
					want = conformance.Fail
				}
				if r.Verdict != want {
					t.Errorf("%s: %s %s, want %s\n%s", r.ID, r.Verdict, r.Note, want, strings.Join(r.Evidence, "\n"))
				}
			}
			if len(report.Results) != len(ids) {
				t.Errorf("%d clauses ran, want %d", len(report.Results), len(ids))
			}
			if s.mu.Lock(); strings.HasPrefix(c.config, "count") && s.logins == 0 {
				t.Error("nobody logged in")
			}
			s.mu.Unlock()
		})
	}
}

func annotated(tb testing.TB, c conformance.Cases, annotations map[string]string) conformance.Cases {
	tb.Helper()
	full := map[string]string{}
	for what, how := range annotations {
		full["faulty.example.com/"+what] = how
	}
	text, err := json.Marshal(map[string]any{
		"nodes": c.Nodes, "routes": c.Routes,
		"services": []any{map[string]any{"metadata": map[string]any{"name": "web", "annotations": full}, "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	parsed, err := conformance.ParseCases(text)
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}
