package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// slowAPI does what it is asked and takes a second for its answer, which is lost where
// the caller does not wait for it.
type slowAPI struct{ kubernetes.Interface }
type slowCore struct{ typedcorev1.CoreV1Interface }
type slowServices struct{ typedcorev1.ServiceInterface }

func (a slowAPI) CoreV1() typedcorev1.CoreV1Interface { return slowCore{a.Interface.CoreV1()} }
func (c slowCore) Services(namespace string) typedcorev1.ServiceInterface {
	return slowServices{c.CoreV1Interface.Services(namespace)}
}

func (s slowServices) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*corev1.Service, error) {
	service, err := s.ServiceInterface.Patch(ctx, name, pt, data, opts, sub...)
	select {
	case <-time.After(time.Second):
		return service, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ending is a cloud whose ensures take their time and end so.
type ending struct {
	cloudprovider.LoadBalancer
	takes time.Duration
	err   error
}

func (e ending) EnsureLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	time.Sleep(e.takes)
	return &corev1.LoadBalancerStatus{}, e.err
}

func ensuredBy(t *testing.T, cloud ending, before *metav1.Condition) *metav1.Condition {
	t.Helper()
	s := balanced("web")
	if before != nil {
		s.Status.Conditions = []metav1.Condition{*before}
	}
	api := fake.NewClientset(s)
	l := newLease(t.Context(), errors.New("stopped"))
	l.conditions = newConditions("a", slowAPI{api}, l.later)
	_, _ = leasedBalancer{cloud, l}.EnsureLoadBalancer(t.Context(), "c", s, nil)
	l.end()
	synctest.Wait()
	now, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(now.Status.Conditions, Programmed)
}

// An ensure may end while it is written that it goes on.
func TestTheLastWordIsThatOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := metav1.Condition{Type: Programmed, Status: metav1.ConditionTrue, Reason: programmed, Message: `Provider "a" has made the load balancer as the Service says`}
		if now := ensuredBy(t, ending{takes: report.SlowAfter + time.Second/2}, &made); now == nil || now.Reason != programmed {
			t.Errorf("at the end: %+v", now)
		}
	})
}

func TestElsewhereAfterAWhileLeavesNoCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if now := ensuredBy(t, ending{takes: 5 * time.Second, err: cloudprovider.ImplementedElsewhere}, nil); now != nil {
			t.Errorf("at the end: %+v", now)
		}
	})
}
