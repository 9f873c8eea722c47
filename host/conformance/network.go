package conformance

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// network is the way to the cloud of a HostConfiguration, with one set of
// Secrets. It is built as in the manager.
type network struct {
	*grant.Network
	signers []*signer
}

func newNetwork(ctx context.Context, o *Options, secrets Secrets) (*network, error) {
	n := &network{}
	way, err := grant.NewNetwork(&o.Provider, grant.NetworkOptions{
		Secrets: secrets, Signer: n.signer(ctx, o),
		Credentials: credential.Options{Scrubber: credential.NewScrubber(clock.RealClock{})},
	})
	if err != nil {
		n.close(ctx)
		return nil, err
	}
	n.Network = way
	return n, nil
}

// Send implements hostfunc.HTTP.
func (n *network) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return n.Client.Send(ctx, requests)
}

func (n *network) scrub(text string) string { return string(n.Credentials.Scrub([]byte(text))) }

func (n *network) close(ctx context.Context) {
	if n.Network != nil {
		n.Close()
	}
	for _, s := range n.signers {
		s.slot.Close(ctx)
	}
}
