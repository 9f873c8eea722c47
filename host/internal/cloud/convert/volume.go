package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// Volume returns the message of a PersistentVolume. References to Secrets are objects, not
// strings, and are left out.
func Volume(pv *corev1.PersistentVolume) (*abi.Volume, error) {
	out := &abi.Volume{
		Name:          pv.Name,
		Uid:           string(pv.UID),
		Labels:        maps.Clone(pv.Labels),
		Annotations:   maps.Clone(pv.Annotations),
		StorageClass:  pv.Spec.StorageClassName,
		CapacityBytes: pv.Spec.Capacity.Storage().Value(),
		NodeNames:     affinityNodeNames(pv.Spec.NodeAffinity),
	}
	if csi := pv.Spec.CSI; csi != nil {
		out.Source, out.Driver, out.VolumeId = "csi", csi.Driver, csi.VolumeHandle
		out.Attributes = maps.Clone(csi.VolumeAttributes)
		return out, nil
	}
	source, fields, err := sourceFields(&pv.Spec.PersistentVolumeSource)
	if err != nil {
		return nil, err
	}
	out.Source, out.Attributes = source, fields
	out.VolumeId = fields[volumeIDField(source)]
	return out, nil
}

// sourceFields goes through JSON, so that the names are the API's documented ones and a
// source of a later API needs no code.
func sourceFields(source *corev1.PersistentVolumeSource) (name string, fields map[string]string, err error) {
	encoded, err := json.Marshal(source)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the volume source: %w", err)
	}
	var members map[string]map[string]any
	if err := json.Unmarshal(encoded, &members); err != nil {
		return "", nil, fmt.Errorf("decoding the volume source: %w", err)
	}
	// The API server allows one member. With several, the choice must be stable.
	names := slices.Sorted(maps.Keys(members))
	if len(names) == 0 {
		return "", nil, nil
	}
	for key, member := range members[names[0]] {
		if text, ok := member.(string); ok {
			if fields == nil {
				fields = map[string]string{}
			}
			fields[key] = text
		}
	}
	return names[0], fields, nil
}

// volumeIDField names the field of a source that identifies the volume in its storage
// system, or is empty.
func volumeIDField(source string) string {
	switch source {
	case "gcePersistentDisk":
		return "pdName"
	case "awsElasticBlockStore", "cinder", "portworxVolume":
		return "volumeID"
	case "azureDisk":
		return "diskURI"
	case "azureFile":
		return "shareName"
	case "vsphereVolume":
		return "volumePath"
	case "photonPersistentDisk":
		return "pdID"
	case "rbd":
		return "image"
	case "quobyte":
		return "volume"
	case "scaleIO", "storageos":
		return "volumeName"
	case "flocker":
		return "datasetUUID"
	case "nfs", "glusterfs", "cephfs", "local", "hostPath":
		return "path"
	}
	return "" // iscsi and fc identify a unit by several fields, flexVolume by none
}

// affinityNodeNames returns the nodes that the affinity requires by name. Terms are
// alternatives: one without a node name makes all names optional.
func affinityNodeNames(affinity *corev1.VolumeNodeAffinity) []string {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	var names []string
	for _, term := range affinity.Required.NodeSelectorTerms {
		ofTerm := termNodeNames(term)
		if len(ofTerm) == 0 {
			return nil
		}
		names = append(names, ofTerm...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func termNodeNames(term corev1.NodeSelectorTerm) []string {
	var names []string
	for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
		if e.Operator == corev1.NodeSelectorOpIn && (e.Key == corev1.LabelHostname || e.Key == "metadata.name") {
			names = append(names, e.Values...)
		}
	}
	return names
}

// CloudVolumeLabels checks a guest's labels of a volume and returns a copy; never nil
// without an error.
func CloudVolumeLabels(labels map[string]string) (map[string]string, error) {
	if err := checkLabels(labels); err != nil {
		return nil, err
	}
	out := make(map[string]string, len(labels))
	maps.Copy(out, labels)
	return out, nil
}
