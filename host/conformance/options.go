package conformance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/hostfunc"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// Options of a Run. Module, Engine and Cases are required; the zero value of
// another field is its default.
type Options struct {
	// Module is the uncompressed module of the provider.
	Module []byte
	// Config is the provider's configuration, as in its ConfigMap.
	Config []byte
	// Engine runs the module and the signers.
	Engine engine.Engine
	// Compiler compiles in another process; nil: the engine compiles in this one.
	Compiler plugin.Compiler
	// Provider is a provider of a HostConfiguration, with its defaults: grants,
	// credentials, capabilities, limits. Its source is ignored. The zero value
	// grants every capability, all Nodes and Services, and no URL.
	Provider v1alpha1.Provider
	// Secrets that the credentials name.
	Secrets Secrets
	// WrongSecrets are Secrets that the cloud refuses. Nil: Secrets with spoiled values.
	WrongSecrets Secrets
	// Signers are the uncompressed modules of the signers, by the name of their
	// credential.
	Signers map[string][]byte
	// HTTP sends requests in place of Provider's grants, for tests with the
	// cloud as a function.
	HTTP hostfunc.HTTP
	// Cases are the kit's inputs about the cloud.
	Cases Cases
	// Inspect describes all of the cluster's objects in the cloud, in lines. It
	// is the witness that nothing is left behind. Nil: there is none.
	Inspect func(ctx context.Context) (string, error)
	// IgnoreIPs treats all addresses in Inspect's lines as equal.
	IgnoreIPs bool
	// Ignore matches variable parts of Inspect's lines, beside UUIDs, times and
	// numbers of six digits and more; nil: nothing.
	Ignore *regexp.Regexp
	// Only picks the clauses whose ID it matches; nil takes all.
	Only *regexp.Regexp
	// Except leaves out the clauses whose ID it matches; the report lists them
	// as not applicable. Nil: none.
	Except *regexp.Regexp
	// Progress is called when a clause begins and, with a Note, for each
	// disturbance of an op (no verdict yet), and when it ends; may be nil.
	Progress func(Result)

	// MaxWait bounds a single delay that the guest requests (retry_after), so
	// that a run is quicker than a manager. Default 2 s.
	MaxWait time.Duration
	// DriveTimeout bounds an op with all its repetitions. Default 5 min.
	DriveTimeout time.Duration
	// FaultTimeout is the deadline of an op whose cloud hangs. Default 3 s.
	FaultTimeout time.Duration
	// MaxPositions bounds the host calls of one op at which it is ended or gets
	// a fault, each in a run of its own. Default 200.
	MaxPositions int
	// CrashAtWrites ends ops only at changing requests, for when every position
	// would take too long.
	CrashAtWrites bool
	// Settle bounds the delay until Inspect shows an op's changes. Default 5 s.
	Settle time.Duration
	// MaxThrottled bounds the requests of one op to a cloud that answers 429.
	// Default 8.
	MaxThrottled int
}

// grace is the time for an op to end after its deadline.
const grace = 2 * time.Second

func (o Options) withDefaults() Options {
	setDefault(&o.MaxWait, 2*time.Second)
	setDefault(&o.DriveTimeout, 5*time.Minute)
	setDefault(&o.FaultTimeout, 3*time.Second)
	setDefault(&o.MaxPositions, 200)
	setDefault(&o.MaxThrottled, 8)
	setDefault(&o.Settle, 5*time.Second)
	if o.Progress == nil {
		o.Progress = func(Result) {}
	}
	if o.Provider.Name == "" {
		c := v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{{
			Name: "provider", Capabilities: abi.Capabilities(), Kube: v1alpha1.Kube{Nodes: true, Services: []string{"*"}},
		}}}
		v1alpha1.SetDefaults(&c)
		o.Provider = c.Providers[0]
	}
	if o.WrongSecrets == nil {
		o.WrongSecrets = o.Secrets.spoiled(o.Provider.Credentials)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case len(o.Module) == 0:
		return errors.New("there is no module")
	case o.Engine == nil:
		return errors.New("there is no engine")
	}
	if err := o.Cases.validate(); err != nil {
		return fmt.Errorf("cases: %w", err)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
