package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/credential"
	"github.com/wasm-ccm/wasm-ccm/host/egress"
	"github.com/wasm-ccm/wasm-ccm/host/engine"
	"github.com/wasm-ccm/wasm-ccm/host/module"
	"github.com/wasm-ccm/wasm-ccm/host/plugin"
)

// Bounds of guests and signers, as the manager has them.
const (
	loadTimeout      = 30 * time.Second
	maxTableElements = 1 << 20
	maxCallDepth     = 1 << 14

	signerInstances  = 2
	signerMemory     = 32 << 20
	signTimeout      = 5 * time.Second
	signerCallsLimit = 10_000
)

// signer is the guest behind a credential.
type signer struct{ slot *plugin.Slot }

func (n *network) signer(ctx context.Context, o *Options, c *v1alpha1.Credential) (*credential.SignerSpec, error) {
	wasm := o.Signers[c.Name]
	if wasm == nil {
		return nil, errors.New("its signer's module is not given (--signer-module NAME=FILE)")
	}
	loader := &plugin.Loader{
		Engine: o.Engine, Compiler: o.Compiler, HostVersion: hostVersion, MaxCallDepth: maxCallDepth,
		Policy: module.Policy{},
		Limits: plugin.Limits{
			MaxInstances: signerInstances, MaxCallsPerInstance: signerCallsLimit, MaxMemoryBytes: signerMemory,
			MaxTableElements: maxTableElements, OpTimeout: signTimeout, LoadTimeout: loadTimeout,
		},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return mute{}, nil, nil },
	}
	g, err := loader.Load(ctx, plugin.Bundle{Module: wasm, Config: []byte(c.Signer.Config)})
	if err != nil {
		return nil, fmt.Errorf("its signer does not load: %w", err)
	}
	s := &signer{plugin.NewSlot()}
	s.slot.Serve(g)
	n.signers = append(n.signers, s)
	spec := &credential.SignerSpec{Signer: credential.NewSigner(s.slot)}
	if len(c.Signer.Tokens) > 0 {
		client, err := tokenClient(c.Signer.Tokens)
		if err != nil {
			return nil, fmt.Errorf("signer.tokens: %w", err)
		}
		spec.Tokens = credential.NewTokenSender(client)
	}
	return spec, nil
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

// roundTripper sends a library's requests as those of a provider are sent.
type roundTripper struct{ client *egress.Client }

// RoundTrip is http.RoundTripper.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	request := &abi.HttpRequest{Method: req.Method, Url: req.URL.String()}
	for name, values := range req.Header {
		for _, value := range values {
			request.Headers = append(request.Headers, &abi.HttpHeader{Name: name, Value: value})
		}
	}
	if req.Body != nil {
		body, err := io.ReadAll(io.LimitReader(req.Body, maxTokenBytes))
		if err := errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
		request.Body = body
	}
	results, err := r.client.Send(req.Context(), []*abi.HttpRequest{request})
	if err != nil {
		return nil, err
	}
	return response(results[0])
}

func response(result *abi.HttpResult) (*http.Response, error) {
	got := result.Response
	if got == nil {
		return nil, errors.New(strings.ToValidUTF8(result.GetError().GetMessage(), "?"))
	}
	header := http.Header{}
	for _, h := range got.Headers {
		header.Add(h.Name, h.Value)
	}
	return &http.Response{
		StatusCode: int(got.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(got.Body)), ContentLength: int64(len(got.Body)),
	}, nil
}
