package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2/ktesting"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// The loops are notified of a new serving generation, and of other changes.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot, all := newChanges(), newChanges()
		ctx, cancel := context.WithCancel(t.Context())
		go all.follow(ctx, slot.Changed)
		synctest.Wait()
		told := func(change func()) bool {
			next := all.Changed()
			change()
			synctest.Wait()
			select {
			case <-next:
				return true
			default:
				return false
			}
		}
		for range 3 {
			if !told(slot.tell) || !told(all.tell) || told(func() {}) {
				t.Error("a change is not told, or one that was none")
			}
		}
		cancel()
	})
}

func TestWhyANodeKeepsItsTaint(t *testing.T) {
	events := record.NewFakeRecorder(10)
	tell := newUninitialised(events)
	n := objects.Nodes(t)["kubeadm-joining.yaml"]
	tell(n, fmt.Errorf("instance_metadata worker-joining: %w", cloudprovider.InstanceNotFound))
	tell(n, errors.New("quota"))
	for _, want := range []string{"knows no machine for this Node", "uninitialized: quota. It is tried again"} {
		if got := <-events.Events; !strings.HasPrefix(got, "Warning NodeNotInitialized ") || !strings.Contains(got, want) {
			t.Errorf("Event %q, want %q", got, want)
		}
	}
}

// The caller of an op without an answer is gone: the Event on the object and the log report it.
func TestAnOpWithoutAnAnswerIsToldInEventAndLog(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	events := record.NewFakeRecorder(10)
	o := &opObserver{logger: logger, metrics: metrics.New().Provider("a"), events: events}
	late := errors.New("the provider did not answer within 30s (providers[].ops.timeout)")
	o.Unanswered(&corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"}, abi.OpLoadBalancerEnsure, 30*time.Second, late)
	o.Unanswered(nil, abi.OpRouteList, 30*time.Second, late)
	if got := <-events.Events; !strings.HasPrefix(got, "Warning ProviderNoAnswer lb_ensure ") || !strings.Contains(got, late.Error()) || len(events.Events) != 0 {
		t.Errorf("Event %q", got)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{"lb_ensure", "default/web", "route_list", "providers[].ops.timeout"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}
}
