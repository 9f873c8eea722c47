package provider

import (
	"context"
	"errors"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

type freshInvoker struct {
	*fakeInvoker
	fresh *fakeInvoker
}

func (f *freshInvoker) InvokeFresh(ctx context.Context, op abi.Op, req, resp abi.Message) error {
	return f.fresh.Invoke(ctx, op, req, resp)
}

func TestASecondQuestionGoesToAFreshInstance(t *testing.T) {
	gone := answer(t, &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST})
	there := answer(t, &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS})
	for name, test := range map[string]struct {
		invoker        opcontext.Invoker
		first, confirm bool
		fails          bool
	}{
		"gone":               {&freshInvoker{gone, gone}, false, false, false},
		"gone, there":        {&freshInvoker{gone, there}, false, true, false},
		"no answer":          {&freshInvoker{gone, fails(errors.New("trap"))}, false, false, true},
		"empty answer":       {&freshInvoker{gone, answer(t, &abi.InstanceExistsResponse{})}, false, false, true},
		"instance_not_found": {&freshInvoker{gone, fails(&abi.Error{Code: abi.CodeInstanceNotFound})}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var seen Instances
			p := New(test.invoker, WithInstances(func(i Instances) cloudprovider.InstancesV2 {
				seen = i
				return i
			}))
			v2, ok := p.InstancesV2()
			if !ok || v2 != seen {
				t.Fatalf("controllers get %v", v2)
			}
			if exists, err := v2.InstanceExists(t.Context(), testNode); exists != test.first || err != nil {
				t.Errorf("first: %v, %v", exists, err)
			}
			exists, err := seen.InstanceExistsFresh(t.Context(), testNode)
			if exists != test.confirm || (err != nil) != test.fails {
				t.Errorf("second: %v, %v", exists, err)
			}
		})
	}
}
