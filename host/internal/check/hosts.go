package check

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// hostOf is a host of a provider, as HOST:PORT.
type hostOf struct{ provider, host string }

// reach asks the manager to connect to the granted hosts.
func (c *checker) reach(ctx context.Context) {
	if c.Reachability == nil {
		return
	}
	answer, err := c.Reachability(ctx)
	if err != nil {
		c.unknown("Hosts", "manager "+c.status.Manager.Host, "not checked: whether it can connect to the granted hosts: "+err.Error())
		return
	}
	c.reached, c.from = map[hostOf]status.HostReach{}, "manager "+answer.Manager.Host
	for _, r := range answer.Hosts {
		of := hostOf{r.Provider, r.Host}
		// Of two grants of a host with different certificates, the worse result is reported.
		if known, twice := c.reached[of]; !twice || known.Result == status.HostReached {
			c.reached[of] = r
		}
	}
}

// hosts reports whether the manager reaches the granted hosts, from the
// outcomes of requests or else of connections.
func (c *checker) hosts(p *status.Provider) {
	states := map[string]status.Host{}
	for _, h := range p.Hosts {
		states[h.Host] = h
	}
	for _, host := range c.granted(p.Name) {
		where := "host " + host + " of provider " + p.Name
		r := c.reached[hostOf{p.Name, host}]
		state, asked := states[host]
		switch {
		case r.Result != "" && r.Result != status.HostNotAsked && r.Result != status.HostReached:
			c.tell(causeOf(r.Result), where, fmt.Sprintf("%s cannot connect to it: %s", c.from, r.Message))
		case asked && state.Breaker != "closed": // it may have answered, with an error
			c.tell(report.Breaker, where, state.LastFault)
		case r.Result == status.HostReached:
			c.certificate(where, &r)
		case asked:
			c.add(OK, "Host", where, "the manager sends requests to it", "")
		default:
			c.unknown("HostNotAsked", where, "not checked: "+c.unasked(p.Name, r.Message)+"the manager has sent it nothing since it began")
		}
	}
}

// unasked is the manager's reason for not connecting to a host, if it gave one,
// followed by said: the host's own reason, or the limit on hosts.
func (c *checker) unasked(provider, said string) string {
	if said == "" {
		said = c.reached[hostOf{provider, status.MoreHosts}].Message
	}
	if said == "" {
		return ""
	}
	return said + ", and "
}

// certificate checks the expiry of a reached host's certificate.
func (c *checker) certificate(where string, r *status.HostReach) {
	left := r.CertificateEnds.Sub(c.Clock())
	if !r.CertificateEnds.IsZero() && left < report.CertificateAhead {
		c.tell(report.CertificateEnds, where, fmt.Sprintf("in %d days (%s)", max(0, int(left.Hours()/24)), r.CertificateEnds.UTC().Format(time.DateOnly)))
		return
	}
	c.add(OK, "Host", where, strings.TrimSpace(fmt.Sprintf("%s connects to it, at %s %s", c.from, r.Address, r.TLS)), "")
}

// causeOf a step at which a connection failed.
func causeOf(result string) string {
	switch result {
	case status.HostNotResolved:
		return report.HostNotResolved
	case status.HostAddressRefused:
		return report.HostAddressRefused
	case status.HostTLSFailed:
		return report.HostTLSFailed
	}
	return report.HostUnreachable
}

// granted are the hosts of a provider, each once.
func (c *checker) granted(name string) (all []string) {
	for i := range c.plan.providers {
		if c.plan.providers[i].Name != name {
			continue
		}
		for _, g := range c.plan.providers[i].Grants {
			all = append(all, net.JoinHostPort(g.Host, strconv.Itoa(int(g.Port))))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
