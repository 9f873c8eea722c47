package conformance_test

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// provider is a HostConfiguration's provider for the cloud at a URL.
func provider(tb testing.TB, base string) v1alpha1.Provider {
	tb.Helper()
	u, err := url.Parse(base)
	if err != nil {
		tb.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		tb.Fatal(err)
	}
	c := v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{{
		Name:        "widgets",
		Grants:      []v1alpha1.Grant{{Scheme: "http", Host: u.Hostname(), Port: uint16(port), Credentials: []string{"cloud"}}},
		Credentials: []v1alpha1.Credential{{Name: "cloud", Secret: v1alpha1.Reference{Namespace: "kube-system", Name: "cloud"}, Bearer: &v1alpha1.BearerCredential{}}},
	}}}
	c.Providers[0].Requests.PerSecond, c.Providers[0].Requests.Burst = 10_000, 10_000
	v1alpha1.SetDefaults(&c)
	return c.Providers[0]
}

func secrets() conformance.Secrets {
	return conformance.Secrets{types.NamespacedName{Namespace: "kube-system", Name: "cloud"}: {"token": []byte(token + "\n")}}
}

// widgetOptions are for the guest in this package. Only the manifest of the
// module counts.
func widgetOptions(tb testing.TB, sabotage string) conformance.Options {
	cloud := newWidgets(tb)
	base := cloud.server.URL + "/v1"
	g := &guest{base: base, sabotage: sabotage}
	return conformance.Options{
		Module: module(tb), Config: []byte(base), Engine: native{g.serve},
		Provider: provider(tb, cloud.server.URL), Secrets: secrets(),
		Inspect: func(context.Context) (string, error) { return cloud.inspect(), nil }, IgnoreIPs: true,
		Settle: 50 * time.Millisecond, FaultTimeout: 150 * time.Millisecond, DriveTimeout: 20 * time.Second, MaxWait: 20 * time.Millisecond,
		Cases: conformance.Cases{
			Nodes:   []conformance.Node{{Name: "worker-1"}, {Name: "worker-2"}, {Name: "worker-3"}},
			Routes:  []conformance.Route{{Node: "worker-1", CIDR: "10.244.1.0/24"}, {Node: "worker-2", CIDR: "10.244.2.0/24"}},
			Volumes: []conformance.Volume{{PersistentVolume: volume()}},
		},
	}
}

// module is a module whose manifest has the ops of every clause.
func module(tb testing.TB) []byte {
	text := `{"name": "static", "version": "0.1.0", "abi": {"min": 1, "max": 1}, "capabilities": ["cache"], "credentials": ["cloud"], "ops": [` +
		`"instance_exists", "instance_shutdown", "instance_metadata", "list_instances", "lb_get", "lb_name", "lb_ensure", "lb_update", "lb_delete", ` +
		`"route_list", "route_create", "route_delete", "volume_labels", "tick"]}`
	wasm, err := manifest.Append(file(tb, "../../testdata/wat/provider.wasm"), []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func volume() (pv corev1.PersistentVolume) {
	pv.Name = "data"
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "vol-1"}
	return pv
}

// TestEveryClauseCanPass: without sabotage every clause applies, and passes.
func TestEveryClauseCanPass(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	t.Parallel()
	report := run(t, widgetOptions(t, ""))
	for _, r := range report.Results {
		if r.Verdict != conformance.Pass {
			t.Errorf("%s: %s %s\n%s", r.ID, r.Verdict, r.Note, strings.Join(r.Evidence, "\n"))
		}
	}
	t.Logf("%d clauses", len(report.Results))
}

// sabotages are guests with one mistake, and the clauses that must find it.
var sabotages = map[string]string{
	"another name":                     "load",
	"any configuration":                "config-invalid",
	"probe is always ready":            "probe-credentials fault-error hang",
	"probe is never ready":             "probe",
	"existence is the wrong way round": "instance-exists instance-unknown",
	"power changes":                    "instance-shutdown",
	"only the first page":              "list-pages",
	"the list has other zones":         "list-same",
	"the mark comes first":             "crash-ensure crash-update",
	"renamed before it is deleted":     "crash-delete",
	"a route has a second part":        "route-crash",
	"labels change":                    "volume-labels",
	"an error is no label":             "safe-volumes",
	"an error is no server":            "safe-exists safe-metadata",
	"anything is a server":             "safe-metadata fault-error",
	"a foreign node is unknown":        "instance-foreign",
	"metadata changes":                 "instance-metadata",
	"any token":                        "list-token",
	"no list is an empty list":         "safe-list fault-error",
	"names change":                     "lb-name lb-ensure",
	"an error is no load balancer":     "safe-lb-get safe-lb-delete",
	"no list is no load balancer":      "safe-lb-get safe-lb-delete",
	"the secret is logged":             "secrets",
	"always writes":                    "lb-ensure lb-nodes lb-ports",
	"named later":                      "crash-ensure recover-ensure",
	"nodes are forgotten":              "lb-nodes",
	"impatient":                        "throttled",
	"short delay":                      "throttled",
	"nothing to delete is an error":    "lb-absent lb-delete",
	"the order of the nodes counts":    "lb-order",
	"each node has an address":         "lb-joining",
	"half a load balancer is none":     "half-made",
	"what is gone is elsewhere":        "lb-absent lb-delete",
	"deletes nothing":                  "lb-delete",
	"errors say nothing":               "fault-error",
	"401 is internal":                  "fault-401 probe-credentials",
	"hang is ok":                       "hang",
	"no list is no route":              "safe-routes",
	"routes are written always":        "route-life",
	"routes to nowhere":                "route-unknown",
	"every volume is ours":             "volume-foreign",
	"a tick is never done":             "tick",
}

func TestEveryClauseCanFail(t *testing.T) {
	t.Parallel()
	proven := map[string]bool{"load-groups": true} // below
	for _, want := range sabotages {
		for _, id := range strings.Fields(want) {
			proven[id] = true
		}
	}
	for _, id := range conformance.IDs() {
		if !proven[id] {
			t.Errorf("no sabotage shows that %s can fail", id)
		}
	}
	for sabotage, want := range sabotages {
		t.Run(sabotage, func(t *testing.T) {
			t.Parallel()
			o := widgetOptions(t, sabotage)
			ids := strings.Fields(want)
			only := "^(" + strings.Join(ids, "|") + ")$"
			if want == "secrets" {
				only = "^(lb-ensure|secrets)$"
			}
			o.Only = regexp.MustCompile(only)
			report := run(t, o)
			for _, id := range ids {
				if r := report.Result(id); r.Verdict != conformance.Fail || len(r.Evidence) == 0 {
					t.Errorf("%s: %s %s, want FAIL with evidence", id, r.Verdict, r.Note)
				} else {
					t.Logf("%s:\n%s", id, strings.Join(r.Evidence, "\n"))
				}
			}
		})
	}
}

// Many clouds list "after this ID" and accept any token: the guest has to check it.
func TestAnyTokenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	o := widgetOptions(t, "any token")
	o.Only = regexp.MustCompile("^list-token$")
	r := run(t, o).Result("list-token")
	if !strings.Contains(strings.Join(r.Evidence, ""), "where the cloud takes any, check the form of the token first") {
		t.Errorf("%+v", r)
	}
}

// TestGroupsCanFail: lb_update is missing in the manifest.
func TestGroupsCanFail(t *testing.T) {
	t.Parallel()
	o := widgetOptions(t, "")
	wasm := file(t, "../../testdata/wat/provider.wasm")
	manifest1 := `{"name": "static", "version": "0.1.0", "abi": {"min": 1, "max": 1}, "capabilities": ["cache"], "ops": ["lb_get", "lb_name", "lb_ensure", "lb_delete"]}`
	wasm, err := manifest.Append(wasm, []byte(manifest1))
	if err != nil {
		t.Fatal(err)
	}
	o.Module, o.Only = wasm, regexp.MustCompile("^(load|load-groups|lb-ensure|instance-exists)$")
	report := run(t, o)
	if r := report.Result("load-groups"); r.Verdict != conformance.Fail || !strings.Contains(strings.Join(r.Evidence, ""), "lb_update") {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{"lb-ensure", "instance-exists"} {
		if r := report.Result(id); r.Verdict != conformance.NotApplicable || r.Note == "" {
			t.Errorf("%s: %s %s, want NOT APPLICABLE: the guest does not have it", id, r.Verdict, r.Note)
		}
	}
	if report.Passed() {
		t.Error("a report with a failure has passed")
	}
}

// list_instances needs the ops of instances: alone it is turned off, as the
// host reports when it loads the module.
func TestListAloneIsNoGroup(t *testing.T) {
	t.Parallel()
	o := widgetOptions(t, "")
	text := `{"name": "static", "version": "0.1.0", "abi": {"min": 1, "max": 1}, "capabilities": ["cache"], "ops": ["list_instances"]}`
	wasm, err := manifest.Append(file(t, "../../testdata/wat/provider.wasm"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o.Module, o.Only = wasm, regexp.MustCompile("^load-groups$")
	if r := run(t, o).Result("load-groups"); r.Verdict != conformance.Fail || !strings.Contains(strings.Join(r.Evidence, ""), "instance_exists") {
		t.Errorf("%+v", r)
	}
}
