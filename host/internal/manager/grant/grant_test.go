package grant_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// secrets are Secrets by name, in any namespace.
type secrets map[string]map[string][]byte

func (s secrets) Get(_ context.Context, namespace, name string) (map[string][]byte, string, error) {
	if s[name] == nil {
		return nil, "", errors.New("there is no Secret " + namespace + "/" + name)
	}
	return s[name], "1", nil
}

var loopback = []string{"127.0.0.0/8"}

// granted is a grant of everything at an address.
func granted(t *testing.T, address string) v1alpha1.Grant {
	t.Helper()
	scheme, rest, _ := strings.Cut(address, "://")
	at, err := netip.ParseAddrPort(rest)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.Grant{Scheme: scheme, Host: at.Addr().String(), Port: at.Port(), CIDRs: loopback}
}

func send(t *testing.T, grants []v1alpha1.Grant, s secrets, set *credential.Set, url, name string) *abi.HttpResult {
	t.Helper()
	all, err := grant.Egress(grants, s)
	if err != nil {
		t.Fatal(err)
	}
	options := grant.Options(v1alpha1.Requests{})
	if set != nil {
		options.Credentials = set
	}
	c, err := egress.New(all, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	results, err := c.Send(t.Context(), []*abi.HttpRequest{{Method: http.MethodGet, Url: url, Credential: name}})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func TestErrorsNameThePlace(t *testing.T) {
	for want, bad := range map[string]v1alpha1.Grant{
		"grants[1].cidrs: ": {CIDRs: []string{"10.0.0.0/33"}},
		"grants[1].caBundle: it has no certificate in PEM": {CABundle: "none"},
	} {
		if _, err := grant.Egress([]v1alpha1.Grant{{}, bad}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, bad := range map[string]v1alpha1.Credential{
		"oauth2ClientCredentials: ": {OAuth2ClientCredentials: &v1alpha1.OAuth2Credential{Token: v1alpha1.Endpoint{URL: "https://h/t", CIDRs: []string{"x"}}}},
		"signer: its module":        {Signer: &v1alpha1.SignerCredential{}},
	} {
		_, err := grant.Credential(&bad, func(string, *v1alpha1.SignerCredential) (credential.Signer, error) {
			return nil, errors.New("its module is not given")
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The token endpoint is only for the token request: a provider with the
// credential cannot send anything there, and redirects of it are not followed.
func TestOAuth2(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token's redirect was followed") }))
	defer elsewhere.Close()
	redirect := false
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if redirect {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		if id, secret, _ := r.BasicAuth(); id != "me" || secret != "sesame-43" || r.FormValue("audience") != "cloud" {
			t.Errorf("asked for a token with %q %q %q", id, secret, r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"tok-82731","token_type":"Bearer","expires_in":3600}`)
	}))
	defer tokens.Close()
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tok-82731" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer cloud.Close()
	c := v1alpha1.Credential{Name: "c", Secret: v1alpha1.Reference{Namespace: "ns", Name: "s"}, OAuth2ClientCredentials: &v1alpha1.OAuth2Credential{
		Token: v1alpha1.Endpoint{URL: tokens.URL + "/token", CIDRs: loopback}, ClientIDKey: "id", ClientSecretKey: "secret", Audience: "cloud",
	}}
	s := secrets{"s": {"id": []byte("me"), "secret": []byte("sesame-43")}}
	allowed := granted(t, cloud.URL)
	allowed.Credentials = []string{"c"}
	for _, test := range []struct {
		redirect bool
		url      string
		status   int32
	}{{false, cloud.URL + "/x", 200}, {false, tokens.URL + "/token", 0}, {true, cloud.URL + "/x", 0}} {
		redirect = test.redirect
		got := send(t, []v1alpha1.Grant{allowed}, s, set(t, &c, s), test.url, "c")
		if cmp.Or(got.Response, &abi.HttpResponse{}).Status != test.status {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func set(t *testing.T, c *v1alpha1.Credential, s secrets) *credential.Set {
	t.Helper()
	spec, err := grant.Credential(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := credential.NewSet(s, []credential.Spec{spec}, credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A client certificate is read for each connection, and an error about the
// Secret shows no key.
func TestClientCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	allowed := granted(t, server.URL)
	allowed.CABundle, allowed.ClientCertificate = string(certificate), &v1alpha1.Reference{Namespace: "ns", Name: "pair"}
	for name, test := range map[string]struct {
		s    secrets
		want string
	}{
		"right":   {secrets{"pair": {"tls.crt": certificate, "tls.key": key}}, ""},
		"none":    {secrets{}, "there is no Secret ns/pair"},
		"no pair": {secrets{"pair": {"tls.crt": key, "tls.key": certificate}}, "it has to be of the type kubernetes.io/tls"},
	} {
		got := send(t, []v1alpha1.Grant{allowed}, test.s, nil, server.URL, "")
		message := cmp.Or(got.Error, &abi.ErrorDetail{}).Message
		if (got.Response != nil && got.Response.Status == 200) != (test.want == "") || !strings.Contains(message, test.want) || strings.Contains(message, "PRIVATE") {
			t.Errorf("%s: %v", name, got)
		}
	}
}
