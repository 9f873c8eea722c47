package async

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/test/requests"
)

// Upstream refreshes the metadata of a Node every five minutes, and asks once.
func TestMetadataOfASlowCloudArrives(t *testing.T) {
	next, calls := taking(always(4 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		ask := func() error {
			return i.Invoke(about("node-1"), abi.OpInstanceMetadata, requests.Instance("node-1"), &abi.InstanceMetadataResponse{})
		}
		answered := 0
		for range 24 { // two hours
			if ask() == nil {
				answered++
			}
			time.Sleep(5 * time.Minute)
		}
		if answered != 12 || calls.Load() != 12 {
			t.Errorf("%d of 24 questions were answered by %d calls, want every second one", answered, calls.Load())
		}
	})
}

// Of a Node others write all the time: virt-handler its heartbeat each minute, a
// network plugin its addresses. The answer that comes is about the machine.
func TestMetadataOfANodeThatOthersWriteArrives(t *testing.T) {
	next, calls := taking(always(4 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		machine := func(*corev1.Node) {}
		ask := func() error {
			req := requests.Instance("node-1", machine, func(n *corev1.Node) {
				n.Annotations["kubevirt.io/heartbeat"] = time.Now().Format(time.RFC3339)
			})
			return i.Invoke(about("node-1"), abi.OpInstanceMetadata, req, &abi.InstanceMetadataResponse{})
		}
		retry(t, ask())
		time.Sleep(5 * time.Minute)
		if err := ask(); err != nil || calls.Load() != 1 {
			t.Errorf("%v after %d calls", err, calls.Load())
		}
		for what, another := range map[string]func(*corev1.Node){
			"UID":         func(n *corev1.Node) { n.UID = "2" },
			"provider ID": func(n *corev1.Node) { n.Spec.ProviderID = "cloud://2" },
			"system UUID": func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "another" },
		} {
			retry(t, ask())
			time.Sleep(5 * time.Second)
			machine = another
			before := calls.Load()
			retry(t, ask())
			if calls.Load() != before+1 {
				t.Errorf("with another %s it got the answer about the machine before", what)
			}
			time.Sleep(5 * time.Second)
			if err := ask(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A route that was made in the background and is not in a later list is made
// again: the result of the first time is not handed out.
func TestARouteThatVanishedIsMadeAgain(t *testing.T) {
	var creates atomic.Int32
	var failing atomic.Bool
	next := &fakeNext{invoke: func(_ context.Context, op abi.Op, _, _ abi.Message) error {
		if op != abi.OpRouteCreate {
			return nil
		}
		// Each time longer than what is known by then makes its caller wait.
		time.Sleep(10 * time.Second << (2 * creates.Add(1)))
		if failing.Load() {
			return &abi.Error{Code: abi.CodeDenied, Message: "quota"}
		}
		return nil
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		create := func() error {
			return i.Invoke(about("route-1"), abi.OpRouteCreate, &abi.RouteCreateRequest{NameHint: "uid"}, &abi.Done{})
		}
		list := func() {
			if err := i.Invoke(about(""), abi.OpRouteList, &abi.RouteListRequest{}, &abi.RouteListResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		list()
		retry(t, create())
		time.Sleep(time.Minute)
		list() // it is there, so nobody asks for the end of the op; then somebody removes it
		time.Sleep(10 * time.Second)
		list()
		retry(t, create())
		if creates.Load() != 2 || o.dropped["superseded"] != 1 {
			t.Errorf("%d creations, dropped: %v", creates.Load(), o.dropped)
		}
		time.Sleep(3 * time.Minute)
		failing.Store(true)
		list()
		retry(t, create())
		time.Sleep(12 * time.Minute)
		list()
		if err := create(); err == nil || err.Error() != "quota" || creates.Load() != 3 {
			t.Errorf("a failure is told as %v after %d creations", err, creates.Load())
		}
	})
}

// The second question about a Node is asked at the end of 40 seconds of silence:
// an answer from before them, for which nobody came, is none to it.
func TestASecondOpinionIsOfNow(t *testing.T) {
	next, calls := taking(always(3 * time.Second))
	within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
		confirm := func() error {
			return i.InvokeFresh(about("node-1"), abi.OpInstanceExists, requests.Instance("node-1"), &abi.InstanceExistsResponse{})
		}
		retry(t, confirm())
		time.Sleep(5 * time.Second) // the kubelet has lived, so nobody asks
		time.Sleep(40 * time.Second)
		retry(t, confirm())
		if calls.Load() != 2 {
			t.Errorf("%d calls: an old answer was handed out", calls.Load())
		}
		time.Sleep(20 * time.Second) // many other Nodes are asked about
		if err := confirm(); err != nil || calls.Load() != 2 {
			t.Errorf("%v after %d calls", err, calls.Load())
		}
	})
}
