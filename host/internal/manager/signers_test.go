package manager

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/grant"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/metrics"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tasks"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// A signer holds a secret: its host calls get no answer, and its output before
// a crash is dropped.
func TestSignersHaveNoHostCalls(t *testing.T) {
	loader := grant.SignerLoader(plugin.Loader{Scrub: func(s string) string { return s }})
	host, stdout, stderr := loader.NewHost(nil)
	if stdout != nil || stderr != nil || loader.Scrub != nil || len(loader.Policy.Capabilities) > 0 || !loader.Policy.Signer {
		t.Errorf("a signer is heard, or granted something, or may be a provider: %v, %v, %v", stdout, stderr, loader.Policy)
	}
	for _, name := range abi.Capabilities() {
		if code, result := host.HostCall(t.Context(), name, []byte("secret")); code != abi.CodeDenied || len(result) > 0 {
			t.Errorf("%s: %s %q, want it to be denied", name, code, result)
		}
	}
	if code, result := host.HostCall(t.Context(), abi.ImportLog, []byte("secret")); code != abi.CodeOK || len(result) > 0 {
		t.Errorf("log: %s %q, want nothing", code, result)
	}
}

func TestSignersAndProvidersAreToldApart(t *testing.T) {
	const signerOps, providerOps, both = `["sign"]`, `["instance_exists","instance_shutdown","instance_metadata"]`, `["sign","lb_name"]`
	for _, test := range []struct {
		ops              string
		signer, provider bool
		capabilities     string
	}{
		{ops: signerOps, signer: true},
		{ops: providerOps, provider: true},
		{ops: both},
		{ops: `[]`, provider: true},
	} {
		bundle := source.Bundle{Module: guest(t, test.ops)}
		signers := stubLoader()
		signers.Policy.Signer = true
		_, err := signerModules{signers}.Prepare(t.Context(), bundle, func(rollout.Phase) {})
		checkLoaded(t, test.ops+" as a signer", err, test.signer)
		_, err = stubProviderLoader(t).Prepare(t.Context(), bundle, func(rollout.Phase) {})
		checkLoaded(t, test.ops+" as a provider", err, test.provider)
	}
}

func checkLoaded(t *testing.T, what string, err error, want bool) {
	t.Helper()
	var refused *plugin.LoadError
	switch {
	case want && err != nil:
		t.Errorf("%s: %v", what, err)
	case !want && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "signer")):
		t.Errorf("%s: %v, want a LoadError that says why", what, err)
	}
}

func guest(t *testing.T, ops string) []byte {
	t.Helper()
	wasm, err := os.ReadFile("../../../testdata/wat/minimal.wasm")
	if err != nil {
		t.Fatal(err)
	}
	// The vector imports a capability, which a provider may be granted and a
	// signer never is; here the loaders' own checks refuse it.
	wasm, err = manifest.Append(wasm, []byte(`{"name":"test","version":"1","abi":{"min":1,"max":1},"ops":`+ops+`,"capabilities":["cache"]}`))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func stubProviderLoader(t *testing.T) *providerLoader {
	t.Helper()
	c := &v1alpha1.HostConfiguration{Providers: []v1alpha1.Provider{{Name: "test"}}}
	v1alpha1.SetDefaults(c)
	secrets := credential.NewPinned(credential.NewWatchedSecrets(fake.NewClientset(), nil))
	n := &network{stop: func() {}, Network: client(t, &allowed{}).Network, secrets: secrets}
	n.retain()
	l := &providerLoader{loader: *stubLoader(), tasks: &tasks.Group{}, hosts: &hosts{
		client: fake.NewClientset(), allowed: &allowed{}, metrics: metrics.New().Provider("test"),
	}}
	terms, err := newTerms(t.Context(), stubEngine, &c.Providers[0], n)
	if err != nil {
		t.Fatal(err)
	}
	l.set(terms)
	return l
}

func stubEngine(string) (engine.Engine, error) { return stub{}, nil }

func stubLoader() *plugin.Loader {
	l := &plugin.Loader{
		Engine:  stub{},
		Limits:  plugin.Limits{MaxInstances: 1, MaxMemoryBytes: 1 << 20, MaxTableElements: 10, OpTimeout: time.Minute, LoadTimeout: time.Minute},
		NewHost: func(*manifest.Manifest) (engine.Host, io.Writer, io.Writer) { return nil, nil, nil },
	}
	l.Policy.Capabilities = abi.Capabilities()
	return l
}

// stub is an engine, a module and an instance with the mandatory answers of
// every guest.
type stub struct{}

func (stub) Name() string                { return "stub" }
func (stub) Close(context.Context) error { return nil }
func (stub) MemoryBytes() uint64         { return 0 }

func (stub) Compile(context.Context, []byte, engine.ModuleConfig) (engine.Module, error) {
	return stubModule{}, nil
}

type stubModule struct{ stub }

func (stubModule) Instantiate(context.Context) (engine.Instance, error) { return stubInstance{}, nil }

type stubInstance struct{ stub }

func (stubInstance) Call(_ context.Context, op abi.Op, _ []byte) (engine.Result, error) {
	var m abi.Message = &abi.ProbeResponse{Ready: true}
	switch op {
	case abi.OpDescribe:
		m = &abi.DescribeResponse{Name: "test", Version: "1", ProviderName: "test"}
	case abi.OpConfigure:
		m = &abi.ConfigureResponse{Accepted: true, HasClusterId: true}
	}
	data := make([]byte, m.SizeVT())
	_, err := m.MarshalToSizedBufferVT(data)
	return engine.Result{Response: data}, err
}
