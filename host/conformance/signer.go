package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// signer is the guest of a credential.
type signer struct{ slot *plugin.Slot }

// signer loads the module of a credential's signer.
func (n *network) signer(ctx context.Context, o *Options) grant.SignerFunc {
	return func(name string, c *v1alpha1.SignerCredential) (credential.Signer, error) {
		g, err := loadSigner(ctx, o, name, c)
		if err != nil {
			return nil, err
		}
		s := &signer{plugin.NewSlot()}
		s.slot.Serve(g)
		n.signers = append(n.signers, s)
		return credential.NewSigner(s.slot.Invoke), nil
	}
}

func loadSigner(ctx context.Context, o *Options, name string, c *v1alpha1.SignerCredential) (*plugin.Generation, error) {
	wasm := o.Signers[name]
	if wasm == nil {
		return nil, errors.New("its module is not given (--signer-module NAME=FILE)")
	}
	if len(wasm) > grant.MaxSignerModule {
		return nil, fmt.Errorf("its module has %d bytes, at most %d are allowed", len(wasm), grant.MaxSignerModule)
	}
	loader := grant.SignerLoader(plugin.Loader{Engine: o.Engine, Compiler: o.Compiler, HostVersion: hostVersion})
	g, err := loader.Load(ctx, plugin.Bundle{Module: wasm, Config: []byte(c.Config)})
	if err != nil {
		return nil, fmt.Errorf("it does not load: %w", err)
	}
	return g, nil
}
