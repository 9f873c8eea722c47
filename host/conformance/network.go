package conformance

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// network is the way to the cloud that a HostConfiguration describes, with one
// set of Secrets.
type network struct {
	client      *egress.Client
	credentials *credential.Set
	options     egress.Options
	signers     []*signer
}

func newNetwork(ctx context.Context, o *Options, secrets Secrets) (*network, error) {
	n := &network{}
	specs := make([]credential.Spec, len(o.Provider.Credentials))
	for i := range o.Provider.Credentials {
		c := &o.Provider.Credentials[i]
		spec, err := grant.Credential(c, n.signer(ctx, o))
		if err != nil {
			n.close(ctx)
			return nil, fmt.Errorf("credential %s: %w", c.Name, err)
		}
		specs[i] = spec
	}
	err := n.connect(o, secrets, specs)
	if err != nil {
		n.close(ctx)
	}
	return n, err
}

func (n *network) connect(o *Options, secrets Secrets, specs []credential.Spec) (err error) {
	scrubber := credential.NewScrubber(clock.RealClock{})
	if n.credentials, err = credential.NewSet(secrets, specs, credential.Options{Scrubber: scrubber}); err != nil {
		return err
	}
	grants, err := grant.Egress(o.Provider.Grants, secrets)
	if err != nil {
		return err
	}
	n.options = grant.Options(o.Provider.Requests)
	n.options.Credentials = n.credentials
	if n.client, err = egress.New(grants, n.options); err != nil {
		return fmt.Errorf("grants: %w", err)
	}
	return nil
}

// Send is hostfunc.HTTP.
func (n *network) Send(ctx context.Context, requests []*abi.HttpRequest) ([]*abi.HttpResult, error) {
	return n.client.Send(ctx, requests)
}

func (n *network) scrub(text string) string { return string(n.credentials.Scrub([]byte(text))) }

func (n *network) close(ctx context.Context) {
	if n.client != nil {
		n.client.Close()
	}
	if n.credentials != nil {
		n.credentials.Close()
	}
	for _, s := range n.signers {
		s.slot.Close(ctx)
	}
}
