package async

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// A provider that fails slowly is replaced by one that works. How its last op
// ended, nobody has come for yet: it must not be told as the answer of the new one.
func TestAFailureOfTheGenerationBeforeIsNotHandedOut(t *testing.T) {
	for name, replaced := range map[string]time.Duration{"after its end": 4 * time.Second, "before its end": time.Second} {
		t.Run(name, func(t *testing.T) {
			var mended atomic.Bool
			next := &fakeNext{invoke: func(_ context.Context, _ abi.Op, _, resp abi.Message) error {
				if mended.Load() {
					resp.(*abi.LoadBalancerEnsureResponse).Status = &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}}}
					return nil
				}
				time.Sleep(3 * time.Second)
				return &abi.Error{Code: abi.CodeInternal, Message: "a bug of the generation before"}
			}}
			within(t, next, Options{}, func(t *testing.T, i *Invoker, _ *observed) {
				_, err := ensure(i, "web")
				retry(t, err)
				time.Sleep(replaced)
				mended.Store(true)
				i.Reset()
				time.Sleep(5 * time.Second)
				if ip, err := ensure(i, "web"); err != nil || ip != "192.0.2.1" {
					t.Errorf("after the replacement: %q, %v", ip, err)
				}
			})
		})
	}
}
