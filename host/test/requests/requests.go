// Package requests has requests of ops as the manager sends them, for tests:
// package convert makes them from real objects (testdata/objects). Messages that
// a test writes itself would have a name and little else; the package's test
// finds those.
package requests

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// The objects are read once: some tests make thousands of requests.
var (
	node    = sync.OnceValue(func() *corev1.Node { return objects.Nodes(fatal{})["gke-like.yaml"] })
	service = sync.OnceValue(func() *corev1.Service { return objects.Services(fatal{})["ingress-nginx.yaml"] })
	volume  = sync.OnceValue(func() *corev1.PersistentVolume { return objects.Volumes(fatal{})["csi-provisioned.yaml"] })
)

// Instance asks about a member of a node pool, under that name. The functions
// change the Node before the conversion.
func Instance(name string, change ...func(*corev1.Node)) *abi.InstanceRequest {
	n := node().DeepCopy()
	n.Name, n.UID, n.Spec.ProviderID = name, uid("Node", name), "cloud://"+name
	n.Labels[corev1.LabelHostname] = name
	n.Status.NodeInfo.SystemUUID = string(uid("system", name))
	n.Status.NodeInfo.MachineID = string(uid("machine", name))
	for _, f := range change {
		f(n)
	}
	return &abi.InstanceRequest{Node: convert.Node(n)}
}

// LoadBalancer asks about the ingress controller of a Helm chart, under that
// name. The functions change the Service before the conversion.
func LoadBalancer(namespace, name string, change ...func(*corev1.Service)) *abi.LoadBalancerRequest {
	s := service().DeepCopy()
	s.Namespace, s.Name, s.UID = namespace, name, uid("Service", namespace+"/"+name)
	for _, f := range change {
		f(s)
	}
	return &abi.LoadBalancerRequest{ClusterName: "kubernetes", Service: convert.Service(s)}
}

// VolumeLabels asks about a PersistentVolume of a CSI driver, under that name.
func VolumeLabels(name string) *abi.VolumeLabelsRequest {
	pv := volume().DeepCopy()
	pv.Name, pv.UID = name, uid("PersistentVolume", name)
	converted, err := convert.Volume(pv)
	if err != nil {
		panic(err) // the corpus is part of the program
	}
	return &abi.VolumeLabelsRequest{Volume: converted}
}

// uid is one of an object's own, which stays.
func uid(kind, name string) types.UID {
	sum := sha256.Sum256([]byte(kind + " " + name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// fatal ends the program: the corpus is part of it.
type fatal struct{ testing.TB }

func (fatal) Helper() {}

func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
