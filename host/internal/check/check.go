// Package check looks for mistakes around a manager: in the cluster, in its
// installation and in its HostConfiguration. It only reads, and asks the API server
// what others may do (SubjectAccessReview). What it may not read it says. It may
// import what reads configurations, sources, modules and Secrets, so that nothing is
// read in a second way, and nothing that runs a module or reaches a cloud: the manager
// does that, and says what came of it.
package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Severity says how bad a finding is.
type Severity string

// Severities, the worst first. Unknown is for what could not be checked.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Unknown Severity = "unknown"
	OK      Severity = "ok"
)

// Finding is one answer of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one word for what is wrong, in CamelCase, and for OK and Unknown for
	// what was looked at.
	Reason string `json:"reason"`
	// Where is the object, or whose it is; What is wrong there, Mend how to mend it.
	Where string `json:"where"`
	What  string `json:"what"`
	Mend  string `json:"mend,omitempty"`
}

const (
	// maxText is the size of a text of a finding, in bytes; it may quote objects.
	maxText = 1 << 10
	// maxAlike is how many findings of one kind are told; each Node of a large cluster
	// may have the same mistake.
	maxAlike = 20
)

// Options say what is checked.
type Options struct {
	// Namespace is that of the manager.
	Namespace string
	// Planned is a HostConfiguration, or what helm template prints, of an installation
	// that is to be; nil: the one in the cluster is checked.
	Planned []byte
	// Version is that of the program that checks.
	Version string
	// Status asks the manager.
	Status func(context.Context) (*status.Status, error)
	// Reachability asks the manager to connect to the granted hosts.
	Reachability func(context.Context) (*status.Reachability, error)
	// Patience is how long a Node may be without its cloud's data before it is a
	// mistake.
	Patience time.Duration
	// Clock is this machine's; nil is time.Now.
	Clock func() time.Time
}

// checker has what the checks share. It is for one run, in one goroutine.
type checker struct {
	Options
	client  kubernetes.Interface
	dynamic dynamic.Interface
	dates   *dates
	seen    cluster
	plan    plan
	// status is the manager's answer, nil if there is none.
	status *status.Status
	// unreachable is why there is none.
	unreachable error
	// reached is what came of the connections of a manager, by provider and host; from
	// is which manager that was.
	reached  map[hostOf]status.HostReach
	from     string
	findings []Finding
}

// Run checks everything. Its findings are sorted, the worst first. The error is for a
// cluster that does not answer, and for a plan that cannot be read at all.
func Run(ctx context.Context, config *restclient.Config, o Options) ([]Finding, error) {
	c, err := newChecker(config, o)
	if err != nil {
		return nil, err
	}
	if err := c.versions(ctx); err != nil {
		return nil, err
	}
	c.read(ctx)
	for _, check := range []func(context.Context){
		c.clocks, c.nodes, c.routes, c.managers, c.leader, c.workload, c.pods, c.ports, c.accounts, c.configuration,
		c.objects, c.cloudProviders, c.rights, c.webhooks, c.policies, c.manager,
	} {
		check(ctx)
	}
	c.findings = fewer(c.findings)
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return c.findings, nil
}

func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Unknown, OK}, s) }

// queriesPerSecond is what the API server is asked at most: client-go's default is
// for loops, and a check is over after a hundred questions.
const queriesPerSecond = 100

func newChecker(config *restclient.Config, o Options) (*checker, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c := &checker{Options: o, dates: &dates{clock: o.Clock}}
	config = restclient.CopyConfig(config)
	config.QPS, config.Burst = queriesPerSecond, queriesPerSecond
	config.Wrap(c.dates.wrap)
	var err error
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.plan, err = readPlan(o.Planned)
	return c, err
}

func (c *checker) add(severity Severity, reason, where, what, mend string) {
	c.findings = append(c.findings, Finding{
		Severity: severity, Reason: reason, Where: text.Line(where, maxText), What: text.Line(what, maxText), Mend: text.Line(mend, maxText),
	})
}

func (c *checker) error(reason, where, what, mend string) { c.add(Error, reason, where, what, mend) }

func (c *checker) warn(reason, where, what, mend string) { c.add(Warning, reason, where, what, mend) }

func (c *checker) unknown(reason, where, what string) { c.add(Unknown, reason, where, what, "") }

// section runs one check, and says so if it found nothing. Of what could not be read
// nothing good is said.
func (c *checker) section(reason, where, good string, check func(), reads ...string) {
	before := len(c.findings)
	check()
	if len(c.findings) == before && !slices.ContainsFunc(reads, func(what string) bool { return c.seen.unread[what] }) {
		c.add(OK, reason, where, good, "")
	}
}

// fewer leaves out what is found too often, and says so.
func fewer(findings []Finding) (told []Finding) {
	type kind struct {
		severity Severity
		reason   string
	}
	type more struct{ n, at int }
	many := map[kind]more{}
	for _, f := range findings {
		of := kind{f.Severity, f.Reason}
		m := many[of]
		switch m.n++; {
		case f.Severity == OK || m.n <= maxAlike:
			told = append(told, f)
		case m.n == maxAlike+1:
			m.at = len(told)
			told = append(told, Finding{Severity: f.Severity, Reason: f.Reason, Where: "cluster"})
			fallthrough
		default:
			told[m.at].What = fmt.Sprintf("and %d more of these", m.n-maxAlike)
			told[m.at].Mend = "mend those that are told, and check again"
		}
		many[of] = m
	}
	return told
}

// Count returns how many findings have a severity.
func Count(findings []Finding, severity Severity) (n int) {
	for _, f := range findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}
