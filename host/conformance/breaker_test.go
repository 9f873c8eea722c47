package conformance_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// TestABrokenConnectionFailsOneClause: the breaker that opens in a clause is
// closed in the next.
func TestABrokenConnectionFailsOneClause(t *testing.T) {
	t.Parallel()
	cloud, broken := newWidgets(t), atomic.Bool{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			panic(http.ErrAbortHandler) // ends the connection
		}
		cloud.server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	o, g := widgetOptions(t, ""), &guest{base: front.URL + "/v1"}
	o.Engine, o.Config, o.Provider = native{g.serve}, []byte(g.base), provider(t, front.URL)
	o.Inspect = func(context.Context) (string, error) { return cloud.inspect(), nil }
	o.Only = regexp.MustCompile("^(instance-exists|instance-metadata|instance-shutdown)$")
	o.Progress = func(r conformance.Result) { broken.Store(r.ID == "instance-exists" && r.Verdict == "") }
	report := run(t, o)
	if broke := report.Result("instance-exists"); broke.Verdict != conformance.Fail {
		t.Errorf("%+v", broke)
	}
	for _, id := range []string{"instance-metadata", "instance-shutdown"} {
		if r := report.Result(id); r.Verdict != conformance.Pass {
			t.Errorf("%+v", r)
		}
	}
}
