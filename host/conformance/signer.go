package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/credential"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/grant"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
)

// Bounds of guests and signers, as the manager has them.
const (
	loadTimeout      = 30 * time.Second
	maxTableElements = 1 << 20

	signerInstances  = 2
	signerMemory     = 32 << 20
	signTimeout      = 5 * time.Second
	signerCallsLimit = 10_000
)

// signer is the guest behind a credential.
type signer struct{ slot *plugin.Slot }

// signer loads the module of a credential's signer.
func (n *network) signer(ctx context.Context, o *Options) grant.SignerFunc {
	return func(name string, c *v1alpha1.SignerCredential) (credential.Invoker, error) {
		g, err := loadSigner(ctx, o, name, c)
		if err != nil {
			return nil, err
		}
		s := &signer{plugin.NewSlot()}
		s.slot.Serve(g)
		n.signers = append(n.signers, s)
		return s.slot, nil
	}
}

func loadSigner(ctx context.Context, o *Options, name string, c *v1alpha1.SignerCredential) (*plugin.Generation, error) {
	wasm := o.Signers[name]
	if wasm == nil {
		return nil, errors.New("its module is not given (--signer-module NAME=FILE)")
	}
	loader := &plugin.Loader{
		Engine: o.Engine, Compiler: o.Compiler, HostVersion: hostVersion,
		Policy: module.Policy{},
		Limits: plugin.Limits{
			MaxInstances: signerInstances, MaxCallsPerInstance: signerCallsLimit, MaxMemoryBytes: signerMemory,
			MaxTableElements: maxTableElements, OpTimeout: signTimeout, LoadTimeout: loadTimeout,
		},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return mute{}, nil, nil },
	}
	g, err := loader.Load(ctx, plugin.Bundle{Module: wasm, Config: []byte(c.Config)})
	if err != nil {
		return nil, fmt.Errorf("it does not load: %w", err)
	}
	return g, nil
}

// mute answers nothing: a signer has no host calls.
type mute struct{}

// HostCall is engine.Host.
func (mute) HostCall(_ context.Context, name string, _ []byte) (abi.Code, []byte) {
	if name == abi.ImportLog {
		return abi.CodeOK, nil
	}
	return abi.CodeDenied, nil
}
