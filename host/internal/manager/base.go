package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
)

// base is what each part of one provider uses: its name, its time, its access to
// the API server, and what survives restarts.
type base struct {
	name    string
	kube    // its own
	metrics *metrics.Provider
	logger  klog.Logger
	*lifetime
	// object is its status ConfigMap, for Events.
	object *corev1.ObjectReference
	status *status.Object
	book   *trials.Book
}

func newBase(s *shared, within *lifetime, name string, own kube) *base {
	logger := providerLogger(name)
	b := &base{
		name: name, kube: own, metrics: s.metrics.Provider(name), logger: logger,
		lifetime: newLifetime(klog.NewContext(within.work, logger), klog.NewContext(within.life, logger)),
		status:   status.New(own.client, s.storeNamespace, name, clock.RealClock{}).With(s.modules.store),
	}
	b.object = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.storeNamespace, Name: b.status.Name()}
	b.book = s.trials.Book(b.life, name, b.status)
	return b
}

// discard ends what was built and never started. It does not wait.
func (b *base) discard(within *lifetime) {
	b.die()
	b.stop()
	within.living.Go("the end of what was made for provider "+b.name, func() {
		_ = b.living.Wait(context.Background())
		_ = b.book.Close(within.life) // nothing was begun
		b.events.end()
	})
}

// providerLogger is the logger of one provider.
func providerLogger(name string) klog.Logger {
	return klog.Background().WithName("provider").WithValues("provider", name)
}
