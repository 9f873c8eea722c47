package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// The manager's knowledge of its hosts is reported, and nothing beyond it is
// claimed.
func TestHosts(t *testing.T) {
	provider := v1alpha1.Provider{Name: "p", Grants: []v1alpha1.Grant{{Host: "open.example.com", Port: 443}, {Host: "new.example.com", Port: 443}, {Host: "good.example.com", Port: 8443}}}
	c := &checker{plan: plan{providers: []v1alpha1.Provider{provider}}, status: &status.Status{Providers: []status.Provider{{
		Name: "p", Serving: &status.Module{}, Phase: "Kept",
		Hosts: []status.Host{{Host: "open.example.com:443", Breaker: "open", LastFault: "connection refused"}, {Host: "good.example.com:8443", Breaker: "closed"}},
	}}}}
	c.manager(t.Context())
	for _, want := range []Finding{
		{Severity: Error, Reason: report.Breaker, Where: "host open.example.com:443 of provider p", What: "connection refused"},
		{Severity: Unknown, Reason: "HostNotAsked", Where: "host new.example.com:443 of provider p", What: "not checked"},
		{Severity: OK, Reason: "Host", Where: "host good.example.com:8443 of provider p"},
	} {
		if !found(c.findings, want) {
			t.Errorf("%+v is not in %+v", want, c.findings)
		}
	}
}

// Outcomes of the manager's connections are reported where no request has a better one.
func TestHostsThatWereConnectedTo(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	ends := func(in time.Duration) metav1.Time { return metav1.NewTime(now.Add(in)) }
	hosts := []status.HostReach{
		{Host: "good.example.com:443", Result: status.HostReached, Address: "192.0.2.1:443", TLS: "TLS 1.3", CertificateEnds: ends(15 * 24 * time.Hour)},
		{Host: "old.example.com:443", Result: status.HostReached, CertificateEnds: ends(13*24*time.Hour + time.Minute)},
		{Host: "nowhere.example.com:443", Result: status.HostNotResolved, Message: "no such host"},
		{Host: "twice.example.com:443", Result: status.HostTLSFailed, Message: "unknown authority"},
		{Host: "twice.example.com:443", Result: status.HostReached},
		{Host: "open.example.com:443", Result: status.HostReached},
		{Host: "*.example.com:443", Result: status.HostNotAsked, Message: "it stands for many hosts"},
		{Host: status.MoreHosts, Result: status.HostNotAsked, Message: "no more than 64 hosts of a provider are asked"},
	}
	provider := v1alpha1.Provider{Name: "p", Grants: []v1alpha1.Grant{{Host: "65.example.com", Port: 443}}}
	for i := range hosts {
		hosts[i].Provider = "p"
		if hosts[i].Host == status.MoreHosts {
			continue
		}
		provider.Grants = append(provider.Grants, v1alpha1.Grant{Host: strings.TrimSuffix(hosts[i].Host, ":443"), Port: 443})
	}
	c := &checker{plan: plan{providers: []v1alpha1.Provider{provider}}, Options: Options{
		Clock: func() time.Time { return now },
		Reachability: func(context.Context) (*status.Reachability, error) {
			return &status.Reachability{Manager: status.Manager{Host: "node-1_4711"}, Hosts: hosts}, nil
		},
	}, status: &status.Status{Providers: []status.Provider{{
		Name: "p", Serving: &status.Module{}, Phase: "Kept", Hosts: []status.Host{{Host: "open.example.com:443", Breaker: "open", LastFault: "503"}},
	}}}}
	c.manager(t.Context())
	for _, want := range []Finding{
		{Severity: OK, Reason: "Host", Where: "host good.example.com:443 of provider p", What: "manager node-1_4711 connects to it, at 192.0.2.1:443 TLS 1.3"},
		{Severity: Warning, Reason: "CertificateEnds", Where: "host old.example.com:443 of provider p", What: "in 13 days (2026-11-14)"},
		{Severity: Error, Reason: "HostNotResolved", Where: "host nowhere.example.com:443 of provider p", What: "manager node-1_4711 cannot connect to it: no such host"},
		{Severity: Error, Reason: "HostTLSFailed", Where: "host twice.example.com:443 of provider p", What: ": unknown authority"},
		{Severity: Error, Reason: report.Breaker, Where: "host open.example.com:443 of provider p", What: "503"},
		{Severity: Unknown, Reason: "HostNotAsked", Where: "host *.example.com:443 of provider p", What: "it stands for many hosts, and the manager has sent it nothing"},
		{Severity: Unknown, Reason: "HostNotAsked", Where: "host 65.example.com:443 of provider p", What: "no more than 64 hosts of a provider are asked, and the manager"},
	} {
		if !found(c.findings, want) {
			t.Errorf("%+v is not in %+v", want, c.findings)
		}
	}
	if n := Count(c.findings, Error); n != 3 {
		t.Errorf("%d errors: %+v", n, c.findings)
	}
}

// A manager without this request is no mistake, and nothing is claimed.
func TestHostsOfAnOlderManager(t *testing.T) {
	c := &checker{plan: plan{providers: []v1alpha1.Provider{{Name: "p", Grants: []v1alpha1.Grant{{Host: "a.example.com", Port: 443}}}}}, Options: Options{
		Reachability: func(context.Context) (*status.Reachability, error) { return nil, errors.New("no such path") },
	}, status: &status.Status{Providers: []status.Provider{{Name: "p", Serving: &status.Module{}, Phase: "Kept"}}}}
	c.manager(t.Context())
	if !found(c.findings, Finding{Severity: Unknown, Reason: "Hosts", What: "no such path"}) || !found(c.findings, Finding{Severity: Unknown, Reason: "HostNotAsked"}) || Count(c.findings, Error) > 0 {
		t.Errorf("findings: %+v", c.findings)
	}
}

func TestProvider(t *testing.T) {
	for reason, p := range map[string]status.Provider{
		"NothingServes":        {Name: "p", Phase: "Rejected", Reason: "ModuleEmpty"},
		"OfferRefused":         {Name: "p", Phase: "RolledBack", Serving: &status.Module{}},
		"DeletionBrakeEngaged": {Name: "p", Phase: "Kept", Serving: &status.Module{}, Brake: &status.Brake{Engaged: true}},
		"Refused":              {Name: "p", Phase: "Kept", Serving: &status.Module{}, Stuck: []status.Explanation{{Cause: "Refused", Object: status.Object{Kind: "Service", Name: "web"}}}},
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
