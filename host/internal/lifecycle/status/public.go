package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Public is the status of a provider as the manager's API has it. The API, the metrics,
// explanations and CloudProviders are made from it, and nothing else translates. What
// only a running manager knows is left out.
func (s *Status) Public(provider string) v1alpha1.Provider {
	return v1alpha1.Provider{
		Name: provider, Phase: s.Phase, Reason: s.Reason, Message: s.Message, Since: metav1.NewTime(s.Since),
		Generation: s.Generation, Paused: s.Paused, Conditions: s.Conditions,
		Serving: s.Serving.public(), Offered: s.Offered.public(), Candidate: s.Candidate.public(), Good: s.Good.public(),
	}
}

func (v *Version) public() *v1alpha1.Module {
	if v == nil {
		return nil
	}
	return &v1alpha1.Module{Name: v.Name, Version: v.Version, Digest: v.Digest, ConfigDigest: v.ConfigDigest, ImageDigest: v.Image, Engine: v.Engine}
}
