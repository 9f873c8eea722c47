package grant_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
)

// anything has a value for each key.
type anything struct{ keys []string }

func (a anything) Get(context.Context, string, string) (map[string][]byte, string, error) {
	data := map[string][]byte{}
	for _, key := range a.keys {
		data[key] = []byte("sesame-<&\"\\%41")
	}
	return data, "1", nil
}

// FuzzValidLoginIsUsable: valid body templates and sessions give requests that
// egress accepts.
func FuzzValidLoginIsUsable(f *testing.F) {
	f.Add("the-host-has-it", "POST", "/sdk", "text/xml; charset=utf-8", "SOAPAction", "urn:vim25", "<a>$(key)</a>", "vmware_soap_session", "", "")
	f.Add("12345678", "PUT", "/a%20b/", "application/json", "X", "", `{"a":"$(key)"}`, "", "Authorization", "a.b")
	f.Add("12345678", "", "/", "application/x-www-form-urlencoded", "Content-Type", "\n", "a=$(key)&b=$$(key)", "", "Cookie", ".")
	f.Fuzz(func(t *testing.T, placeholder, method, path, contentType, header, value, body, cookie, sessionHeader, field string) {
		secret := v1alpha1.Reference{Namespace: "ns", Name: "s"}
		p := v1alpha1.Provider{
			Name: "p", Source: v1alpha1.Source{ConfigMap: &v1alpha1.Reference{Namespace: "ns", Name: "m"}},
			Credentials: []v1alpha1.Credential{{
				Name: "login", Secret: secret,
				BodyTemplate: &v1alpha1.BodyTemplate{Placeholder: placeholder, Method: method, Path: path, ContentType: contentType, Headers: map[string]string{header: value}, Body: body},
				Session:      &v1alpha1.Session{Cookie: cookie, Header: sessionHeader, Field: field},
			}},
		}
		c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{p}}
		v1alpha1.SetDefaults(c)
		if validation.Validate(c) != nil {
			return
		}
		logIn(t, &c.Providers[0])
	})
}

func logIn(t *testing.T, p *v1alpha1.Provider) {
	t.Helper()
	template := p.Credentials[0].BodyTemplate
	var keys []string
	for part := range strings.SplitSeq(template.Body, "$(") {
		key, _, _ := strings.Cut(part, ")")
		keys = append(keys, key)
	}
	way, err := grant.NewNetwork(p, grant.NetworkOptions{Secrets: anything{keys}})
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	req, err := http.NewRequestWithContext(t.Context(), template.Method, "https://host"+template.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := way.Credentials.Apply(t.Context(), "login", "", req, []byte("<"+template.Placeholder+">"))
	if err != nil {
		var detail *abi.Error
		t.Fatalf("it cannot log in: %v %v", err, errors.As(err, &detail))
	}
	for name := range req.Header {
		if err := egress.CheckHeader(name); err != nil {
			t.Errorf("a request with the header %q is refused: %v", name, err)
		}
	}
	sent, err := io.ReadAll(req.Body)
	if err != nil || int64(len(sent)) != req.ContentLength || !strings.Contains(string(sent), "sesame-") {
		t.Errorf("%d bytes are said to be %d: %q %v", len(sent), req.ContentLength, sent, err)
	}
	answered(http.StatusOK, http.Header{"Set-Cookie": {"a=b"}}, []byte(`{"a":{"b":"the-session"}}`))
}
