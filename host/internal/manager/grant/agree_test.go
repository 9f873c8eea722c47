package grant_test

import (
	"errors"
	"net/http"
	"testing"

	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// FuzzValidIsUsable: a valid configuration gives a network whose credentials
// can be sent. Otherwise there would be an error without a field's path, or one
// at each request.
func FuzzValidIsUsable(f *testing.F) {
	f.Add("api.example.com", "/v2/", "GET", "X-Auth-Token", "Token ", "key", "https://login.example.com/token")
	f.Add("*.example.com", "/a b/%2e%2e", "PATCH", "host", "a\nb", "_method", "https://*.example.com")
	f.Add("[::1]", "v2", "get", "X_Forwarded_For", "", "x-http-method", "https://h/?")
	f.Add("0x7f.1", "/?", "TRACE", "", "\x00", ".method", "https://h:0/#")
	f.Fuzz(func(t *testing.T, host, path, method, header, prefix, parameter, url string) {
		secret := v1alpha1.Reference{Namespace: "ns", Name: "s"}
		p := v1alpha1.Provider{
			Name: "p", Source: v1alpha1.Source{ConfigMap: &v1alpha1.Reference{Namespace: "ns", Name: "m"}},
			Grants: []v1alpha1.Grant{{Host: host, PathPrefix: path, Methods: []string{method}, Credentials: []string{"header", "query", "oauth2"}}},
			Credentials: []v1alpha1.Credential{
				{Name: "header", Secret: secret, Header: &v1alpha1.HeaderCredential{Header: header, Prefix: prefix}},
				{Name: "query", Secret: secret, Query: &v1alpha1.QueryCredential{Parameter: parameter}},
				{Name: "oauth2", Secret: secret, OAuth2ClientCredentials: &v1alpha1.OAuth2Credential{Token: v1alpha1.Endpoint{URL: url}}},
			},
		}
		c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{p}}
		v1alpha1.SetDefaults(c)
		if validation.Validate(c) != nil {
			return
		}
		use(t, &c.Providers[0])
	})
}

func use(t *testing.T, p *v1alpha1.Provider) {
	t.Helper()
	secrets := secrets{"s": {"token": []byte("sesame-43"), "client_id": []byte("me"), "client_secret": []byte("sesame-44")}}
	way, err := grant.NewNetwork(p, grant.NetworkOptions{Secrets: secrets, Credentials: credential.Options{Scrubber: credential.NewScrubber(clock.RealClock{})}})
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	set := way.Credentials
	for _, name := range []string{"header", "query"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Apply(t.Context(), name, "", req, nil); err != nil {
			var detail *abi.Error
			t.Fatalf("%s cannot be applied: %v %v", name, err, errors.As(err, &detail))
		}
		for header := range req.Header {
			if err := egress.CheckHeader(header); err != nil {
				t.Errorf("a request with the header %q is refused: %v", header, err)
			}
		}
	}
}
