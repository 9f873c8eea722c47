package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/brake"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Leases of kubelets, on two pages; one was never renewed, one is a leader's.
func TestHeartbeats(t *testing.T) {
	renewed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := func(namespace, name string, at *metav1.MicroTime) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: at}}
	}
	client := fake.NewClientset()
	client.PrependReactor("list", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := action.(clienttesting.ListActionImpl)
		if list.Namespace != corev1.NamespaceNodeLease || list.ListOptions.Limit == 0 {
			return true, nil, fmt.Errorf("listed %s, %+v", list.Namespace, list.ListOptions)
		}
		page := &coordinationv1.LeaseList{Items: []coordinationv1.Lease{lease(list.Namespace, "n1", &metav1.MicroTime{Time: renewed})}}
		page.Continue = "more"
		if list.ListOptions.Continue == "more" {
			page.Continue = ""
			page.Items = []coordinationv1.Lease{lease(list.Namespace, "n2", nil), lease(list.Namespace, "n3", &metav1.MicroTime{Time: renewed.Add(time.Second)})}
		}
		return true, page, nil
	})
	got, err := heartbeats(t.Context(), client)
	if err != nil || len(got) != 2 || !got["n1"].Equal(renewed) || !got["n3"].Equal(renewed.Add(time.Second)) {
		t.Errorf("%v, %v", got, err)
	}
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no"))
	})
	_, err = heartbeats(context.Background(), client)
	const rule = `add to a Role in namespace kube-node-lease that is bound to the manager's service account: ` +
		`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["list"]}`
	if err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), rule) {
		t.Errorf("%v", err)
	}
}

// Each held Node gets an Event with its time, up to the limit on Events, and
// why and status show the same time.
func TestEventAndWhySayOneTime(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	o := &brakeObserver{events: recorder, held: rate.NewLimiter(heldEvents, heldEventsBurst)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "x://1"}}
	hold := brake.Hold{Reason: brake.ReasonNoPermit, Message: "it is expected to go at 2026-01-02T03:04:05Z", Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	e := explain.Node(node, explain.Facts{Provider: &v1alpha1.Provider{Name: "p"}, Held: heldOf(&brake.Held{Hold: hold})})
	told := 0
	for range 2 * heldEventsBurst {
		if o.Explain(node, hold) {
			told++
		}
	}
	if told < heldEventsBurst || told == 2*heldEventsBurst || len(recorder.Events) != told {
		t.Errorf("%d were told, with %d Events", told, len(recorder.Events))
	}
	for where, said := range map[string]string{"Event": <-recorder.Events, "why and status": e.Message, "why": e.WaitsFor} {
		if !strings.Contains(said, "2026-01-02T03:04:05Z") {
			t.Errorf("%s: %q", where, said)
		}
	}
	if !strings.Contains(e.Next[0].Command, "node n1 wasm-ccm.dev/node-deletion=Unbraked") {
		t.Errorf("the first step is %+v", e.Next[0])
	}
}
