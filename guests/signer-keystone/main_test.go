package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const (
	authURL  = "https://keystone.example.com:5000/v3"
	password = "correct horse battery staple"
)

func byPasswordOf(user string) map[string]string {
	return map[string]string{"username": user, "user_domain_name": "Default", "password": password}
}

// keystone stands in for Keystone. Its tokens are token-1, token-2 and so on,
// valid for an hour, in the requested scope.
type keystone struct {
	bodies []string
	answer func(resp *abi.HttpResponse) error // nil keeps it
	// away is the delay of its clock.
	away time.Duration
}

func (k *keystone) token(h *sdktest.SignerHost) func(*abi.HttpRequest) (*abi.HttpResponse, error) {
	return func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		k.bodies = append(k.bodies, string(req.Body))
		var body struct{ Auth struct{ Scope any } }
		if err := json.Unmarshal(req.Body, &body); err != nil {
			return nil, err
		}
		issued := h.Clock.Add(-k.away)
		granted := map[string]any{
			"issued_at":  issued.Format("2006-01-02T15:04:05.000000Z"),
			"expires_at": issued.Add(time.Hour).Format("2006-01-02T15:04:05.000000Z"),
		}
		if scope, ok := body.Auth.Scope.(map[string]any); ok {
			for kind, of := range scope {
				granted[kind] = of
			}
		}
		encoded, err := json.Marshal(map[string]any{"token": granted})
		if err != nil {
			return nil, err
		}
		resp := &abi.HttpResponse{
			Status: 201, Body: encoded,
			Headers: []*abi.HttpHeader{{Name: "x-subject-token", Value: fmt.Sprintf("token-%d", len(k.bodies))}},
		}
		if k.answer != nil {
			err = k.answer(resp)
		}
		return resp, err
	}
}

func newHost(t *testing.T, k *keystone, config string) *sdktest.SignerHost {
	t.Helper()
	h := sdktest.NewSignerHost(t)
	h.Secret = byPasswordOf("ccm")
	h.Configure(&signer{}, config)
	h.Tokens = k.token(h)
	return h
}

func request(scope string) *abi.HttpRequest {
	return &abi.HttpRequest{Method: "GET", Url: "https://nova.example.com/servers", CredentialScope: scope}
}

// tokenOf signs a request and returns its token.
func tokenOf(t *testing.T, h *sdktest.SignerHost, scope string) string {
	t.Helper()
	signed, err := h.Sign(request(scope))
	if err != nil {
		t.Fatal(err)
	}
	if len(signed.Headers) != 1 || signed.Headers[0].Name != "X-Auth-Token" || signed.Url != request("").Url {
		t.Fatalf("the request became %v", signed)
	}
	return signed.Headers[0].Value
}

func TestTokenRequest(t *testing.T) {
	h := sdktest.NewSignerHost(t)
	h.Secret = byPasswordOf("ccm")
	h.Configure(&signer{}, "auth_url: https://keystone.example.com/identity/\nproject_id: abc")
	var got *abi.HttpRequest
	h.Tokens = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		got = req
		return nil, sdk.Error(abi.CodeDenied, "no grant")
	}
	_, err := h.Sign(request(""))
	if sdk.CodeOf(err) != abi.CodeDenied || !strings.Contains(err.Error(), "no grant") {
		t.Errorf("%v, want what the host said", err)
	}
	if got.Method != http.MethodPost || got.Url != "https://keystone.example.com/identity/v3/auth/tokens?nocatalog" {
		t.Errorf("%s %s", got.Method, got.Url)
	}
}

// The bodies are from the Identity API's reference.
func TestMethodsAndScopes(t *testing.T) {
	const (
		userPart     = `{"name":"ccm","domain":{"name":"Default"},"password":"correct horse battery staple"}`
		passwordPart = `{"methods":["password"],"password":{"user":` + userPart + `}}`
	)
	tests := map[string]struct {
		config string
		secret map[string]string
		want   string
	}{
		"no scope": {"", byPasswordOf("ccm"), `{"auth":{"identity":` + passwordPart + `}}`},
		"user ID": {
			"", map[string]string{"user_id": "u1", "username": "ignored", "password": "hunter22"},
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"u1","password":"hunter22"}}}}}`,
		},
		"project ID": {
			"project_id: abc\nproject_name: ignored", byPasswordOf("ccm"),
			`{"auth":{"identity":` + passwordPart + `,"scope":{"project":{"id":"abc"}}}}`,
		},
		"project name": {
			"project_name: kube\nproject_domain_name: Default", byPasswordOf("ccm"),
			`{"auth":{"identity":` + passwordPart + `,"scope":{"project":{"name":"kube","domain":{"name":"Default"}}}}}`,
		},
		"domain": {
			"domain_id: default", byPasswordOf("ccm"),
			`{"auth":{"identity":` + passwordPart + `,"scope":{"domain":{"id":"default"}}}}`,
		},
		"system": {
			"system_scope: all", byPasswordOf("ccm"),
			`{"auth":{"identity":` + passwordPart + `,"scope":{"system":{"all":true}}}}`,
		},
		"the Secret's scope first": {
			"project_id: abc",
			map[string]string{"user_id": "u1", "password": "hunter22", "domain_name": "Default"},
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"u1","password":"hunter22"}}},"scope":{"domain":{"name":"Default"}}}}`,
		},
		"application credential": {
			"", map[string]string{"application_credential_id": "ac1", "application_credential_secret": "s3cr3t", "auth_url": "ignored"},
			`{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"ac1","secret":"s3cr3t"}}}}`,
		},
		"application credential by name": {
			"", map[string]string{
				"application_credential_name": "ccm", "application_credential_secret": "s3cr3t",
				"username": "u", "user_domain_id": "default",
			},
			`{"auth":{"identity":{"methods":["application_credential"],"application_credential":` +
				`{"name":"ccm","secret":"s3cr3t","user":{"name":"u","domain":{"id":"default"}}}}}}`,
		},
		"token": {
			"project_id: abc", map[string]string{"token": "gAAAA"},
			`{"auth":{"identity":{"methods":["token"],"token":{"id":"gAAAA"}},"scope":{"project":{"id":"abc"}}}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &keystone{}
			// The fake answers with the requested scope, so the check succeeds.
			h := newHost(t, k, "auth_url: "+authURL+"\n"+test.config)
			h.Secret = test.secret
			if got := tokenOf(t, h, ""); got != "token-1" {
				t.Errorf("the token is %q", got)
			}
			if k.bodies[0] != test.want {
				t.Errorf("asked with\n%s, want\n%s", k.bodies[0], test.want)
			}
		})
	}
}

func TestTokenIsKeptRenewedAndDropped(t *testing.T) {
	k := &keystone{away: 30 * 24 * time.Hour} // only the difference of its times matters
	h := newHost(t, k, "auth_url: "+authURL)
	want := func(token string) {
		t.Helper()
		if got := tokenOf(t, h, ""); got != token {
			t.Errorf("the token is %s, want %s", got, token)
		}
	}
	want("token-1")
	want("token-1")
	h.Clock = h.Clock.Add(54 * time.Minute)
	want("token-1")
	h.Clock = h.Clock.Add(2 * time.Minute) // less than 5 minutes before its end
	want("token-2")
	h.Rejected("")
	want("token-3")
	want("token-3")
	h.Clock = h.Clock.Add(24 * time.Hour)
	want("token-4")
	h.Secret = map[string]string{"user_id": "u1", "password": "rotated"}
	want("token-5")
	if !strings.Contains(k.bodies[4], "rotated") {
		t.Errorf("after the rotation it asked with %s", k.bodies[4])
	}
}

// Pauses that Keystone asks for do not reach the provider while the token is
// valid.
func TestRenewalWhileKeystoneIsAway(t *testing.T) {
	k := &keystone{}
	h := newHost(t, k, "auth_url: "+authURL)
	first := tokenOf(t, h, "")
	k.answer = func(resp *abi.HttpResponse) error { resp.Status, resp.Body = 503, nil; return nil }
	h.Clock = h.Clock.Add(56 * time.Minute)
	for range 3 {
		if got := tokenOf(t, h, ""); got != first {
			t.Errorf("the token is %s, want %s", got, first)
		}
	}
	if len(k.bodies) != 2 {
		t.Errorf("%d token requests, want 2: one each half minute", len(k.bodies))
	}
	h.Clock = h.Clock.Add(31 * time.Second)
	if got := tokenOf(t, h, ""); got != first || len(k.bodies) != 3 {
		t.Errorf("the token is %s after %d token requests, want %s after 3", got, len(k.bodies), first)
	}
	h.Clock = h.Clock.Add(4 * time.Minute)
	if _, err := h.Sign(request("")); sdk.CodeOf(err) != abi.CodeUnavailable {
		t.Errorf("the token has expired: %v, want unavailable", err)
	}
}

// A token that the cloud refused is never used again, whatever Keystone says.
func TestRejectedTokenIsGone(t *testing.T) {
	k := &keystone{}
	h := newHost(t, k, "auth_url: "+authURL)
	tokenOf(t, h, "")
	h.Rejected("")
	k.answer = func(*abi.HttpResponse) error { return sdk.Error(abi.CodeUnavailable, "connection refused") }
	if signed, err := h.Sign(request("")); sdk.CodeOf(err) != abi.CodeUnavailable {
		t.Errorf("%v %v, want unavailable", signed, err)
	}
}

// The state may survive a change of the configuration.
func TestStateOfAnotherConfigurationIsNotUsed(t *testing.T) {
	k := &keystone{}
	h := newHost(t, k, "auth_url: "+authURL+"\nproject_id: one")
	tokenOf(t, h, "")
	for i, config := range []string{
		"auth_url: " + authURL + "\nproject_id: one", // the same
		"auth_url: " + authURL + "\nproject_id: two",
		"auth_url: https://elsewhere.example.com/v3\nproject_id: two",
	} {
		h.Configure(&signer{}, config)
		if got, want := tokenOf(t, h, ""), fmt.Sprintf("token-%d", i+1); got != want {
			t.Errorf("%q: %s, want %s", config, got, want)
		}
	}
}

func TestScopesOfProviders(t *testing.T) {
	k := &keystone{}
	h := newHost(t, k, "auth_url: "+authURL+"\nproject_id: home\nallowed_scopes: ['project:abc', 'domain:*', unscoped]")
	for i, scope := range []string{"", "project:home", "project:abc", "domain:default", "domain:other", "unscoped"} {
		if got, want := tokenOf(t, h, scope), fmt.Sprintf("token-%d", i+1); got != want {
			t.Errorf("%s: %s, want one of its own, %s", scope, got, want)
		}
	}
	if got := tokenOf(t, h, "project:abc"); got != "token-3" {
		t.Errorf("project:abc again: %s", got)
	}
	if !strings.HasSuffix(k.bodies[2], `"scope":{"project":{"id":"abc"}}}}`) || !strings.HasSuffix(k.bodies[5], `"scope":"unscoped"}}`) {
		t.Errorf("asked with %s and %s", k.bodies[2], k.bodies[5])
	}
	for scope, want := range map[string]string{
		"project:other": "not among the allowed_scopes", "system": "not among the allowed_scopes",
		"project:": "is none of", "project:*": "is none of", `project:a"b`: "is none of", "abc": "is none of",
		"project:" + strings.Repeat("a", 65): "is none of", "domain": "is none of",
	} {
		if _, err := h.Sign(request(scope)); sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", scope, err, want)
		}
	}
	if len(k.bodies) != 6 {
		t.Errorf("%d token requests, want 6: what is refused asks for nothing", len(k.bodies))
	}
}

// Keystone decides on the project of an application credential.
func TestScopeOfTheTokenIsChecked(t *testing.T) {
	secret := map[string]string{"application_credential_id": "ac1", "application_credential_secret": "s3cr3t"}
	granted := func(scope string) func(*abi.HttpResponse) error {
		return func(resp *abi.HttpResponse) error {
			resp.Body = []byte(strings.Replace(string(resp.Body), `{"token":{`, `{"token":{`+scope+`,`, 1))
			return nil
		}
	}
	const home = `"project":{"id":"home","name":"Kube","domain":{"id":"default","name":"Default"}}`
	tests := map[string]struct {
		config, scope, granted, want string
	}{
		"its project":           {"", "project:home", home, ""},
		"its project by name":   {"project_name: kube\nproject_domain_name: default", "", home, ""},
		"another":               {"", "project:other", home, "project that it was made in"},
		"another by name":       {"project_name: kube2\nproject_domain_id: default", "", home, "project that it was made in"},
		"another domain's":      {"project_name: kube\nproject_domain_id: other", "", home, "project that it was made in"},
		"none":                  {"", "project:home", `"domain":{"id":"default"}`, "project that it was made in"},
		"a domain":              {"", "domain:default", home, "not for a domain"},
		"unscoped":              {"", "unscoped", home, "not for a domain"},
		"the system as default": {"system_scope: all", "", home, "not for a domain"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &keystone{answer: granted(test.granted)}
			h := newHost(t, k, "auth_url: "+authURL+"\nallowed_scopes: ['project:*', 'domain:*', unscoped]\n"+test.config)
			h.Secret = secret
			_, err := h.Sign(request(test.scope))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	k := &keystone{answer: granted(home)}
	h := newHost(t, k, "auth_url: "+authURL+"\nallowed_scopes: [system, unscoped, 'domain:d']")
	for _, scope := range []string{"unscoped", "domain:other"} {
		if _, err := h.Sign(request(scope)); err == nil {
			t.Errorf("%s: a token for a project was taken", scope)
		}
	}
}
