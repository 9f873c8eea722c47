package manager

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	statusv1alpha1 "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

func example(t *testing.T, change func(string) string) *v1alpha1.HostConfiguration {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "v1alpha1", "testdata", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := validation.Decode([]byte(change(string(data))))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func replace(old, new string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, new, 1) }
}

// A refused file is reported where the operator looks, with its field; so is
// the correction, once.
func TestARejectedConfigurationIsToldOfWithItsField(t *testing.T) {
	const valid = "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders:\n- name: test\n  source: {directory: /provider}\n"
	reporter, events := newTestReporter(t)
	r := &reloader{metrics: metrics.New(), providers: &providerSet{now: []*managed{{providerRollout: &providerRollout{reporter: reporter}}}}}
	for _, test := range []struct{ file, want string }{
		{valid + "  ops: {timeout: banana}\n", "providers[0].ops.timeout"},
		{valid + "  limits: {memory: 12 apples}\n", "providers[0].limits.memory"},
		{valid + "  limit: {}\n", `providers[0].limit`},
	} {
		if r.offer(t.Context(), "config.yaml", content{data: []byte(test.file)}, false) {
			t.Errorf("%s: it is tried again although it is wrong", test.want)
		}
		text := <-events
		if !strings.Contains(text, "does not start with") {
			t.Errorf("Event %q: whether a manager may be restarted with it", text)
		}
		if !strings.HasPrefix(text, "Warning "+eventConfiguration+" ") || !strings.Contains(text, test.want) {
			t.Errorf("Event %q, want %q", text, test.want)
		}
		if c := meta.FindStatusCondition(reporter.status.status.Conditions, statusv1alpha1.ConditionConfigured); c == nil || c.Status != "False" || !strings.Contains(c.Message, test.want) {
			t.Errorf("condition %+v, want %q", c, test.want)
		}
	}
	for range 2 {
		r.tell(nil)
	}
	if n := len(events); n != 1 {
		t.Fatalf("%d Events after it was mended, want 1", n)
	}
	if text := <-events; !strings.HasPrefix(text, "Normal "+eventReconfigured+" ") {
		t.Error(text)
	}
	if !meta.IsStatusConditionTrue(reporter.status.status.Conditions, statusv1alpha1.ConditionConfigured) {
		t.Errorf("conditions %+v", reporter.status.status.Conditions)
	}
}

// Every kind of credential, certificate and grant of the example gives a sender
// of requests.
func TestNetworkOfTheWholeExample(t *testing.T) {
	n := &networkBuilder{
		client: fake.NewClientset(), observer: callObserver{metrics.New().Provider("example").Egress(), calls.New(), tracing.New("test", ""), "example", klog.Background()}, scrubber: credential.NewScrubber(clock.RealClock{}),
		signers: &signerLoader{engines: stubEngine, client: fake.NewClientset(), reporter: &signerReporter{}}, tasks: &tasks.Group{}, allowed: &allowed{},
	}
	c := example(t, replace("", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be started
	net, err := n.open(ctx, func() {}, &c.Providers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer net.release()
	if len(net.signers) != 1 {
		t.Errorf("%d signers, want 1", len(net.signers))
	}
	names := secretNames(&c.Providers[0])
	if len(names) != 10 {
		t.Errorf("%d Secrets are watched, want those of 9 credentials and one certificate: %v", len(names), names)
	}
}

func TestWithdrawnCapabilitiesAreDeniedAtOnce(t *testing.T) {
	a := &allowed{}
	a.current.Store(&network{capabilities: []string{abi.CapabilityStore}})
	asked := 0
	h := grantedHost{hostFunc(func() { asked++ }), a}
	if code, _ := h.HostCall(t.Context(), abi.CapabilityStore, nil); code != abi.CodeOK || asked != 1 {
		t.Errorf("granted: %s", code)
	}
	a.current.Store(&network{})
	if code, detail := h.HostCall(t.Context(), abi.CapabilityStore, nil); code != abi.CodeDenied || asked != 1 || !strings.Contains(string(detail), "providers[].capabilities") {
		t.Errorf("withdrawn: %s %q", code, detail)
	}
	for capability, field := range map[string]string{abi.CapabilityHTTP: "providers[].grants", abi.CapabilityKube: "providers[].kube"} {
		if code, detail := h.HostCall(t.Context(), capability, nil); code != abi.CodeDenied || !strings.Contains(string(detail), field) {
			t.Errorf("withdrawn: %s %q, want %s", code, detail, field)
		}
	}
	if code, _ := h.HostCall(t.Context(), abi.ImportLog, nil); code != abi.CodeOK || asked != 2 {
		t.Errorf("the log needs no grant: %s", code)
	}
}

func client(t *testing.T, a *allowed, hosts ...string) *network {
	t.Helper()
	var grants []egress.Grant
	for _, host := range hosts {
		g, err := egress.ParseGrant(host)
		if err != nil {
			t.Fatal(err)
		}
		g.CIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		grants = append(grants, g)
	}
	c, err := egress.New(grants, egress.Options{InForce: func() *egress.Client { return a.network().Client }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &network{Network: &grant.Network{Client: c}}
}

// An older generation has its grants at loading, less the withdrawn ones.
func TestAGenerationReachesWhatItHadAndWhatIsStillAllowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			http.Redirect(w, r, r.URL.RawQuery, http.StatusFound)
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	defer server.Close()
	a := &allowed{}
	own := client(t, a, server.URL+"/one/", server.URL+"/two/")
	a.current.Store(client(t, a, server.URL+"/two/", server.URL+"/three/"))
	var requests []*abi.HttpRequest
	for _, path := range []string{"/one/", "/two/", "/three/", "/two/?/one/"} {
		requests = append(requests, &abi.HttpRequest{Method: "GET", Url: server.URL + path, FollowRedirects: 1})
	}
	results, err := own.Client.Send(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "/two/", "", ""} {
		got := results[i]
		body := string(cmp.Or(got.Response, &abi.HttpResponse{}).Body)
		if denied := abi.Code(got.Code) == abi.CodeDenied; denied != (want == "") || body != want {
			t.Errorf("%s: %v %q", requests[i].Url, got.Error, body)
		}
	}
	a.current.Store(client(t, a))
	if results, err = own.Client.Send(t.Context(), requests); err != nil || abi.Code(results[1].Code) != abi.CodeDenied {
		t.Errorf("nothing is allowed any more: %v, %v", results, err)
	}
}

type hostFunc func()

var _ engine.Host = hostFunc(nil)

func (f hostFunc) HostCall(context.Context, string, []byte) (abi.Code, []byte) {
	f()
	return abi.CodeOK, nil
}
