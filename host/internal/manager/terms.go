package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/provenance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
)

// terms are the settings with which a generation is loaded.
type terms struct {
	config     *v1alpha1.Provider
	engine     engine.Engine
	network    *network
	provenance *provenance.Policy
	addresses  *addresses.Policy
	revision   string
}

// secretsTimeout bounds the wait for Secrets. They are there, or known to be
// missing, as soon as the API server has answered.
const secretsTimeout = 10 * time.Second

func newTerms(ctx context.Context, engines func(name string) (engine.Engine, error), p *v1alpha1.Provider, n *network) (terms, error) {
	e, err := engines(p.Engine)
	if err != nil {
		return terms{}, fmt.Errorf("provider %s: engine: %w", p.Name, err)
	}
	policy, err := policyOf(p.Provenance)
	if err != nil {
		return terms{}, fmt.Errorf("provider %s: provenance: %w", p.Name, err)
	}
	lists, err := addresses.New(p.Addresses.Allow, p.Addresses.Deny)
	if err != nil {
		return terms{}, fmt.Errorf("provider %s: addresses.%w", p.Name, err)
	}
	revision, err := revisionOf(p)
	if err != nil {
		return terms{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, secretsTimeout)
	defer cancel()
	revision += "." + n.secrets.Version(ctx)
	return terms{config: p, engine: e, network: n, provenance: policy, addresses: lists, revision: rollout.Terms(revision, e.Name())}, nil
}

func policyOf(p v1alpha1.Provenance) (*provenance.Policy, error) {
	policy, err := provenance.New(p.Digests, p.PublicKeys)
	if err != nil {
		return nil, err
	}
	return policy.Demand(p.Repository, p.MinimumVersion)
}

// sameRights reports whether two configurations give a guest access to the same data.
func sameRights(a, b *v1alpha1.Provider) bool {
	rights := func(p *v1alpha1.Provider) v1alpha1.Provider {
		return v1alpha1.Provider{Capabilities: p.Capabilities, Grants: p.Grants, Credentials: p.Credentials, Kube: p.Kube}
	}
	return equality.Semantic.DeepEqual(rights(a), rights(b))
}

// revisionOf identifies the part of a provider's configuration that matters to
// a generation.
func revisionOf(p *v1alpha1.Provider) (string, error) {
	c := *p
	c.Rollout, c.Routing, c.Source, c.ConfigFrom = v1alpha1.Rollout{}, v1alpha1.Routing{}, v1alpha1.Source{}, nil
	c.Addresses = v1alpha1.Addresses{} // in force at once, without a new generation
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("provider %s: %w", p.Name, err)
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:6]), nil
}

// longestOp is the time limit of the longest op.
func longestOp(p *v1alpha1.Provider) time.Duration {
	longest := p.Ops.Timeout.Duration
	for _, timeout := range p.Ops.Timeouts {
		longest = max(longest, timeout.Duration)
	}
	return longest
}

// rolloutPolicy converts the configuration of rollouts.
func rolloutPolicy(r v1alpha1.Rollout) rollout.Policy {
	return rollout.Policy{
		Modes:         rollout.Modes{Probe: rollout.Mode(r.Probe), Shadow: rollout.Mode(r.Shadow), Observe: rollout.Mode(r.Observe)},
		ObservePeriod: r.ObservePeriod.Duration,
		Budget:        rollout.Budget{Failures: *r.ErrorBudget.Failures, Percent: *r.ErrorBudget.Percent},
	}
}
