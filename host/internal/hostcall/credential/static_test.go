package credential

import (
	"net/http"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func TestStaticTypes(t *testing.T) {
	tests := map[string]struct {
		spec    Spec
		secrets []string
		query   string
		// what the server must see
		header, value, wantQuery string
	}{
		"header": {
			spec:    Spec{Header: &Header{Name: "X-Auth-Key", Prefix: "Token ", Key: "key"}},
			secrets: []string{"key", "s3cr3t\n"}, header: "X-Auth-Key", value: "Token s3cr3t",
		},
		"bearer": {
			spec:    Spec{Bearer: &Bearer{}},
			secrets: []string{"token", "s3cr3t"}, header: "Authorization", value: "Bearer s3cr3t",
		},
		"bearer, other key": {
			spec:    Spec{Bearer: &Bearer{Key: "api"}},
			secrets: []string{"api", "s3cr3t"}, header: "Authorization", value: "Bearer s3cr3t",
		},
		// The example of RFC 7617, section 2.
		"basic": {
			spec:    Spec{Basic: &Basic{}},
			secrets: []string{"username", "Aladdin", "password", "open sesame"}, header: "Authorization", value: "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
		},
		"query": {
			spec:    Spec{Query: &Query{Param: "api key", Key: "k"}},
			secrets: []string{"k", "a&b=c d"}, query: "?x=1;2&api%20key=mine&y=%zz", wantQuery: "x=1;2&y=%zz&api%20key=a%26b%3Dc%20d",
		},
		"query alone": {
			spec:    Spec{Query: &Query{Param: "key", Key: "k"}},
			secrets: []string{"k", "value"}, wantQuery: "key=value",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, last := record(t)
			set, _ := newTestSet(t, newFakeSecrets(test.secrets...), test.spec)
			send(t, set, "", "POST", url+"/v1/servers"+test.query, "body", "Authorization", "the guest's", "X-Auth-Key", "the guest's", "X-Other", "stays")
			if test.header != "" {
				if got := last.Header.Values(test.header); len(got) != 1 || got[0] != test.value {
					t.Errorf("%s: %q, want %q alone", test.header, got, test.value)
				}
			}
			if last.URL.RawQuery != test.wantQuery {
				t.Errorf("query %q, want %q", last.URL.RawQuery, test.wantQuery)
			}
			if last.Header.Get("X-Other") != "stays" || last.URL.Path != "/v1/servers" || last.Method != http.MethodPost {
				t.Errorf("something else changed: %v", last)
			}
			if set.Rejected(t.Context(), "cloud", "") {
				t.Error("trying the same value again is no help")
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	bearer := Spec{Bearer: &Bearer{}}
	tests := map[string]struct {
		spec    Spec
		secrets []string
		scope   string
		code    abi.Code
		says    []string
	}{
		"a missing key":        {bearer, []string{"other", "hunter2hunter3"}, "", abi.CodeUnavailable, []string{"credential cloud", "Secret kube-system/cloud", `key "token" is missing`}},
		"a short value":        {bearer, []string{"token", "abc"}, "", abi.CodeUnavailable, []string{"kube-system/cloud", `key "token" has 3 bytes`, "publicKeys"}},
		"an empty value":       {bearer, []string{"token", "\n"}, "", abi.CodeUnavailable, []string{"has 0 bytes"}},
		"a huge value":         {bearer, []string{"token", strings.Repeat("hunter2hunter3", 10000)}, "", abi.CodeUnavailable, []string{"limit"}},
		"a large value":        {bearer, []string{"token", strings.Repeat("hunter2hunter3", 2000)}, "", abi.CodeUnavailable, []string{"limit"}},
		"a line break":         {bearer, []string{"token", "hunter2hunter3\r\nX-Admin: true"}, "", abi.CodeUnavailable, []string{`value of header "Authorization" is not valid`}},
		"a colon in the user":  {Spec{Basic: &Basic{}}, []string{"username", "a:b", "password", "hunter2hunter3"}, "", abi.CodeUnavailable, []string{"colon"}},
		"a long query":         {Spec{Query: &Query{Param: "k", Key: "k"}}, []string{"k", strings.Repeat("hunter2hunter3", 3000)}, "", abi.CodeTooLarge, []string{"limit"}},
		"a scope that is long": {bearer, []string{"token", "hunter2hunter3"}, strings.Repeat("x", 257), abi.CodeInvalid, []string{"credential_scope has 257 bytes"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set, _ := newTestSet(t, newFakeSecrets(test.secrets...), test.spec)
			_, err := trySend(t, set, test.scope, "GET", "http://127.0.0.1:1/", "")
			refused(t, err, test.code, test.says...)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q holds the secret", err)
			}
		})
	}
}

func TestUnknownCredential(t *testing.T) {
	set, _ := newTestSet(t, newFakeSecrets("token", "hunter2hunter3"), Spec{Bearer: &Bearer{}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, apply(t.Context(), set, "other", "", req), abi.CodeDenied, `there is no credential "other"`, "HostConfiguration")
	if len(req.Header) != 0 {
		t.Errorf("headers were set: %v", req.Header)
	}
	if set.Rejected(t.Context(), "other", "") {
		t.Error("a credential that does not exist was renewed")
	}
}

func TestRotation(t *testing.T) {
	url, last := record(t)
	secrets := newFakeSecrets("token", "the first value")
	set, _ := newTestSet(t, secrets, Spec{Bearer: &Bearer{}})
	send(t, set, "", "GET", url, "")
	secrets.set("token", "the second value")
	if !set.Rejected(t.Context(), "cloud", "") {
		t.Error("the Secret has changed since: trying again helps")
	}
	send(t, set, "", "GET", url, "")
	if got := last.Header.Get("Authorization"); got != "Bearer the second value" {
		t.Errorf("got %q", got)
	}
	if got := string(set.Scrub([]byte("the first value, the second value"))); got != "[scrubbed:cloud], [scrubbed:cloud]" {
		t.Errorf("got %q", got)
	}
}

func TestASecretMadeOfTheMark(t *testing.T) {
	set, _ := newTestSet(t, newFakeSecrets("token", "scrubbed"), Spec{Bearer: &Bearer{}})
	_, err := trySend(t, set, "", "GET", "http://127.0.0.1:1/", "")
	refused(t, err, abi.CodeUnavailable, `key "token"`, "cannot be scrubbed")
}
