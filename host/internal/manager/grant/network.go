package grant

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// Network is the way of one provider to its cloud.
type Network struct {
	Client      *egress.Client
	Credentials *credential.Set
	// Options are those of the client.
	Options egress.Options
}

// NetworkOptions are what the configuration does not say. Secrets is required.
type NetworkOptions struct {
	Secrets credential.Secrets
	// Signer makes the signer of a credential.
	Signer SignerFunc
	// Credentials are the options of the set.
	Credentials credential.Options
	// Observer and Traffic are the client's, and may be nil.
	Observer egress.Observer
	Traffic  *egress.Traffic
}

// NewNetwork makes of a provider's configuration what sends its requests.
// Errors have the path of the field. It starts nothing; the caller closes it.
func NewNetwork(p *v1alpha1.Provider, o NetworkOptions) (*Network, error) {
	specs := make([]credential.Spec, len(p.Credentials))
	for i := range p.Credentials {
		spec, err := Credential(&p.Credentials[i], o.Signer)
		if err != nil {
			return nil, fmt.Errorf("credentials[%d]: %w", i, err)
		}
		specs[i] = spec
	}
	grants, err := Egress(p.Grants, o.Secrets)
	if err != nil {
		return nil, err
	}
	n := &Network{Options: Options(p.Requests)}
	if n.Credentials, err = credential.NewSet(o.Secrets, specs, o.Credentials); err != nil {
		return nil, err
	}
	n.Options.Credentials, n.Options.Observer, n.Options.Traffic = n.Credentials, o.Observer, o.Traffic
	if n.Client, err = egress.New(grants, n.Options); err != nil {
		n.Credentials.Close()
		return nil, fmt.Errorf("grants: %w", err)
	}
	return n, nil
}

// Close ends what the network holds. Requests under way end by themselves.
func (n *Network) Close() {
	n.Client.Close()
	n.Credentials.Close()
}
