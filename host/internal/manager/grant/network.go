package grant

import (
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
)

// Network is one provider's connection to its cloud.
type Network struct {
	Client      *egress.Client
	Credentials *credential.Set
	// Options of the client.
	Options egress.Options
	// tokens are the clients of token requests, by the credential's name.
	tokens map[string]*egress.Client
}

// NetworkOptions complete the configuration. Secrets is required.
type NetworkOptions struct {
	Secrets credential.Secrets
	// Signer builds the signer of a credential.
	Signer SignerFunc
	// Credentials are the options of the set.
	Credentials credential.Options
	// Observer and Traffic are for the client, and may be nil.
	Observer egress.Observer
	Traffic  *egress.Traffic
	// InForce returns the network of the present configuration, which can only
	// restrict this one, for token requests, too. Nil: this one is unrestricted.
	InForce func() *Network
}

// NewNetwork builds the sender of a provider's requests from its configuration.
// Errors have the path of the field. It starts nothing; the caller closes it.
func NewNetwork(p *v1alpha1.Provider, o NetworkOptions) (*Network, error) {
	specs := make([]credential.Spec, len(p.Credentials))
	b := builder{signer: o.Signer, inForce: o.InForce, tokens: map[string]*egress.Client{}}
	for i := range p.Credentials {
		spec, err := b.credential(&p.Credentials[i])
		if err != nil {
			return nil, fmt.Errorf("credentials[%d]: %w", i, err)
		}
		specs[i] = spec
	}
	grants, err := Egress(p.Grants, o.Secrets)
	if err != nil {
		return nil, err
	}
	n := &Network{Options: Options(p.Requests), tokens: b.tokens}
	n.Options.InForce = inForce(o.InForce, func(now *Network) *egress.Client { return now.Client })
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

// inForce returns a function for the client whose grants count: that of the present network.
func inForce(now func() *Network, of func(*Network) *egress.Client) func() *egress.Client {
	if now == nil {
		return nil
	}
	return func() *egress.Client {
		if n := now(); n != nil {
			return of(n)
		}
		return nil
	}
}

// Forget drops what the clients know of their hosts, as the end of a manager does.
func (n *Network) Forget() {
	n.Client.Traffic().Forget()
	for _, client := range n.tokens {
		client.Traffic().Forget()
	}
}

// Close releases the network's resources. Running requests end by themselves.
func (n *Network) Close() {
	n.Client.Close()
	for _, client := range n.tokens {
		client.Close()
	}
	n.Credentials.Close()
}
