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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/controllers"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/explain"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

func serviceOp(ctx context.Context, name string) context.Context {
	return opcontext.NewContext(ctx, opcontext.Op{Object: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: name}})
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	long := &abi.Error{Code: abi.CodeInternal, Message: strings.Repeat("a\n", 4<<10)}
	for i := range 2 * maxRemembered {
		h.ended(serviceOp(t.Context(), fmt.Sprint(i)), abi.OpLoadBalancerEnsure, time.Now(), nil, long)
		h.told(controllers.Call{Kind: "Service", Name: fmt.Sprint(i), Op: "ensure", Err: long})
	}
	if h.asked.Len() > maxRemembered || h.heard.Len() > maxRemembered {
		t.Errorf("%d and %d are remembered", h.asked.Len(), h.heard.Len())
	}
	if latest := h.latest.Load(); latest.Object.Name != fmt.Sprint(2*maxRemembered-1) || len(latest.Message) > maxRememberedBytes {
		t.Errorf("the latest is %+v", latest)
	}
	last := h.last(abi.GroupLoadBalancers, fmt.Sprint("default/", 2*maxRemembered-1), "")
	if last == nil || len(last.Message) > maxRememberedBytes || strings.Contains(last.Message, "\n") || last.Code != "internal" {
		t.Errorf("%+v", last)
	}
}

// A missing machine is no error, and reported as more than "ok".
func TestWhatDoesNotExistIsTold(t *testing.T) {
	for existence, want := range map[abi.Existence]string{
		abi.Existence_EXISTENCE_DOES_NOT_EXIST: "it does not exist", abi.Existence_EXISTENCE_EXISTS: "it exists", abi.Existence_EXISTENCE_UNSPECIFIED: "",
	} {
		h := newHistory()
		ctx := opcontext.NewContext(t.Context(), opcontext.Op{Object: &corev1.ObjectReference{Kind: "Node", Name: "gone"}})
		h.ended(ctx, abi.OpInstanceExists, time.Now(), &abi.InstanceExistsResponse{Existence: existence}, nil)
		if last := h.last(abi.GroupInstances, "gone", ""); last.Code != "ok" || last.Message != want {
			t.Errorf("%v is told as %q, %q", existence, last.Code, last.Message)
		}
	}
}

// A failure is kept until the same op succeeds: upstream also updates Services
// without a load balancer.
func TestAnUpdateDoesNotHideAFailure(t *testing.T) {
	h := newHistory()
	heard := func(op string, err error) *explain.Heard {
		h.told(controllers.Call{Kind: "Service", Name: "default/web", UID: "1", Op: op, Err: err})
		return h.heardOf("Service", "default/web", "1")
	}
	first := heard("ensure", errors.New("no"))
	if first == nil || first.Cause != report.Failed {
		t.Fatalf("%+v", first)
	}
	if now := heard("update", nil); now.Cause != report.Failed {
		t.Errorf("an update hides it: %+v", now)
	}
	if now := heard("get", nil); now.Cause != report.Failed {
		t.Errorf("a question hides it: %+v", now)
	}
	if now := heard("ensure", errors.New("still no")); !now.Since.Equal(first.Since) || now.Message != "still no" {
		t.Errorf("it fails since %v, want %v: %q", now.Since, first.Since, now.Message)
	}
	if now := heard("ensure", nil); now.Cause != "" {
		t.Errorf("it succeeded: %+v", now)
	}
	if now := heard("get", errors.New("unknown")); now.Message != "unknown" { // it is deleted: upstream asks first
		t.Errorf("the deletion fails: %+v", now)
	}
	if now := heard("get", nil); now.Cause != "" {
		t.Errorf("the question was answered: %+v", now)
	}
	if heard("ensure", context.Canceled).Cause != "" {
		t.Error("the end of a loop is no failure")
	}
	if h.heardOf("Service", "default/web", "2") != nil {
		t.Error("another Service of this name has its past")
	}
}

// A generation's answer is not attributed to the next one: neither from a call
// before the takeover, nor from one across it.
func TestAReasonEndsWithItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory()
		heard := func(began time.Time, err error) v1alpha1.Explanation {
			h.told(controllers.Call{Kind: "Node", Name: "n", UID: "1", Op: "metadata", Began: began, Err: err})
			return whyNode(h)
		}
		start, trap := time.Now(), &plugin.Crash{Err: errors.New("unreachable executed")}
		if e := heard(start, trap); e.State != v1alpha1.StateStuck || !strings.Contains(e.Message, "unreachable") {
			t.Fatalf("the generation that failed: %+v", e)
		}
		time.Sleep(time.Minute)
		h.replaced()
		for name, e := range map[string]v1alpha1.Explanation{"before": whyNode(h), "late": heard(start, trap)} {
			if e.State != v1alpha1.StateProgressing || e.Cause != report.NotAskedYet || strings.Contains(e.Message, "unreachable") || !strings.Contains(e.Message, "generation 7 serves") {
				t.Errorf("%s: %s, %s: %s", name, e.State, e.Cause, e.Message)
			}
		}
		time.Sleep(time.Second)
		if e := heard(time.Now(), errors.New("no")); e.State != v1alpha1.StateStuck || e.Message != "no" || time.Since(e.Since.Time) > time.Second {
			t.Errorf("the new generation fails, too: %+v", e)
		}
		if e := heard(time.Now(), nil); e.State != v1alpha1.StateDone {
			t.Errorf("it is mended: %+v", e)
		}
	})
}

// whyNode explains an initialised Node.
func whyNode(h *history) v1alpha1.Explanation {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}, Spec: corev1.NodeSpec{ProviderID: "a://n"}}
	return explain.Node(node, explain.Facts{Now: time.Now(), Heard: h.heardOf("Node", "n", "1"), Provider: &v1alpha1.Provider{
		Name: "a", Generation: 7, Serving: &v1alpha1.Module{}, Loops: []v1alpha1.Loop{{Name: "cloud-node-controller", Running: true}},
	}})
}

func TestCauses(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&abi.Error{Code: abi.CodeDenied}, report.NotGranted},
		{&abi.Error{Code: abi.CodeUnauthenticated}, report.CredentialsRefused},
		{&abi.Error{Code: abi.CodeUnavailable}, report.CloudUnavailable},
		{&abi.Error{Code: abi.CodeInvalid}, report.Refused},
		{&abi.Error{Code: abi.CodeInternal}, report.Failed},
		{&abi.Error{Code: abi.CodeThrottled}, report.Throttled},
		{cloudproviderapi.NewRetryError("later", time.Second), report.Postponed},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New("rbac")), report.Forbidden},
		{cloudprovider.InstanceNotFound, report.MachineUnknown},
		{cloudprovider.ImplementedElsewhere, report.ImplementedElsewhere},
		{cloudprovider.NotImplemented, report.NotImplemented},
		{plugin.ErrNotServing, report.NothingServes},
		{&plugin.Crash{Err: errors.New("unreachable")}, report.NoAnswer},
		{context.DeadlineExceeded, report.NoAnswer},
		{errors.New("what else"), report.Failed},
	} {
		if got, _, _ := causeOf(fmt.Errorf("lb_ensure default/web: %w", test.err)); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}
