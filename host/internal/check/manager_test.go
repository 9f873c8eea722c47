package check

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// What the manager knows of its hosts is told, and what it does not know is not
// claimed.
func TestHosts(t *testing.T) {
	provider := v1alpha1.Provider{Name: "p", Grants: []v1alpha1.Grant{{Host: "open.example.com", Port: 443}, {Host: "new.example.com", Port: 443}, {Host: "good.example.com", Port: 8443}}}
	c := &checker{plan: plan{providers: []v1alpha1.Provider{provider}}, status: &status.Status{Providers: []status.Provider{{
		Name: "p", Serving: &status.Module{}, Phase: "Kept",
		Hosts: []status.Host{{Host: "open.example.com:443", Breaker: "open", LastFault: "connection refused"}, {Host: "good.example.com:8443", Breaker: "closed"}},
	}}}}
	c.manager(t.Context())
	for _, want := range []Finding{
		{Severity: Error, Reason: "HostUnreachable", Where: "host open.example.com:443 of provider p", What: "connection refused"},
		{Severity: Unknown, Reason: "HostNotAsked", Where: "host new.example.com:443 of provider p", What: "not checked"},
		{Severity: OK, Reason: "Host", Where: "host good.example.com:8443 of provider p"},
	} {
		if !found(c.findings, want) {
			t.Errorf("%+v is not in %+v", want, c.findings)
		}
	}
}

func TestProvider(t *testing.T) {
	for reason, p := range map[string]status.Provider{
		"NothingServes": {Name: "p", Phase: "Rejected", Reason: "ModuleEmpty"},
		"OfferRefused":  {Name: "p", Phase: "RolledBack", Serving: &status.Module{}},
		"DeletionBrake": {Name: "p", Phase: "Kept", Serving: &status.Module{}, Brake: &status.Brake{Engaged: true}},
		"Stuck":         {Name: "p", Phase: "Kept", Serving: &status.Module{}, Stuck: []status.Explanation{{Object: status.Object{Kind: "Service", Name: "web"}}}},
	} {
		c := &checker{status: &status.Status{Providers: []status.Provider{p}}}
		c.manager(t.Context())
		if !found(c.findings, Finding{Severity: Error, Reason: reason}) {
			t.Errorf("%s is not in %+v", reason, c.findings)
		}
	}
}

func found(all []Finding, want Finding) bool {
	for _, f := range all {
		if f.Severity == want.Severity && f.Reason == want.Reason && strings.HasPrefix(f.Where, want.Where) && strings.Contains(f.What, want.What) {
			return true
		}
	}
	return false
}
