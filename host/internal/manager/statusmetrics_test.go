package manager

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"
	ccmconfig "k8s.io/cloud-provider/app/config"
	basemetrics "k8s.io/component-base/metrics"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Stuck objects are counted by the status's reasons, while they are stuck and
// their provider is configured.
func TestStuckObjectsAreCountedByTheReasonsOfTheStatus(t *testing.T) {
	c, module := newCloud(t), guest(t, `["instance_exists"]`)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, c, module)
		one, two := w.provider("one", first("one")), w.provider("two", first("two"))
		w.write(fileHead + one + two)
		m, err := w.begin("1")
		if err != nil {
			t.Fatal(err)
		}
		defer m.end()
		registry := basemetrics.NewKubeRegistry()
		m.metrics.Register(registry.MustRegister)
		source := m.newStatusSource((&ccmconfig.Config{SharedInformers: m.informers}).Complete())
		m.informers.Start(m.work.Done())
		var gate atomic.Pointer[chan struct{}] // the status waits for it
		synced := source.synced
		source.synced = func() bool {
			if held := gate.Load(); held != nil {
				<-*held
			}
			return synced()
		}
		w.balance("one", 5)
		m.working.Go("the metrics", func() { source.measure(m.work, &apiserver.SecureServingInfo{}) })
		shows := func(when string, want map[metrics.Stuck]int) {
			t.Helper()
			time.Sleep(measurePeriod)
			synctest.Wait()
			status, err := source.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told := map[metrics.Stuck]int{}
			for _, p := range append(status.Providers, v1alpha1.Provider{Stuck: status.Nobodys}) {
				for _, e := range p.Stuck {
					told[metrics.Stuck{Kind: e.Object.Kind, Reason: e.Cause, Provider: e.Provider}]++
				}
			}
			if shown := stuckOf(t, registry); !maps.Equal(shown, want) || !maps.Equal(told, want) {
				t.Errorf("%s: the metric is %v, the status says %v, want %v", when, shown, told, want)
			}
		}
		shows("a standby", map[metrics.Stuck]int{})
		m.cloud().Initialize(nil, nil)
		shows("nothing serves", map[metrics.Stuck]int{{Kind: "Service", Reason: "NothingServes", Provider: "one"}: 5})
		w.balance("one", 2)
		shows("three are gone", map[metrics.Stuck]int{{Kind: "Service", Reason: "NothingServes", Provider: "one"}: 2})
		m.reload <- []byte(fileHead + two)
		shows("the provider is gone", map[metrics.Stuck]int{{Kind: "Service", Reason: "NoProvider"}: 2})
		w.balance("two", 0)
		shows("nothing is stuck", map[metrics.Stuck]int{})
		held := make(chan struct{})
		defer close(held)
		gate.Store(&held)
		time.Sleep(measurePeriod)
		synctest.Wait()
		stuckOf(t, registry) // a scrape does not wait as the status does
	})
}

// balance gives the cluster exactly so many Services of a provider.
func (w *world) balance(provider string, n int) {
	w.t.Helper()
	api := w.admin().CoreV1().Services(namespace)
	for i := range 5 {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("web-", i), Annotations: map[string]string{"wasm-ccm.dev/provider": provider}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}
		_ = api.Delete(w.t.Context(), s.Name, metav1.DeleteOptions{})
		if i >= n {
			continue
		}
		if _, err := api.Create(w.t.Context(), s, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// stuckOf are the series of wasm_ccm_stuck.
func stuckOf(t *testing.T, registry basemetrics.KubeRegistry) map[metrics.Stuck]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[metrics.Stuck]int{}
	for _, family := range families {
		if family.GetName() != "wasm_ccm_stuck" {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			all[metrics.Stuck{Kind: has["kind"], Reason: has["reason"], Provider: has["provider"]}] = int(m.GetGauge().GetValue())
		}
	}
	return all
}

// The earliest expiry of the secure port's certificates counts, from the present files.
func TestTheEndOfTheServingCertificate(t *testing.T) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := dynamiccertificates.NewStaticCertKeyContent("test", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := certificateEnds(&apiserver.SecureServingInfo{Cert: content})
	if left := time.Until(ends); err != nil || left < 300*24*time.Hour || left > 366*24*time.Hour {
		t.Errorf("a certificate of a year ends in %v: %v", left, err)
	}
	if ends, err := certificateEnds(&apiserver.SecureServingInfo{}); err != nil || !ends.IsZero() {
		t.Errorf("no certificate ends at %v: %v", ends, err)
	}
	if _, err := certificateEnds(&apiserver.SecureServingInfo{Cert: broken{content}}); err == nil || !strings.Contains(err.Error(), "the certificate of the secure port") {
		t.Errorf("what is no certificate: %v", err)
	}
}

// broken has an unreadable certificate.
type broken struct {
	dynamiccertificates.CertKeyContentProvider
}

func (broken) CurrentCertKeyContent() (cert, key []byte) { return []byte("none"), nil }
