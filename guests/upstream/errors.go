package upstream

import (
	"context"
	"errors"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// failure is a provider's error in the host's form.
func (p *provider) failure(err error) error { return convertError(p.bridge.explain(err)) }

// convertError gives a provider's error the code of the same meaning. An error
// of the host keeps its code, if the provider wrapped it.
func convertError(err error) error {
	var retry *api.RetryError
	switch {
	case err == nil || sdk.CodeOf(err) != abi.CodeInternal:
		return err
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return sdk.InstanceNotFound(err.Error())
	case errors.Is(err, cloudprovider.DiskNotFound):
		return sdk.NotFound(err.Error())
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return sdk.ImplementedElsewhere(err.Error())
	case errors.Is(err, cloudprovider.NotImplemented):
		return sdk.Error(abi.CodeNotImplemented, err.Error())
	case errors.As(err, &retry):
		return sdk.RetryAfter(min(max(retry.RetryAfter(), time.Millisecond), time.Hour), err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return sdk.Error(abi.CodeDeadline, err.Error())
	}
	return err
}

func notImplemented(what string) error {
	return sdk.Error(abi.CodeNotImplemented, "the provider has no "+what+": take its ops out of manifest.json")
}
