package egress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

func TestTemplate(t *testing.T) {
	for path, want := range map[string]string{
		"/":    "/",
		"/sdk": "/sdk",
		"/v2.1/servers/7b0a3f6e-7d6b-4a3c-8a61-0a4d1c2a9b11":        "/v2.1/servers/*",
		"/v2.0/lbaas/loadbalancers/7b0a3f6e7d6b4a3c8a610a4d/status": "/v2.0/lbaas/loadbalancers/*/status",
		"/compute/v1/projects/p/zones/europe-west3-a/instances/web": "/compute/v1/projects/*/zones/*/instances/*",
		"/v1/machines/12/actions/web-a":                             "/v1/machines/*/actions/*",
		"/2015-03-31/functions/":                                    "/*/functions",
		"/compute/v1beta1/projects/web":                             "/compute/v1beta1/projects/*",
		"/a%2Fb/x":                                                  "/*/x",
		"/deadbeef":                                                 "/*",
		"/" + strings.Repeat("w", 100):                              "/*",
		strings.Repeat("/a", 3000):                                  "/a/a/a/*/a/*/a/*/a/*/...",
	} {
		if got := egress.Template(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("/v1/servers/1")
	f.Fuzz(func(t *testing.T, path string) {
		got := egress.Template(path)
		if len(got) > 10*41+5 || strings.ContainsAny(got, "\n\"?#") || egress.Template(got) != got && !strings.HasSuffix(got, "/...") && !strings.Contains(path, "//") {
			t.Errorf("%q is %q, and that is %q", path, got, egress.Template(got))
		}
	})
}

// Who observes sees where a request went, and neither a secret nor its query.
func TestAnExchangeIsSeenWithoutSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("four")) })
		seen := &observer{}
		client := cloud.client(t, egress.Options{Observer: seen, Credentials: credentials{
			scrub: func(data []byte) []byte { return []byte(strings.ReplaceAll(string(data), "hunter", "***")) },
		}}, cloudURL)
		sendOne(t, client, &abi.HttpRequest{Method: "POST", Url: cloudURL + "v1/servers/12/hunter?token=hunter", Body: []byte("body!")})
		if len(seen.exchanges) != 1 {
			t.Fatalf("%+v", seen.exchanges)
		}
		x := seen.exchanges[0]
		if x.Path != "/v1/servers/12/***" || x.Template != "/v1/servers/*/*" || x.Status != 200 || x.Result != "2xx" || x.Sent != 5 || x.Received != 4 || x.Method != http.MethodPost {
			t.Errorf("%+v", x)
		}
		if text := fmt.Sprintf("%+v", x); strings.Contains(text, "hunter") || strings.Contains(text, "token") {
			t.Error(text)
		}
	})
}
