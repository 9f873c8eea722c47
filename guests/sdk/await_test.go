package sdk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

func TestStatesAwait(t *testing.T) {
	states := sdk.States{Ready: []string{"active", "degraded"}, Failed: []string{"error"}}
	for state, code := range map[string]abi.Code{"active": abi.CodeOK, "degraded": abi.CodeOK, "error": abi.CodeInternal, "building": abi.CodeRetryAfter, "": abi.CodeRetryAfter} {
		err := states.Await("load balancer web (lb-17)", state)
		if sdk.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), "load balancer web (lb-17) has the state "+state) {
			t.Errorf("%q: %v", state, err)
		}
	}
	var e *abi.Error
	if errors.As(states.Await("x", "building"), &e); e.RetryAfter != 5*time.Second {
		t.Errorf("asked again after %v", e.RetryAfter)
	}
}

// A task is started once, queried until it is done, and may then run again.
func TestTaskOverSeveralOps(t *testing.T) {
	h := sdktest.New(t)
	started, asked, fail := 0, 0, error(nil)
	task := sdk.Task{
		Key: "create web", Every: 2 * time.Second,
		Start: func() (string, error) { started++; return "operation-17", nil },
		Done: func(id string) (bool, error) {
			if asked++; id != "operation-17" {
				t.Errorf("asked for %q", id)
			}
			return asked%3 == 0, fail
		},
	}
	for op, code := range []abi.Code{abi.CodeRetryAfter, abi.CodeRetryAfter, abi.CodeOK, abi.CodeRetryAfter} {
		if err := h.Op().Await(task); sdk.CodeOf(err) != code {
			t.Errorf("op %d: %v", op, err)
		}
		h.Clock = h.Clock.Add(2 * time.Second)
	}
	if started != 2 {
		t.Errorf("started %d times", started)
	}
	fail = sdk.Throttled(0, "slower")
	if err := h.Op().Await(task); sdk.CodeOf(err) != abi.CodeThrottled || started != 2 {
		t.Errorf("%v, started %d times", err, started)
	}
	fail = errors.New("quota")
	_ = h.Op().Await(task)
	h.Clock = h.Clock.Add(2 * time.Second)
	if err := h.Op().Await(task); err == nil || started != 3 {
		t.Errorf("after a failure: %v, started %d times", err, started)
	}
}

func TestTaskThatIsDoneAtOnce(t *testing.T) {
	task := sdk.Task{Key: "x", Start: func() (string, error) { return "", nil }}
	if err := sdktest.New(t).Op().Await(task); err != nil {
		t.Error(err)
	}
}

func TestLoadBalancerNames(t *testing.T) {
	service := &abi.Service{Namespace: "default", Name: "web", Uid: "12345678-9abc-def0-1234-56789abcdef0"}
	if name := sdk.DefaultLoadBalancerName(service); name != "a123456789abcdef0123456789abcdef" {
		t.Error(name)
	}
	if name := sdk.LoadBalancerName(service, 63); name != "k8s-default-web-12345678" {
		t.Error(name)
	}
	long := strings.Repeat("n", 63)
	for _, service := range []*abi.Service{{Namespace: long, Name: "web"}, {Namespace: "default", Name: long}, {Namespace: long, Name: long}} {
		service.Uid = "12345678-9abc-def0-1234-56789abcdef0"
		for _, most := range []int{0, 32, 63, 255} {
			name := sdk.LoadBalancerName(service, most)
			if len(name) > max(most, 32) || !strings.HasSuffix(name, "-12345678") || strings.Contains(name, "--") {
				t.Errorf("%d: %s", most, name)
			}
		}
	}
}
