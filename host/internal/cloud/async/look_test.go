package async

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// The deletion of an old route is found by the Node's name, as a Node's pod CIDR is not
// the route's any more.
func TestTheRoutesOfANodeAreFound(t *testing.T) {
	next := &fakeNext{invoke: func(context.Context, abi.Op, abi.Message, abi.Message) error {
		time.Sleep(20 * time.Second)
		return nil
	}}
	within(t, next, Options{}, func(t *testing.T, i *Invoker, o *observed) {
		ended := make(chan error, 1)
		ctx := opcontext.NewContext(about("node-1"), opcontext.Op{Object: opcontext.FromContext(about("node-1")).Object, Serial: "Route 10.9.0.0/24 of node-1"})
		go func() { ended <- i.Invoke(ctx, abi.OpRouteDelete, &abi.RouteDeleteRequest{}, &abi.Done{}) }()
		time.Sleep(time.Second)
		if got := i.Routes("node-1"); !slices.Equal(got, []string{"10.9.0.0/24"}) || len(i.Routes("1")) != 0 {
			t.Errorf("%q, and of another Node %q", got, i.Routes("1"))
		}
		if running, _ := i.Look(abi.GroupRoutes, "10.9.0.0/24 of node-1"); running == nil || running.Op != abi.OpRouteDelete {
			t.Errorf("%+v runs", running)
		}
		if err := <-ended; err == nil {
			t.Error("it has ended, after less than 20 s")
		}
	})
}
