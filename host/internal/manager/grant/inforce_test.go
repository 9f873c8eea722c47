package grant_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// asking is a signer with a token request for each signature.
type asking struct{ url string }

func (a asking) Sign(_ context.Context, req *abi.SignRequest) (*abi.SignResponse, error) {
	if req.TokenResult == nil {
		return &abi.SignResponse{Done: true, TokenRequest: &abi.HttpRequest{Method: http.MethodPost, Url: a.url}}, nil
	}
	return &abi.SignResponse{Done: true, Headers: []*abi.HttpHeader{{Name: "X-Token", Value: "signed"}}}, nil
}

// TestTokensAreAskedOfTheGrantsOfNow: a credential's token request has a client
// of its own, which checks the credential's present endpoints.
func TestTokensAreAskedOfTheGrantsOfNow(t *testing.T) {
	type change = func(p *v1alpha1.Provider)
	elsewhere := func(p *v1alpha1.Provider) {
		p.Credentials[0].OAuth2ClientCredentials.Token.URL += "-elsewhere"
		p.Credentials[1].Signer.Tokens[0].URL += "-elsewhere"
	}
	for name, test := range map[string]struct {
		change change
		// late: the change comes during the token request.
		late bool
		want []string
	}{
		"nothing is withdrawn":        {func(*v1alpha1.Provider) {}, false, []string{"/token", "/api"}},
		"the URL of its tokens":       {elsewhere, false, nil},
		"its definition":              {func(p *v1alpha1.Provider) { p.Credentials, p.Grants[0].Credentials = nil, nil }, false, nil},
		"its tokens, by another kind": {func(p *v1alpha1.Provider) { elsewhere(p); rename(p) }, false, nil},
		"its use":                     {func(p *v1alpha1.Provider) { p.Grants[0].Credentials = nil }, false, nil},
		"its use, in between":         {func(p *v1alpha1.Provider) { p.Grants[0].Credentials = nil }, true, []string{"/token"}},
		"the grant, in between":       {func(p *v1alpha1.Provider) { p.Grants = nil }, true, []string{"/token"}},
	} {
		for _, credentialName := range []string{"oauth2", "signer"} {
			t.Run(name+", "+credentialName, func(t *testing.T) {
				var now atomic.Pointer[grant.Network]
				var later *grant.Network
				var asked []string
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked = append(asked, r.URL.Path)
					if strings.HasPrefix(r.URL.Path, "/token") && test.late {
						now.Store(later)
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprint(w, `{"access_token": "a-token-1234", "token_type": "bearer"}`)
				}))
				defer server.Close()
				network := func(change change) *grant.Network {
					p := tokenProvider(t, server.URL)
					change(p)
					n, err := grant.NewNetwork(p, grant.NetworkOptions{
						Secrets: anything{[]string{"client_id", "client_secret"}}, InForce: now.Load,
						Signer: func(string, *v1alpha1.SignerCredential) (credential.Signer, error) {
							return asking{server.URL + "/token"}, nil
						},
					})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(n.Close)
					return n
				}
				own := network(func(*v1alpha1.Provider) {})
				later = network(test.change)
				now.Store(own)
				if !test.late {
					now.Store(later)
				}
				results, err := own.Client.Send(t.Context(), []*abi.HttpRequest{{Method: http.MethodGet, Url: server.URL + "/api", Credential: credentialName}})
				if err != nil || !slices.Equal(asked, test.want) {
					t.Errorf("%v: asked of %q, want %q: %v", err, asked, test.want, results)
				}
			})
		}
	}
}

// rename swaps the names of two credentials.
func rename(p *v1alpha1.Provider) {
	p.Credentials[0].Name, p.Credentials[1].Name = p.Credentials[1].Name, p.Credentials[0].Name
}

func tokenProvider(t *testing.T, address string) *v1alpha1.Provider {
	t.Helper()
	g := granted(t, address)
	g.PathPrefix, g.Credentials = "/api", []string{"oauth2", "signer"}
	tokens := v1alpha1.Endpoint{URL: address + "/token", CIDRs: loopback}
	secret := v1alpha1.Reference{Namespace: "ns", Name: "s"}
	return &v1alpha1.Provider{
		Name: "p", Grants: []v1alpha1.Grant{g},
		Credentials: []v1alpha1.Credential{
			{Name: "oauth2", Secret: secret, OAuth2ClientCredentials: &v1alpha1.OAuth2Credential{Token: tokens}},
			{Name: "signer", Secret: secret, Signer: &v1alpha1.SignerCredential{Tokens: []v1alpha1.Endpoint{tokens}}},
		},
	}
}
