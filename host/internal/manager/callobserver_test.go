package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// sender is an invoker whose ops send one request.
type sender struct {
	opcontext.Invoker
	client *egress.Client
	url    string
}

func (s sender) Invoke(ctx context.Context, _ abi.Op, _, _ abi.Message) error {
	_, err := s.client.Send(ctx, []*abi.HttpRequest{{Method: "PUT", Url: s.url, Body: []byte("body")}})
	return err
}

// A request to the cloud appears with its op and object in the metrics, in the
// log and in the record; its query appears nowhere.
func TestARequestIsSeen(t *testing.T) {
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer cloud.Close()
	all, registry := metrics.New(), basemetrics.NewKubeRegistry()
	all.Register(registry.MustRegister)
	var log bytes.Buffer
	logger := funcr.NewJSON(func(line string) { log.WriteString(line) }, funcr.Options{Verbosity: callLevel})
	o := callObserver{all.Provider("main").Egress(), calls.New(), tracing.New("test", ""), "main", logger}
	g, err := egress.ParseGrant(cloud.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	client, err := egress.New([]egress.Grant{g}, egress.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	network := &network{}
	op := scrubbed{sender{client: client, url: cloud.URL + "/v1/balancers/17?key=hunter2"}, "main", all.Provider("main"), o.spans, &allowed{}, newHistory(), func() int64 { return 3 }}
	op.allowed.current.Store(network)
	ctx := opcontext.NewContext(t.Context(), opcontext.Op{Object: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"}})
	if err := op.Invoke(ctx, abi.OpLoadBalancerEnsure, nil, nil); err != nil {
		t.Fatal(err)
	}

	latest := o.calls.Latest()
	if len(latest) != 1 {
		t.Fatalf("%+v", latest)
	}
	c := latest[0]
	if c.Op != "lb_ensure" || c.Object != "Service default/web" || c.Generation != 3 || c.Method != http.MethodPut || c.Status != http.StatusTeapot ||
		c.PathTemplate != "/v1/balancers/*" || c.Path != "/v1/balancers/17" || "http://"+c.Host != cloud.URL || c.SentBytes != 4 {
		t.Errorf("%+v", c)
	}
	labels := map[string]string{"provider": "main", "op": "lb_ensure", "method": "PUT", "path": "/v1/balancers/*", "result": "4xx"}
	if vec, err := testutil.GetHistogramVecFromGatherer(registry, "wasm_ccm_cloud_request_duration_seconds", labels); err != nil || vec.GetAggregatedSampleCount() != 1 {
		t.Errorf("%v, %v", vec, err)
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", log.Bytes(), err)
	}
	for key, want := range map[string]any{"op": "lb_ensure", "kind": "Service", "generation": 3.0, "status": 418.0, "path": "/v1/balancers/17", "method": "PUT"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v, in %v", key, line[key], want, line)
		}
	}
	record, _ := json.Marshal(latest)
	if everything := log.String() + string(record); strings.Contains(everything, "hunter2") {
		t.Errorf("the query is in %s", everything)
	}
}
