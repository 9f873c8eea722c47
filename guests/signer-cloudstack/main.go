// Command signer-cloudstack is a guest that signs requests to the API of Apache
// CloudStack: HMAC-SHA1 over the sorted parameters. README.md explains its
// configuration.
package main

import (
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.ServeSigner(&signer{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

type signer struct{ config config }

func (*signer) Info() sdk.Info { return sdk.Info{Name: "signer-cloudstack", Version: version} }

func (s *signer) Configure(data []byte) ([]string, error) {
	c, err := parseConfig(data)
	if err != nil {
		return nil, sdk.Invalidf("%v", err)
	}
	s.config = c
	return nil, nil
}

// Sign signs only this request, since parameters differ.
func (s *signer) Sign(req *abi.SignRequest) (*abi.SignResponse, error) {
	apiKey, err := sdk.Secret(req, "api-key")
	if err != nil {
		return nil, err
	}
	secretKey, err := sdk.Secret(req, "secret-key")
	if err != nil {
		return nil, err
	}
	parameters, err := parametersOf(req.Request)
	if err != nil {
		return nil, err
	}
	if err := s.config.checkCommand(parameters["command"]); err != nil {
		return nil, err
	}
	added := []*abi.HttpHeader{{Name: "apikey", Value: apiKey}}
	if s.config.expires > 0 {
		until := time.UnixMilli(req.NowMs).UTC().Add(s.config.expires)
		added = append(added,
			&abi.HttpHeader{Name: "signatureversion", Value: "3"},
			&abi.HttpHeader{Name: "expires", Value: until.Format("2006-01-02T15:04:05-0700")})
	}
	for _, p := range added {
		parameters[p.Name] = p.Value
	}
	signature := &abi.HttpHeader{Name: "signature", Value: signatureOf(parameters, secretKey)}
	return &abi.SignResponse{Query: append(added, signature)}, nil
}
