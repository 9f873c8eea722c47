package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

func TestKeystoneRefuses(t *testing.T) {
	said := func(message string) string { return `{"error":{"code":1,"title":"x","message":"` + message + `"}}` }
	tests := map[string]struct {
		status int32
		body   string
		code   abi.Code
		want   string
	}{
		"wrong password":   {401, said("The request you have made requires authentication."), abi.CodeUnauthenticated, "refused the password of the Secret"},
		"expired password": {401, said("The password is expired"), abi.CodeUnauthenticated, "(The password is expired)"},
		"forbidden":        {403, "", abi.CodeUnauthenticated, "may not"},
		"not found":        {404, "<html>", abi.CodeInvalid, "check that auth_url"},
		"versions":         {300, "{}", abi.CodeInvalid, "check that auth_url"},
		"bad request":      {400, said("Expecting to find domain in project"), abi.CodeInvalid, "(Expecting to find domain in project)"},
		"too many":         {429, "", abi.CodeThrottled, "too many requests"},
		"gateway":          {502, "<html>", abi.CodeUnavailable, "502"},
		"no time":          {503, said("busy"), abi.CodeUnavailable, "(busy)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &keystone{answer: func(resp *abi.HttpResponse) error {
				*resp = abi.HttpResponse{Status: test.status, Body: []byte(test.body), Headers: []*abi.HttpHeader{{Name: "retry-after", Value: "7"}}}
				return nil
			}}
			_, err := newHost(t, k, "auth_url: "+authURL).Sign(request(""))
			if sdk.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s with %q", sdk.CodeOf(err), err, test.code, test.want)
			}
		})
	}
}

// A real Keystone answers 404 here.
func TestTokenOfTheSecretHasExpired(t *testing.T) {
	for body, want := range map[string]abi.Code{
		`{"error":{"message":"Failed to validate token"}}`: abi.CodeUnauthenticated,
		"<html>not found</html>":                           abi.CodeInvalid,
	} {
		k := &keystone{answer: func(resp *abi.HttpResponse) error {
			resp.Status, resp.Body = 404, []byte(body)
			return nil
		}}
		h := newHost(t, k, "auth_url: "+authURL)
		h.Secret = map[string]string{"token": "gAAAA"}
		if _, err := h.Sign(request("")); sdk.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestThrottledSaysUntilWhen(t *testing.T) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "999999999999": time.Hour, "-1": 0, "soon": 0} {
		k := &keystone{answer: func(resp *abi.HttpResponse) error {
			resp.Status, resp.Headers = 429, []*abi.HttpHeader{{Name: "Retry-After", Value: value}}
			return nil
		}}
		_, err := newHost(t, k, "auth_url: "+authURL).Sign(request(""))
		var e *abi.Error
		if !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("Retry-After: %s gives %v, want %v", value, err, want)
		}
	}
}

// Keystone, or a proxy in its place, may repeat the request.
func TestErrorsDoNotRepeatTheSecret(t *testing.T) {
	for _, message := range []string{"wrong: " + password, "a\\u0007bell", strings.Repeat("x", 301), "ümlaut"} {
		k := &keystone{answer: func(resp *abi.HttpResponse) error {
			resp.Status, resp.Body = 401, []byte(`{"error":{"message":"`+message+`"}}`)
			return nil
		}}
		_, err := newHost(t, k, "auth_url: "+authURL).Sign(request(""))
		if err == nil || strings.Contains(err.Error(), "(") {
			t.Errorf("%q: %v, want no detail", message, err)
		}
	}
}

func TestMalformedAnswers(t *testing.T) {
	const times = `"issued_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-02T04:04:05Z"`
	tests := map[string]struct {
		token, body, want string
	}{
		"no body":       {"t", "", "not the one of the Identity API"},
		"HTML":          {"t", "<html>", "not the one of the Identity API"},
		"no token":      {"t", "{}", "not the one of the Identity API"},
		"no header":     {"", `{"token":{` + times + `}}`, "not the one of the Identity API"},
		"a line break":  {"t\r\nHost: x", `{"token":{` + times + `}}`, "not the one of the Identity API"},
		"too long":      {strings.Repeat("t", 8193), `{"token":{` + times + `}}`, "not the one of the Identity API"},
		"no times":      {"t", `{"token":{}}`, "how long"},
		"not a time":    {"t", `{"token":{"issued_at":"today","expires_at":"2026-01-02T04:04:05Z"}}`, "how long"},
		"over before":   {"t", `{"token":{"issued_at":"2026-01-02T04:04:05Z","expires_at":"2026-01-02T04:04:05Z"}}`, "how long"},
		"another shape": {"t", `{"token":[1]}`, "not the one of the Identity API"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := &keystone{answer: func(resp *abi.HttpResponse) error {
				resp.Body, resp.Headers = []byte(test.body), []*abi.HttpHeader{{Name: "X-Subject-Token", Value: test.token}}
				return nil
			}}
			_, err := newHost(t, k, "auth_url: "+authURL).Sign(request(""))
			if sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestSecretIsChecked(t *testing.T) {
	tests := map[string]struct {
		secret map[string]string
		want   string
	}{
		"empty":          {nil, "0 of the keys"},
		"two methods":    {map[string]string{"user_id": "u", "password": "pppp", "token": "tttt"}, "2 of the keys"},
		"no user":        {map[string]string{"password": "pppp"}, "names no user"},
		"no domain":      {map[string]string{"username": "u", "password": "pppp"}, "names no user"},
		"only a domain":  {map[string]string{"user_domain_name": "d", "password": "pppp"}, "names no user"},
		"no ID":          {map[string]string{"application_credential_secret": "ssss"}, "which application credential"},
		"name alone":     {map[string]string{"application_credential_secret": "ssss", "application_credential_name": "n"}, "which application credential"},
		"line break":     {map[string]string{"user_id": "u", "password": "pppp\n"}, "key password ends with a line break"},
		"two scopes":     {map[string]string{"token": "tttt", "project_id": "p", "domain_id": "d"}, "one scope"},
		"project's name": {map[string]string{"token": "tttt", "project_name": "p"}, "project_domain_name"},
		"system":         {map[string]string{"token": "tttt", "system_scope": "some"}, "only be all"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, &keystone{}, "auth_url: "+authURL)
			h.Secret = test.secret
			_, err := h.Sign(request(""))
			if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestConfigurationIsStrict(t *testing.T) {
	const ok = "auth_url: https://k/v3\n"
	for config, want := range map[string]string{
		"":                                   "line 1: the configuration is nothing",
		"project_id: a":                      "line 1: there is no auth_url",
		"auth_url: keystone":                 "line 1: auth_url is no URL",
		"auth_url: ftp://k/v3":               "line 1: auth_url is no URL",
		"auth_url: https://u:p@k/v3":         "line 1: auth_url is no URL",
		"auth_url: https://k/v3?a":           "line 1: auth_url is no URL",
		"auth_url: https://k/v2.0/":          "line 1: auth_url is of the removed Identity API v2.0",
		ok + "password: a":                   "line 2: \"password\" is unknown here",
		ok + "project_id: 5":                 "line 2: project_id is a number, and must be text: put it into quotes",
		ok + "project_name: a":               "line 1: a project is named by",
		ok + "project_id: a\ndomain_id: b":   "line 1: a token has one scope",
		ok + "allowed_scopes: all":           "line 2: allowed_scopes must be a list",
		ok + "allowed_scopes:\n- a":          "line 3: the scope \"a\" is none of",
		ok + "allowed_scopes:\n- 'system:*'": "line 3: the scope",
	} {
		h := sdktest.NewSignerHost(t)
		h.Serve(&signer{})
		err := h.Call(abi.OpConfigure, &abi.ConfigureRequest{Config: []byte(config)}, &abi.ConfigureResponse{})
		if sdk.CodeOf(err) != abi.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", config, err, want)
		}
	}
}

func TestPlainHTTPIsWarnedOf(t *testing.T) {
	for url, want := range map[string]int{"http://k": 1, "https://k": 0} {
		if got := sdktest.NewSignerHost(t).Configure(&signer{}, "auth_url: "+url).Warnings; len(got) != want {
			t.Errorf("%s: %q", url, got)
		}
	}
}

// FuzzAnswer: any answer of Keystone and any state give an error without the
// password, or a token that is valid in a header.
func FuzzAnswer(f *testing.F) {
	f.Add(int32(201), "gAAAA", `{"token":{"issued_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-02T04:04:05Z","project":{"id":"p"}}}`, "")
	f.Add(int32(401), "", `{"error":{"message":"no"}}`, `{"token":"t","expires":99999999999999,"renew":1,"of":"https://keystone.example.com:5000/v3 null"}`)
	f.Add(int32(503), "", "", `{"token":"t","expires":99999999999999,"renew":1,"of":"https://keystone.example.com:5000/v3 null"}`)
	f.Fuzz(func(t *testing.T, status int32, header, body, state string) {
		req := &abi.SignRequest{
			Request: request(""), NowMs: 1_767_323_045_000, State: []byte(state),
			TokenResult: &abi.HttpResult{Response: &abi.HttpResponse{
				Status: status, Body: []byte(body), Headers: []*abi.HttpHeader{{Name: "X-Subject-Token", Value: header}},
			}},
		}
		for key, value := range byPasswordOf("ccm") {
			req.Secret = append(req.Secret, &abi.SecretValue{Key: key, Value: []byte(value)})
		}
		server := sdk.NewSignerServer(&signer{config: config{authURL: authURL}})
		code, answer := server.Call(abi.OpSign, encode(t, req))
		if code != abi.CodeOK {
			if strings.Contains(string(answer), password) {
				t.Fatalf("the error holds the password: %q", answer)
			}
			return
		}
		var resp abi.SignResponse
		if err := resp.UnmarshalVT(answer); err != nil {
			t.Fatal(err)
		}
		if len(resp.Headers) != 1 || !isToken(resp.Headers[0].Value) || resp.ExpiresMs <= req.NowMs {
			t.Fatalf("signed with %v until %d", resp.Headers, resp.ExpiresMs)
		}
	})
}

func encode(t *testing.T, m abi.Message) []byte {
	t.Helper()
	data := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(data); err != nil {
		t.Skip("text that is not UTF-8 does not travel")
	}
	return data
}
