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

// failure is an error of the provider as the host gets it.
func (p *provider) failure(err error) error { return convertError(p.bridge.explain(err)) }

// convertError gives an error of a provider the code that means the same. An
// error of the host's keeps its own, as long as the provider wrapped it.
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
