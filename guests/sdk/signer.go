package sdk

import (
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Signer is the interface of a signer, a guest with the single op sign. A
// signer gets the secret and has no network; a provider has the network and
// does not get the secret. Therefore a signer gets no Op: its module imports
// only the functions for the request and the answer.
//
// Like a provider it keeps no state between ops but its configuration.
type Signer interface {
	// Info must not depend on the configuration. ProviderName may be empty.
	Info() Info
	// Configure validates and keeps the administrator's configuration of the
	// signer, which may keep the slice; empty when there is none. It runs once
	// in each instance. The warnings are shown to the administrator. Report a
	// mistake with Invalidf, with its line.
	Configure(config []byte) (warnings []string, err error)
	// Sign answers with the authentication of the request, or with a token
	// request to send first. The request is valid until Sign returns. The SDK
	// sets Done. Errors must not contain a part of the secret: the host scrubs
	// whole values only.
	Sign(req *abi.SignRequest) (*abi.SignResponse, error)
}

// MaxSignerState is the size limit of SignResponse.State, in bytes.
const MaxSignerState = 64 << 10

// Secret returns the value of a key of the Secret. A missing key is an error.
func Secret(req *abi.SignRequest, key string) (string, error) {
	value, err := OptionalSecret(req, key)
	if err == nil && value == "" {
		err = Invalidf("the Secret has no value for the key %s: add it", key)
	}
	return value, err
}

// OptionalSecret is Secret with "" for a missing key. A value that ends with a
// line break is an error: editors add one, no cloud accepts it, and the host
// would not find the value without it when it scrubs texts.
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

// NewSignerServer returns a server for s.
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
