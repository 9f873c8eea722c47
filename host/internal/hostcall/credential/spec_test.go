package credential

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestValidate(t *testing.T) {
	good := func() Spec { return Spec{Name: "cloud", Secret: secretName, Bearer: &Bearer{}} }
	tests := map[string]struct {
		change func(*Spec)
		says   string
	}{
		"no name":                 {func(s *Spec) { s.Name = "" }, `the name "" is not a DNS label`},
		"a name that makes marks": {func(s *Spec) { s.Name = "a]b" }, "is not a DNS label"},
		"no Secret":               {func(s *Spec) { s.Secret = types.NamespacedName{Name: "x"} }, "namespace and name"},
		"no type":                 {func(s *Spec) { s.Bearer = nil }, "exactly one type"},
		"two types":               {func(s *Spec) { s.Basic = &Basic{} }, "exactly one type"},
		"header: no name":         {func(s *Spec) { *s = with(*s, &Header{Key: "k"}) }, "header: name must be given"},
		"header: no key":          {func(s *Spec) { *s = with(*s, &Header{Name: "X"}) }, "header: key must be given"},
		"header: Host":            {func(s *Spec) { *s = with(*s, &Header{Name: "Host", Key: "k"}) }, `"Host" must not be set`},
		"header: bad prefix":      {func(s *Spec) { *s = with(*s, &Header{Name: "X", Key: "k", Prefix: "\n"}) }, "prefix is not valid"},
		"query: no param":         {func(s *Spec) { s.Bearer, s.Query = nil, &Query{Key: "k"} }, "query: param must be given"},
		"oauth2: no URL":          {func(s *Spec) { s.Bearer, s.OAuth2 = nil, &OAuth2ClientCredentials{} }, "tokenURL must be"},
		"oauth2: a password":      {func(s *Spec) { s.Bearer, s.OAuth2 = nil, &OAuth2ClientCredentials{TokenURL: "https://u:hunter2@h/"} }, "tokenURL must be"},
		"oauth2: a file":          {func(s *Spec) { s.Bearer, s.OAuth2 = nil, &OAuth2ClientCredentials{TokenURL: "file://h/x"} }, "tokenURL must be"},
		"oauth2: no transport":    {func(s *Spec) { s.Bearer, s.OAuth2 = nil, &OAuth2ClientCredentials{TokenURL: "https://h/"} }, "no transport"},
		"sigV4: no region":        {func(s *Spec) { s.Bearer, s.AWSSigV4 = nil, &AWSSigV4{Service: "ec2"} }, "region must be given"},
		"signer: no module":       {func(s *Spec) { s.Bearer, s.Signer = nil, &SignerSpec{} }, "no module"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := good()
			test.change(&spec)
			_, err := NewSet(newFakeSecrets(), []Spec{spec}, Options{})
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "credential ") {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v holds a password", err)
			}
		})
	}
	if _, err := NewSet(newFakeSecrets(), []Spec{good(), good()}, Options{}); err == nil || !strings.Contains(err.Error(), "two of this name") {
		t.Errorf("two of one name: %v", err)
	}
}

func with(s Spec, h *Header) Spec {
	s.Bearer, s.Header = nil, h
	return s
}

func TestTypeNames(t *testing.T) {
	for want, spec := range map[string]Spec{
		"header": {Header: &Header{}}, "basic": {Basic: &Basic{}}, "bearer": {Bearer: &Bearer{}}, "query": {Query: &Query{}},
		"oauth2ClientCredentials": {OAuth2: &OAuth2ClientCredentials{Transport: http.DefaultTransport}},
		"awsSigV4":                {AWSSigV4: &AWSSigV4{}}, "signer": {Signer: &SignerSpec{}},
	} {
		if got := spec.Type(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestASetThatFollowsAnother is a configuration that was reloaded.
func TestASetThatFollowsAnother(t *testing.T) {
	secrets := newFakeSecrets("token", "hunter2hunter3", "other", "the other value")
	first, clock := newTestSet(t, secrets, Spec{Bearer: &Bearer{}})
	url, _ := record(t)
	send(t, first, "", "GET", url, "")
	second, err := NewSet(secrets, []Spec{{Name: "cloud", Secret: secretName, Bearer: &Bearer{Key: "other"}}}, Options{Clock: clock, Scrubber: first.scrubber})
	if err != nil {
		t.Fatal(err)
	}
	send(t, second, "", "GET", url, "")
	first.Close()
	send(t, first, "", "GET", url, "") // a request that was under way
	for _, set := range []*Set{first, second} {
		if got := string(set.Scrub([]byte("hunter2hunter3, the other value"))); got != "[scrubbed:cloud], [scrubbed:cloud]" {
			t.Errorf("got %q", got)
		}
	}
	clock.SetTime(start.Add(keepOld + time.Second))
	secrets.set("token", "hunter2hunter3", "other", "the next value")
	send(t, second, "", "GET", url, "")
	if got := string(second.Scrub([]byte("hunter2hunter3, the other value, the next value"))); got != "hunter2hunter3, [scrubbed:cloud], [scrubbed:cloud]" {
		t.Errorf("an hour after the first one was closed: %q", got)
	}
}
