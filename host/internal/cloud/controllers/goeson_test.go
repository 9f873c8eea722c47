package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/async"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// While an ensure goes on, a new Service says so by its condition; when it has ended,
// it says that, also where the address has not changed.
func TestAnEnsureThatGoesOnIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, objects.Nodes(t)["kops-spot.yaml"])
		c := newSlowCloud(90 * time.Second)
		invoker := async.New(c, async.Options{OpTimeout: 10 * time.Minute})
		w.start(Provider{Name: "slow", Cloud: provider.New(invoker), Changed: c.Changed})
		w.sleep()
		s := objects.Services(t)["ingress-nginx.yaml"]
		w.create(t, s)
		is := func(after time.Duration, reason string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			now, err := w.service(s.Namespace, s.Name)
			if err != nil {
				t.Fatal(err)
			}
			condition := meta.FindStatusCondition(now.Status.Conditions, Programmed)
			if got := condition; got == nil && reason != "" || got != nil && got.Reason != reason {
				t.Errorf("condition %+v, want reason %q", got, reason)
			}
		}
		is(time.Second, "")
		is(3*time.Second, provisioning)
		is(90*time.Second, programmed)
		w.change(t, s.Namespace, s.Name, func(s *corev1.Service) { s.Spec.Ports[0].Port = 8443 })
		is(30*time.Second, programmed) // no news
		is(40*time.Second, provisioning)
		is(30*time.Second, programmed)
		w.stop()
		if err := invoker.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
