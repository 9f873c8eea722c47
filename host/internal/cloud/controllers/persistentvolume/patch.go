package persistentvolume

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelpers "k8s.io/cloud-provider/volume/helpers"
)

// patch is a JSON merge patch of a PersistentVolume. The resourceVersion makes it fail after
// any other write since the read.
type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Spec     *patchSpec    `json:"spec,omitempty"`
}

type patchMetadata struct {
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels,omitempty"`
}

type patchSpec struct {
	NodeAffinity *corev1.VolumeNodeAffinity `json:"nodeAffinity"`
}

// patchFor returns what the answer adds to the volume, or nil for nothing. An existing label
// stays, and so does a node affinity, which the API server would not let us change.
func patchFor(pv *corev1.PersistentVolume, answer map[string]string) ([]byte, error) {
	p := patch{Metadata: patchMetadata{UID: pv.UID, ResourceVersion: pv.ResourceVersion, Labels: missing(pv.Labels, answer)}}
	if pv.Spec.NodeAffinity == nil {
		affinity, err := affinity(answer)
		if err != nil {
			return nil, err
		}
		if affinity != nil {
			p.Spec = &patchSpec{NodeAffinity: affinity}
		}
	}
	if len(p.Metadata.Labels) == 0 && p.Spec == nil {
		return nil, nil
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return encoded, nil
}

func missing(present, answer map[string]string) map[string]string {
	out := maps.Clone(answer)
	maps.DeleteFunc(out, func(key, _ string) bool {
		_, ok := present[key]
		return ok
	})
	return out
}

// affinity requires the answer's zone and region; nil without both. Other labels stay
// labels: Nodes need not have them.
func affinity(answer map[string]string) (*corev1.VolumeNodeAffinity, error) {
	var requirements []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(answer)) {
		values, err := topologyValues(key, answer[key])
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			requirements = append(requirements, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
	}
	if len(requirements) == 0 {
		return nil, nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}},
	}}, nil
}

// topologyValues returns the allowed values of a Node's label, or none for a label other
// than zone and region. A volume's several zones are written "a__b".
func topologyValues(key, value string) ([]string, error) {
	switch key {
	case corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone:
		zones, err := volumehelpers.LabelZonesToSet(value)
		if err != nil {
			return nil, fmt.Errorf("label %s: %w", key, err)
		}
		return zones.List(), nil
	case corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion:
		if value == "" {
			return nil, fmt.Errorf("label %s is empty", key)
		}
		return []string{value}, nil
	}
	return nil, nil
}
