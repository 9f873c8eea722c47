// Command signer-keystone is a guest that authenticates requests to OpenStack:
// it logs in at Keystone (Identity API v3), keeps the token as its state,
// renews it, and has one for each scope that a provider names. README.md
// explains its configuration.
package main

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// version is set by build.sh from the manifest.
var version = "0.1.0"

func init() { sdk.ServeSigner(&signer{}) } //nolint:gochecknoinits // main of a reactor is never run

func main() {}

type signer struct{ config config }

func (*signer) Info() sdk.Info { return sdk.Info{Name: "signer-keystone", Version: version} }

func (s *signer) Configure(data []byte) (warnings []string, err error) {
	if s.config, err = parseConfig(data); err != nil {
		return nil, sdk.Invalidf("%v", err)
	}
	if s.config.plainHTTP() {
		warnings = append(warnings, "auth_url is http: passwords and tokens travel unencrypted")
	}
	return warnings, nil
}

// Sign answers with the state's token, or asks for a new one.
func (s *signer) Sign(req *abi.SignRequest) (*abi.SignResponse, error) {
	l, err := s.config.login(req)
	if err != nil {
		return nil, err
	}
	held := l.held(req)
	if req.TokenResult == nil {
		if req.NowMs < held.RenewMs {
			return held.signature(held.RenewMs)
		}
		return l.tokenRequest(s.config.authURL, held)
	}
	fresh, err := l.token(req)
	switch {
	case err == nil:
		return fresh.signature(fresh.RenewMs)
	case isTemporary(err) && req.NowMs < held.ExpiresMs:
		// Keystone is down, and the token is still valid for a while.
		return held.signature(min(req.NowMs+retryMs, held.ExpiresMs))
	}
	return nil, err
}

// retryMs is the pause between attempts to renew a token that is still valid.
const retryMs = 30_000

func isTemporary(err error) bool {
	switch sdk.CodeOf(err) {
	case abi.CodeUnavailable, abi.CodeDeadline, abi.CodeThrottled:
		return true
	}
	return false
}
