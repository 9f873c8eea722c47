package hostile_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/module"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

const (
	// phaseOp is where a module ends that loads: in its ops.
	phaseOp = "op"
	// beforeRunning stands for the phases verify and compile: the engines
	// find the same mistakes, but not in the same place.
	beforeRunning = "verify or compile"
)

// Parts of the errors, the same on every engine.
const (
	deadline = "did not answer within"
	late     = "deadline exceeded"
	trapped  = "the guest trapped"
	broken   = "the guest broke the calling convention"
)

// hostileCase is one hostile module with what must become of it.
type hostileCase struct {
	// name is that of the file in testdata/wat/hostile, whose first lines say
	// what it tries, or of a module that build makes.
	name string
	// build makes the module instead, and tries says what it tries.
	build func(tb testing.TB) []byte
	tries string
	// title names the case where it differs from the name of the module.
	title string
	// manifest changes the manifest that the module gets; raw modules get none.
	manifest func(*manifest.Manifest)
	raw      bool

	// grant is what the administrator grants; the default is everything.
	grant grant

	// phase is where it ends, one of plugin's or phaseOp. The error must
	// contain want there; with "" the op must succeed: the module checks for
	// itself that nothing but refusals came back, and traps otherwise.
	phase, want string
	// either is set where a module may also load: it does no harm then.
	either bool
	// custom runs the case instead, until the time is over.
	custom func(t *testing.T, loader *plugin.Loader, slot *plugin.Slot, end time.Time)

	// answers is set where the error is the guest's own, explicit answer.
	answers bool
	// anyError takes every error, where the ops differ in what they say.
	anyError bool
	// ops are run one after the other; the default is instance_exists.
	ops []abi.Op
	// growth is how much the process may grow, in MiB; the default is
	// defaultGrowth.
	growth int64
	// parallel is how many ops run at the same time; the default is 1.
	parallel int
}

type grant int

const (
	// grantAll grants every capability.
	grantAll grant = iota
	// grantNone makes the loader refuse every capability.
	grantNone
	// grantEmpty grants every name, but there is nothing behind them.
	grantEmpty
	// grantSecret grants everything, with the manager's network and a secret in
	// it; the second one with the rates that the manager has.
	grantSecret
	grantSecretAtDefaultRates
)

func (g grant) capabilities() []string {
	if g == grantNone {
		return nil
	}
	return abi.Capabilities()
}

// everyOp are the ops that the provider makes.
func everyOp() []abi.Op {
	return []abi.Op{
		abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata,
		abi.OpLoadBalancerGet, abi.OpLoadBalancerEnsure, abi.OpLoadBalancerUpdate, abi.OpLoadBalancerDelete,
		abi.OpRouteList, abi.OpRouteCreate, abi.OpRouteDelete, abi.OpVolumeLabels,
	}
}

func (c *hostileCase) withDefaults() hostileCase {
	out := *c
	if out.title == "" {
		out.title = out.name
	}
	if len(out.ops) == 0 {
		out.ops = []abi.Op{abi.OpInstanceExists}
	}
	out.parallel = max(out.parallel, 1)
	if out.growth == 0 {
		out.growth = defaultGrowth
	}
	return out
}

// wasm returns the module with its manifest.
func (c *hostileCase) wasm(tb testing.TB) []byte {
	tb.Helper()
	var wasm []byte
	if c.build != nil {
		wasm = c.build(tb)
	} else {
		wasm = readModule(tb, c.name)
	}
	if c.raw {
		return wasm
	}
	declared := testManifest(imported(wasm))
	if c.manifest != nil {
		c.manifest(&declared)
	}
	return withManifest(tb, wasm, encodeManifest(tb, &declared))
}

// imported returns the capabilities that a module imports.
func imported(wasm []byte) (names []string) {
	m, err := module.Parse(wasm)
	if err != nil {
		return nil
	}
	for _, i := range m.Imports {
		if i.Module == abi.ImportModule && slices.Contains(abi.Capabilities(), i.Name) && !slices.Contains(names, i.Name) {
			names = append(names, i.Name)
		}
	}
	return names
}

func testManifest(capabilities []string) manifest.Manifest {
	m := manifest.Manifest{
		Name: "test", Version: "1", ABI: manifest.Range{Min: 1, Max: 1}, Capabilities: capabilities,
		Ops: []string{abi.OpLoadBalancerName.String()},
	}
	for _, op := range everyOp() {
		m.Ops = append(m.Ops, op.String())
	}
	return m
}

func encodeManifest(tb testing.TB, m *manifest.Manifest) []byte {
	tb.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// checkLoad checks how loading ended.
func (c *hostileCase) checkLoad(tb testing.TB, err error) {
	tb.Helper()
	var e *plugin.LoadError
	switch {
	case c.phase == phaseOp && err != nil:
		tb.Fatalf("it does not load: %v", err)
	case c.phase == phaseOp:
	case err == nil:
		tb.Fatalf("it loads, must be refused at %s", c.phase)
	case !errors.As(err, &e):
		tb.Errorf("error %v is not a LoadError", err)
	case !strings.Contains(c.phase, e.Phase) || !strings.Contains(err.Error(), c.want):
		tb.Errorf("refused with %q, must be at %s with %q", err, c.phase, c.want)
	}
	if err != nil {
		checkText(tb, err)
	}
}

// checkOp checks how an op ended. Whatever a guest does short of saying so: the
// host never takes it for "does not exist" or "done".
func (c *hostileCase) checkOp(tb testing.TB, op abi.Op, gone bool, err error) {
	tb.Helper()
	if gone {
		tb.Errorf("%s: the host believes that something is gone, shut down or deleted", op)
	}
	if err != nil {
		checkText(tb, err)
	}
	var answer *abi.Error
	if errors.As(err, &answer) && !c.answers {
		tb.Errorf("%s: %v is taken for an answer of the guest", op, err)
	}
	switch {
	case c.anyError && err == nil:
		tb.Errorf("%s: success, want an error", op)
	case c.anyError:
	case c.want == "" && err != nil:
		tb.Errorf("%s: error %v, want success", op, err)
	case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
		tb.Errorf("%s: error %v, want one with %q", op, err, c.want)
	}
}

// checkText checks that an error is fit for an Event and a log.
func checkText(tb testing.TB, err error) {
	tb.Helper()
	if text := err.Error(); len(text) > 16<<10 || strings.ContainsAny(text, "\n\x00\x1b") {
		tb.Errorf("an error of %d bytes, or with control characters: %.200q", len(text), text)
	}
}
