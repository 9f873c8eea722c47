package credential

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// always is an http.RoundTripper with one answer.
type always struct {
	kind string
	body []byte
}

func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// FuzzToken reads what a token server may answer: there is a header within its
// bound, or an error.
func FuzzToken(f *testing.F) {
	f.Add("application/json", []byte(`{"access_token":"0123456789","token_type":"bearer","expires_in":"600"}`))
	f.Add("application/x-www-form-urlencoded", []byte(`access_token=0123456789&expires_in=1e9`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		set, _ := newTestSet(t, newFakeSecrets("client_id", "ccm", "client_secret", clientSecret),
			Spec{OAuth2: &OAuth2ClientCredentials{TokenURL: "https://token.example/", Transport: always{kind, body}}})
		request := newRequest(t, "https://cloud.example/")
		if _, err := set.Apply(t.Context(), "cloud", "", request, nil); err == nil && len(request.Header.Get("Authorization")) > maxHeaderBytes {
			t.Fatalf("a header of %d bytes", len(request.Header.Get("Authorization")))
		}
	})
}

// FuzzLogin reads what a cloud may answer to a login: scrubbed, as the provider
// gets it, it has no session.
func FuzzLogin(f *testing.F) {
	f.Add("session=0123456789; Path=/", []byte(`{"value":"0123456789"}`))
	f.Add("session=\"01234 56789\"", []byte(`{"value":"01234\u0035 6789"}`))
	f.Add("", []byte(`{"value":"01234\b56789"}`))
	f.Add("", []byte("{\"value\":\"01234\xe456789\"}"))
	f.Fuzz(func(t *testing.T, cookie string, body []byte) {
		for _, session := range []*Session{{Cookie: "session"}, {Header: "X-Session", Field: "value"}} {
			set, _ := newTestSet(t, newFakeSecrets("username", "user", "password", "s3cr3t-s3cr3t"), Spec{Basic: &Basic{}, Session: session})
			answered, err := set.Apply(t.Context(), "cloud", "", newRequest(t, "https://cloud.example/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			value, ok := fieldOf(body, "value")
			header := http.Header{"Set-Cookie": {cookie}}
			got := set.Scrub(answered(http.StatusOK, header, bytes.Clone(body)))
			again, _ := fieldOf(got, "value")
			if session.Field != "" && ok && len(value) >= minSessionBytes && again == value {
				t.Fatalf("the provider gets the session of %q as %q", body, got)
			}
		}
	})
}
