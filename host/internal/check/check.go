// Package check looks for mistakes around a manager: in the cluster, in its
// installation and in its HostConfiguration. It only reads, and asks the API server
// for the rights of others (SubjectAccessReview). It reports objects that it may not
// read. It may import the readers of configurations, sources, modules and Secrets, so
// that there is one reader of each, and nothing that runs a module or reaches a
// cloud: the manager does that, and reports the outcome.
package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	status "github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Severity of a finding.
type Severity string

// Severities, the worst first. Unknown: the check was not possible.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Unknown Severity = "unknown"
	OK      Severity = "ok"
)

// Finding is one result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one CamelCase word: the mistake, or for OK and Unknown the
	// subject of the check.
	Reason string `json:"reason"`
	// Where is the object or its owner, What the mistake, and Mend the remedy.
	Where string `json:"where"`
	What  string `json:"what"`
	Mend  string `json:"mend,omitempty"`
}

const (
	// maxText bounds a text of a finding, which may quote objects, in bytes.
	maxText = 1 << 10
	// maxAlike bounds the findings of one kind: each Node of a large cluster
	// may have the same mistake.
	maxAlike = 20
)

// Options select the checks.
type Options struct {
	// Namespace of the manager.
	Namespace string
	// Planned is a HostConfiguration, or the output of helm template, for a
	// future installation; nil: check the installation in the cluster.
	Planned []byte
	// PlannedIn is a name of the plan for people, such as a file's.
	PlannedIn string
	// NoCluster is why no cluster can be read; then only the plan's configuration is checked.
	NoCluster error
	// Version of the checking program.
	Version string
	// Status asks the managers. If only a standby manager answers, the error
	// names the Pods that did not.
	Status func(context.Context) (*status.Status, error)
	// Reachability asks the manager to connect to the granted hosts.
	Reachability func(context.Context) (*status.Reachability, error)
	// Patience is how long a Node may lack its cloud's data before that is a
	// mistake.
	Patience time.Duration
	// Clock is this machine's; nil is time.Now.
	Clock func() time.Time
}

// checker is the shared state of the checks. It is for one run, in one goroutine.
type checker struct {
	Options
	client  kubernetes.Interface
	dynamic dynamic.Interface
	dates   *dates
	seen    cluster
	plan    plan
	// status is the manager's answer, nil if none answered.
	status *status.Status
	// unreachable is the error of the managers, or Pods, that did not answer.
	unreachable error
	// reached has the outcomes of a manager's connections, by provider and
	// host; from is that manager.
	reached  map[hostOf]status.HostReach
	from     string
	findings []Finding
}

// Run makes all checks. Its findings are sorted, the worst first. It fails if
// the cluster does not answer and there is no plan, or if the plan is
// unreadable.
func Run(ctx context.Context, config *restclient.Config, o Options) ([]Finding, error) {
	c, err := newChecker(config, o)
	if err != nil {
		return nil, err
	}
	if err := c.versions(ctx); err != nil && c.plan.configuration == nil {
		return nil, err
	} else if err != nil {
		c.unknown("Cluster", "cluster", "not checked: the configuration alone was, without what it names: "+err.Error())
		c.configuration(ctx)
	} else {
		c.all(ctx)
	}
	c.findings = fewer(c.findings)
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return c.findings, nil
}

func (c *checker) all(ctx context.Context) {
	c.read(ctx)
	for _, check := range []func(context.Context){
		c.clocks, c.nodes, c.routes, c.managers, c.leader, c.workload, c.pods, c.ports, c.accounts, c.configuration,
		c.objects, c.cloudProviders, c.rights, c.webhooks, c.policies, c.manager,
	} {
		check(ctx)
	}
}

func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Unknown, OK}, s) }

// queriesPerSecond bounds the requests to the API server: client-go's default
// is for loops, and a check is over after a hundred requests.
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
	c.plan, err = readPlan(o.Planned, o.PlannedIn)
	return c, err
}

func (c *checker) add(severity Severity, reason, where, what, mend string) {
	c.findings = append(c.findings, Finding{
		Severity: severity, Reason: reason, Where: text.Line(where, maxText), What: text.Line(what, maxText), Mend: text.Line(mend, maxText),
	})
}

// tell adds a cause of the register about an object, KIND [NAMESPACE/]NAME, with the evidence.
func (c *checker) tell(reason, where, evidence string) {
	what, mend := words(reason, where, evidence, c.Namespace)
	severity := Error
	if report.Find(reason).Warning {
		severity = Warning
	}
	c.add(severity, reason, where, what, mend)
}

// words are the register's about an object: what is wrong, with the evidence, and the remedy.
func words(reason, where, evidence, namespace string) (what, mend string) {
	cause := report.Find(reason)
	_, name, _ := strings.Cut(where, " ")
	of := report.Of{Manager: namespace, Name: name}
	if space, short, cut := strings.Cut(name, "/"); cut {
		of.Namespace, of.Name = space, short
	}
	_, of.Provider, _ = strings.Cut(where, "provider ")
	next := cause.Next.Fill(of)
	what, mend = cause.Means, next.What
	if evidence != "" {
		what += ": " + evidence
	}
	if next.Command != "" {
		mend += ": " + next.Command
	}
	return what, mend
}

func (c *checker) unknown(reason, where, what string) { c.add(Unknown, reason, where, what, "") }

// section runs one check, and adds an OK finding if it found nothing, unless
// one of its reads has failed.
func (c *checker) section(reason, where, good string, check func(), reads ...string) {
	before := len(c.findings)
	check()
	if len(c.findings) == before && !slices.ContainsFunc(reads, func(what string) bool { return c.seen.unread[what] }) {
		c.add(OK, reason, where, good, "")
	}
}

// fewer drops findings of one kind above maxAlike, and reports their number.
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

// Count returns the number of findings of a severity.
func Count(findings []Finding, severity Severity) (n int) {
	for _, f := range findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}
