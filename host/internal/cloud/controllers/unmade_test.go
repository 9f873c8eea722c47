package controllers

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// bare is a cloud without any load balancer.
type bare struct{ cloudprovider.LoadBalancer }

func (bare) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return errors.New("lb_update default/web: there is none")
}

// Upstream updates what it has not ensured yet, and what is deleted meanwhile. No
// user is warned of that.
func TestAnUpdateBeforeTheFirstEnsureWarnsNobody(t *testing.T) {
	for name, test := range map[string]struct {
		unmade bool
		want   tone
	}{
		"before the first ensure": {unmade: true, want: quiet},
		"after it":                {want: warning},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLease(t.Context(), errors.New("stopped"))
			l.unmade = func(*corev1.Service) bool { return test.unmade }
			err := leasedBalancer{bare{}, l}.UpdateLoadBalancer(t.Context(), "c", balanced("web"), nil)
			got, _ := l.later.tone(&corev1.Event{Type: corev1.EventTypeWarning, Message: "Error updating load balancer with new hosts [], error: " + err.Error()})
			if got != test.want {
				t.Errorf("%v: %v, want %v", err, got, test.want)
			}
		})
	}
	t.Run("deleted meanwhile", func(t *testing.T) {
		l, asked := newLease(t.Context(), errors.New("stopped")), 0
		l.leaves = func(*corev1.Service) bool { asked++; return asked > 1 }
		if err := (leasedBalancer{bare{}, l}).UpdateLoadBalancer(t.Context(), "c", balanced("web"), nil); err != cloudprovider.ImplementedElsewhere { //nolint:errorlint // upstream compares with ==
			t.Errorf("%v", err)
		}
	})
}
