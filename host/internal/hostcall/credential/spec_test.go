package credential

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWhatNoConfigurationHas(t *testing.T) {
	good := Spec{Name: "cloud", Secret: secretName, Bearer: &Bearer{}}
	two, none := good, good
	two.Basic, none.Bearer = &Basic{}, nil
	for says, specs := range map[string][]Spec{"or two": {two}, "no type": {none}, "two of this name": {good, good}} {
		if _, err := NewSet(newFakeSecrets(), specs, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for want, spec := range map[string]Spec{
		"header": {Header: &Header{}}, "basic": {Basic: &Basic{}}, "bearer": {Bearer: &Bearer{}}, "query": {Query: &Query{}},
		"oauth2ClientCredentials": {OAuth2: &OAuth2ClientCredentials{Transport: http.DefaultTransport}},
		"awsSigV4":                {AWSSigV4: &AWSSigV4{}}, "signer": {Signer: &SignerSpec{}},
		"bodyTemplate": {BodyTemplate: &BodyTemplate{}},
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
