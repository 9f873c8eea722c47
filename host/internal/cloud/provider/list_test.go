package provider

import (
	"context"
	"errors"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

func TestListInstances(t *testing.T) {
	var retry *cloudproviderapi.RetryError
	for name, test := range map[string]struct {
		invoker *fakeInvoker
		check   func(page *abi.ListInstancesResponse, err error) bool
	}{
		"a page": {answer(t, &abi.ListInstancesResponse{Instances: []*abi.Instance{{NodeName: "n1"}}, NextPageToken: "2", Done: true}),
			func(page *abi.ListInstancesResponse, err error) bool {
				return err == nil && len(page.Instances) == 1 && page.NextPageToken == "2"
			}},
		"an empty page":   {answer(t, &abi.ListInstancesResponse{Done: true}), func(page *abi.ListInstancesResponse, err error) bool { return err == nil && page != nil }},
		"an empty answer": {answer(t, &abi.ListInstancesResponse{}), func(_ *abi.ListInstancesResponse, err error) bool { return err != nil }},
		"in progress": {fails(&abi.Error{Code: abi.CodeRetryAfter}), func(_ *abi.ListInstancesResponse, err error) bool {
			return errors.As(err, &retry) && retry.RetryAfter() == defaultRetryAfter
		}},
		"an error": {fails(&abi.Error{Code: abi.CodeInternal, Message: "it broke"}),
			func(_ *abi.ListInstancesResponse, err error) bool {
				return err != nil && err.Error() == "list_instances: it broke"
			}},
		"not implemented": {fails(&abi.Error{Code: abi.CodeNotImplemented}),
			func(_ *abi.ListInstancesResponse, err error) bool {
				return errors.Is(err, cloudprovider.NotImplemented)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			i := &instances{invoker: test.invoker}
			if page, err := i.ListInstances(t.Context(), 1, "", 100); !test.check(page, err) {
				t.Errorf("%v, %v", page, err)
			}
		})
	}
}

// host/internal/cloud/async hands the answer of the first page to whoever asks the same.
func TestListingsAreToldApart(t *testing.T) {
	var asked []string
	i := &instances{invoker: &fakeInvoker{invoke: func(ctx context.Context, op abi.Op, req, resp abi.Message) error {
		r := req.(*abi.ListInstancesRequest)
		asked = append(asked, op.String()+" "+opcontext.FromContext(ctx).Serial+" "+r.PageToken)
		if r.PageSize != 7 {
			t.Errorf("page size %d", r.PageSize)
		}
		resp.(*abi.ListInstancesResponse).Done = true
		return nil
	}}}
	for _, number := range []uint64{1, 2} {
		if _, err := i.ListInstances(t.Context(), number, "token", 7); err != nil {
			t.Fatal(err)
		}
	}
	if asked[0] != "list_instances listing 1 token" || asked[1] != "list_instances listing 2 token" {
		t.Errorf("asked %q", asked)
	}
	if i.CanList() != true || (&instances{invoker: &fakeInvoker{supports: func(op abi.Op) bool { return op != abi.OpListInstances }}}).CanList() {
		t.Error("CanList is not what the guest supports")
	}
}
