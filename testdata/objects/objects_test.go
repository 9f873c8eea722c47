package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// TestTheyHaveWhatRealOnesHave keeps the corpus from becoming simple again.
func TestTheyHaveWhatRealOnesHave(t *testing.T) {
	has := map[string]bool{}
	uids := map[string]string{}
	for name, s := range Services(t) {
		if s.Kind != "Service" || s.Name == "" || s.Namespace == "" || len(s.Labels) == 0 {
			t.Errorf("%s is %s %s/%s with %d labels", name, s.Kind, s.Namespace, s.Name, len(s.Labels))
		}
		if other := uids[string(s.UID)]; other != "" {
			t.Errorf("%s and %s have one UID", name, other)
		}
		uids[string(s.UID)] = name
		has["several labels"] = has["several labels"] || len(s.Labels) >= 5
		has["several annotations"] = has["several annotations"] || len(s.Annotations) >= 3
		has["managed fields"] = has["managed fields"] || len(s.ManagedFields) > 1
		has["an owner"] = has["an owner"] || len(s.OwnerReferences) > 0
		has["two families"] = has["two families"] || len(s.Spec.IPFamilies) == 2
		has["several ports"] = has["several ports"] || len(s.Spec.Ports) >= 3
		has["a status"] = has["a status"] || len(s.Status.LoadBalancer.Ingress) > 0
		has["a deletion"] = has["a deletion"] || s.DeletionTimestamp != nil
		has["a class"] = has["a class"] || s.Spec.LoadBalancerClass != nil
		for _, p := range s.Spec.Ports {
			has["a protocol of the application"] = has["a protocol of the application"] || p.AppProtocol != nil
			has["UDP"] = has["UDP"] || p.Protocol == corev1.ProtocolUDP
		}
	}
	for name, n := range Nodes(t) {
		if n.Kind != "Node" || n.Name == "" || len(n.Labels) < 5 || len(n.Annotations) < 3 || len(n.Status.Addresses) == 0 {
			t.Errorf("%s is %s %s with %d labels, %d annotations, %d addresses", name, n.Kind, n.Name, len(n.Labels), len(n.Annotations), len(n.Status.Addresses))
		}
		has["two pod networks"] = has["two pod networks"] || len(n.Spec.PodCIDRs) == 2
		has["a Node that is deleted"] = has["a Node that is deleted"] || n.DeletionTimestamp != nil
		for _, taint := range n.Spec.Taints {
			has["taint "+taint.Key] = true
		}
	}
	for name, v := range Volumes(t) {
		if v.Kind != "PersistentVolume" || v.Name == "" || len(v.Labels) == 0 || len(v.Annotations) == 0 || len(v.Finalizers) == 0 || v.Spec.NodeAffinity == nil {
			t.Errorf("%s is %s %s with %d labels, %d annotations", name, v.Kind, v.Name, len(v.Labels), len(v.Annotations))
		}
		has["a volume of a CSI driver"] = has["a volume of a CSI driver"] || v.Spec.CSI != nil
		has["a disk of one machine"] = has["a disk of one machine"] || v.Spec.Local != nil
	}
	for _, what := range []string{
		"several labels", "several annotations", "managed fields", "an owner", "two families", "several ports", "a status", "a deletion",
		"a class", "a protocol of the application", "UDP", "two pod networks", "a Node that is deleted", "a volume of a CSI driver", "a disk of one machine",
		"taint " + cloudproviderapi.TaintExternalCloudProvider, "taint ToBeDeletedByClusterAutoscaler", "taint node.kubernetes.io/unreachable",
	} {
		if !has[what] {
			t.Errorf("no object has %s", what)
		}
	}
}

func TestNewObjectsHaveNothingOfAnAPIServer(t *testing.T) {
	for name, s := range Services(t) {
		n := NewService(s, "here")
		if n.UID != "" || n.ResourceVersion != "" || n.ManagedFields != nil || n.Spec.ClusterIP != "" || n.Namespace != "here" || len(n.Labels) != len(s.Labels) {
			t.Errorf("%s: %+v", name, n.ObjectMeta)
		}
		for i := range n.Spec.Ports {
			if n.Spec.Ports[i].NodePort != 0 || n.Spec.Ports[i].Name != s.Spec.Ports[i].Name {
				t.Errorf("%s: port %+v", name, n.Spec.Ports[i])
			}
		}
	}
}
