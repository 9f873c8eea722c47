package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// nobodysService exists in no cluster.
func nobodysService() *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe", UID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Annotations: map[string]string{}}}
}

// reach asks the cloud for something that cannot exist, if the guest was built
// so. Any answer will do, if it is the cloud's.
func (p *provider) reach(ctx context.Context) error {
	if p.probed == "" {
		return nil
	}
	if instances, ok := p.anyInstances(); ok {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1.NodeSpec{ProviderID: p.probed}}
		if err := p.asked("an instance", func() error { _, err := instances.InstanceExists(ctx, node); return err }); err != nil {
			return err
		}
	}
	balancers, ok := p.cloud.LoadBalancer()
	if !ok {
		return nil
	}
	return p.asked("a load balancer", func() error {
		_, _, err := balancers.GetLoadBalancer(ctx, p.cluster, nobodysService())
		return err
	})
}

// anyInstances are the provider's instances, of either interface.
func (p *provider) anyInstances() (cloudprovider.InstancesV2, bool) {
	if v2, ok := p.cloud.InstancesV2(); ok {
		return v2, true
	}
	first, ok := p.cloud.Instances()
	return &firstInstances{cloud: p.cloud, instances: first}, ok
}

// asked returns nil if the cloud answered. "Does not exist" is an answer,
// whatever the provider makes of it.
func (p *provider) asked(what string, ask func() error) error {
	seen := &witness{}
	p.bridge.witness(seen)
	err := ask()
	p.bridge.witness(nil)
	failed := seen.whole(p.goneWords())
	switch {
	case failed == nil && p.answered(seen, err):
		return nil
	case err == nil && failed == nil:
		err = errors.New("no answer says anything")
	case err == nil:
		err = failed
	}
	err = fmt.Errorf("asking for %s that cannot exist: %w", what, err)
	if refused := seen.refused(); refused != "" {
		return sdk.Unauthenticated(err.Error() + " (" + refused + ")")
	}
	var host *abi.Error
	if errors.As(failed, &host) {
		return &abi.Error{Code: host.Code, RetryAfter: host.RetryAfter, Message: p.bridge.explain(err).Error()}
	}
	return p.failure(err)
}

// answered reports whether the cloud answered: that the thing does not exist,
// or, if the provider understood it, anything. A page or an empty object comes
// from elsewhere.
func (p *provider) answered(w *witness, err error) bool {
	gone := p.goneWords()
	if slices.ContainsFunc(w.answers, func(a answer) bool { return a.says(gone) || a.empty(p.empty) }) {
		return true
	}
	if err != nil && !errors.Is(err, cloudprovider.InstanceNotFound) {
		return false
	}
	return len(w.answers) == 0 || slices.ContainsFunc(w.answers, func(a answer) bool {
		values, list, err := read(a.answer)
		return err == nil && (list || len(values) > 0)
	})
}

// refused names the request that was answered 401 or 403, or "".
func (w *witness) refused() string {
	for i := range w.answers {
		if refused := w.answers[i].refused; refused != "" {
			return refused
		}
	}
	return ""
}
