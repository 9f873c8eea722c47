package manager

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/calls"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
)

// Each reload and each changed Secret adds a network to the previous one, which
// continues to serve. Together they keep the provider's rates.
func TestReloadsDoNotMultiplyRates(t *testing.T) {
	var asked atomic.Int32
	cloud := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer cloud.Close()
	port := cloud.URL[strings.LastIndex(cloud.URL, ":")+1:]
	config, err := validation.Decode(fmt.Appendf(nil, `
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: HostConfiguration
providers:
- name: main
  source: {directory: /provider}
  grants: [{scheme: http, host: 127.0.0.1, port: %s}]
  requests: {perSecond: 1, burst: 5, timeout: 1s}
`, port))
	if err != nil {
		t.Fatal(err)
	}
	n := &networkBuilder{
		client: fake.NewClientset(), observer: callObserver{metrics.New().Provider("main").Egress(), calls.New(), tracing.New("test", ""), "main", klog.Background()}, life: t.Context(),
		scrubber: credential.NewScrubber(clock.RealClock{}), signers: &signerLoader{}, tasks: &tasks.Group{}, allowed: &allowed{},
	}
	begun := time.Now()
	for range 10 {
		net, err := n.build(&config.Providers[0])
		if err != nil {
			t.Fatal(err)
		}
		defer net.release()
		n.allowed.current.Store(net)
		for range 5 {
			if _, err := net.Client.Send(t.Context(), []*abi.HttpRequest{{Method: "GET", Url: cloud.URL + "/", TimeoutMs: 50}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most := 5 + 1 + int32(time.Since(begun).Seconds()); asked.Load() > most || asked.Load() == 0 {
		t.Errorf("%d requests were sent, of at most %d", asked.Load(), most)
	}
}
