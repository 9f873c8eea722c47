package sdk

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Signer is what a signer implements, a guest whose one op is sign. It is
// given the secret and has no network; providers have the network and are not
// given the secret. So it gets no Op either: its module imports nothing but
// what takes the request and hands over the answer.
//
// As a provider it keeps nothing between ops but what Configure told it.
type Signer interface {
	// Info must not depend on the configuration. ProviderName may be empty.
	Info() Info
	// Configure checks and keeps the administrator's configuration of the
	// signer, which is the signer's to keep; empty when there is none. It runs
	// once in each instance. The warnings are shown to the administrator.
	// Answer what is wrong with Invalidf, with the line.
	Configure(config []byte) (warnings []string, err error)
	// Sign answers how to authenticate the request, or which token request is
	// to be sent first. The request is only valid until it returns. Done is
	// set by the SDK. Errors must not hold a part of the secret: the host
	// replaces what it knows of it, and knows the whole values only.
	Sign(req *abi.SignRequest) (*abi.SignResponse, error)
}

// MaxSignerState is the most bytes that SignResponse.State may have.
const MaxSignerState = 64 << 10

// Secret returns the value of a key of the Secret. It is an error when there
// is none.
func Secret(req *abi.SignRequest, key string) (string, error) {
	value, err := OptionalSecret(req, key)
	if err == nil && value == "" {
		err = Invalidf("the Secret has no value for the key %s: add it", key)
	}
	return value, err
}

// OptionalSecret is as Secret, and "" when there is none. A value that ends
// with a line break is an error: editors leave one behind, no cloud takes it,
// and without it the value would not be the one that the host looks for in
// what must not hold it.
func OptionalSecret(req *abi.SignRequest, key string) (string, error) {
	for _, v := range req.Secret {
		if v.Key != key {
			continue
		}
		if n := len(v.Value); n > 0 && (v.Value[n-1] == '\n' || v.Value[n-1] == '\r') {
			return "", Invalidf("the Secret's value for the key %s ends with a line break: write it without", key)
		}
		return string(v.Value), nil
	}
	return "", nil
}

// SignerServer decodes requests, calls the signer and encodes its answers. It
// is not safe for concurrent use: an instance runs one op at a time.
type SignerServer struct {
	signer Signer
	answer []byte // reused from op to op
}

// NewSignerServer returns a server of s.
func NewSignerServer(s Signer) *SignerServer { return &SignerServer{signer: s} }

// Call runs one op. The answer is the encoded response with CodeOK, else an
// encoded ErrorDetail. It is valid until the next call.
func (s *SignerServer) Call(number abi.Op, request []byte) (abi.Code, []byte) {
	resp, err := s.dispatch(number, request)
	code, answer := finish(s.answer, resp, err)
	s.answer = answer
	return code, answer
}

func (s *SignerServer) dispatch(number abi.Op, request []byte) (abi.Message, error) {
	switch number {
	case abi.OpSign:
		return s.sign(request)
	case abi.OpDescribe:
		var req abi.DescribeRequest
		info := s.signer.Info()
		if info.ProviderName == "" {
			info.ProviderName = info.Name
		}
		return &abi.DescribeResponse{Name: info.Name, Version: info.Version, ProviderName: info.ProviderName}, decode(request, &req)
	case abi.OpConfigure:
		var req abi.ConfigureRequest
		if err := decode(request, &req); err != nil {
			return nil, err
		}
		warnings, err := s.signer.Configure(req.Config)
		return &abi.ConfigureResponse{Accepted: true, Warnings: warnings}, err
	case abi.OpProbe:
		var req abi.ProbeRequest
		return &abi.ProbeResponse{Ready: true, Summary: "ready to sign"}, decode(request, &req)
	}
	return nil, Error(abi.CodeNotImplemented, s.signer.Info().Name+" is a signer and does not have the op "+number.String())
}

func (s *SignerServer) sign(request []byte) (abi.Message, error) {
	req := &abi.SignRequest{}
	if err := decode(request, req); err != nil {
		return nil, err
	}
	if req.Request == nil {
		return nil, missing("request to sign")
	}
	resp, err := s.signer.Sign(req)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, Error(abi.CodeInternal, "the signer answered sign without an answer")
	case resp.TokenRequest != nil && req.TokenResult != nil:
		return nil, Error(abi.CodeInternal, "the signer asked for a second token request; there is one for each signature")
	case resp.TokenRequest != nil && len(resp.Headers)+len(resp.Query) > 0:
		return nil, Error(abi.CodeInternal, "the signer answered with both a token request and a signature")
	case len(resp.State) > MaxSignerState:
		return nil, Error(abi.CodeTooLarge, "the signer's state has "+strconv.Itoa(len(resp.State))+" bytes, more than "+strconv.Itoa(MaxSignerState))
	}
	resp.Done = true
	return resp, nil
}
