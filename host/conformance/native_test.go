package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// native is an engine with the function serve as its only guest: guests with
// mistakes are quicker to write in Go than to compile.
type native struct {
	serve func(c *callOf, op abi.Op, request []byte) (abi.Message, error)
}

func (native) Name() string                { return "native" }
func (native) Close(context.Context) error { return nil }

func (e native) Compile(_ context.Context, _ []byte, config engine.ModuleConfig) (engine.Module, error) {
	return nativeModule{e, config.Host}, nil
}

type nativeModule struct {
	engine native
	host   engine.Host
}

func (nativeModule) Close(context.Context) error { return nil }

func (m nativeModule) Instantiate(context.Context) (engine.Instance, error) {
	return &nativeInstance{m}, nil
}

type nativeInstance struct{ nativeModule }

func (*nativeInstance) MemoryBytes() uint64         { return 1 }
func (*nativeInstance) Close(context.Context) error { return nil }

// Call runs an op by the calling convention of the other engines: when its time
// is over, the guest is ended at a host call.
func (i *nativeInstance) Call(ctx context.Context, op abi.Op, request []byte) (result engine.Result, err error) {
	c := &callOf{ctx: ctx, host: i.host, instance: i}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the guest was ended: %v: %w", p, context.Cause(ctx))
		}
	}()
	message, err := i.engine.serve(c, op, request)
	var answer *abi.Error
	switch {
	case errors.As(err, &answer):
		detail := &abi.ErrorDetail{Message: answer.Message, RetryAfterMs: answer.RetryAfter.Milliseconds()}
		return engine.Result{Code: answer.Code, Detail: encoded(detail)}, nil
	case err != nil:
		return engine.Result{}, err
	}
	return engine.Result{Response: encoded(message)}, nil
}

func encoded(m abi.Message) []byte {
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		panic(err)
	}
	return data
}

// callOf is one op in a native guest.
type callOf struct {
	ctx      context.Context
	host     engine.Host
	instance *nativeInstance
}

func (c *callOf) hostCall(name string, request, response abi.Message) error {
	if c.ctx.Err() != nil {
		panic("a host call after the end")
	}
	code, data := c.host.HostCall(c.ctx, name, encoded(request))
	if code != abi.CodeOK {
		detail := &abi.ErrorDetail{}
		if err := wire.Unmarshal(data, detail); err != nil {
			return err
		}
		return &abi.Error{Code: code, Message: detail.Message}
	}
	if response == nil {
		return nil
	}
	return wire.Unmarshal(data, response)
}

func (c *callOf) log(text string) {
	_ = c.hostCall(abi.ImportLog, &abi.LogRequest{Message: text, Severity: 2}, nil)
}

// nodes returns the names of the op's nodes.
func (c *callOf) nodes() (names []string, bare bool, err error) {
	resp := &abi.NodesResponse{}
	err = c.hostCall(abi.CapabilityNodes, &abi.NodesRequest{SnapshotId: opcontext.SnapshotID}, resp)
	for _, n := range resp.Nodes {
		names = append(names, n.Name)
		bare = bare || len(n.Addresses) == 0
	}
	return names, bare, err
}

// http sends one request, and decodes the body of a 2xx.
func (c *callOf) http(method, url string, body, into any) (status int, err error) {
	request := &abi.HttpRequest{Method: method, Url: url, Credential: "cloud"}
	if body != nil {
		if request.Body, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	resp := &abi.HttpSendResponse{}
	if err := c.hostCall(abi.CapabilityHTTP, &abi.HttpSendRequest{Requests: []*abi.HttpRequest{request}}, resp); err != nil {
		return 0, err
	}
	result := resp.Results[0]
	if result.Response == nil {
		return 0, answered(result.Code, result.Error)
	}
	status = int(result.Response.Status)
	if into == nil || status/100 != 2 {
		return status, nil
	}
	d := json.NewDecoder(bytes.NewReader(result.Response.Body))
	if err := d.Decode(into); err != nil {
		return status, &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s %s: the cloud answered %d and no JSON: %v", method, url, status, err)}
	}
	return status, nil
}
