package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	serviceName = "web"
	volumeName  = "data"
	// nodeLimit is the time for one object to become ready.
	nodeLimit = 30 * time.Second
)

// node is a machine of the show.
type node struct{ name, podCIDR string }

func (st *stage) nodes() []node {
	return []node{
		{st.name("node-1"), "10.244.1.0/24"},
		{st.name("node-2"), "10.244.2.0/24"},
		{st.name("node-3"), "10.244.3.0/24"},
	}
}

// registerNodes does what a kubelet with --cloud-provider=external does.
func (st *stage) registerNodes(ctx context.Context) error {
	const step = "three Nodes register, tainted until the cloud provider knows them"
	st.show.step("%s", step)
	var expected []expectation
	for _, n := range st.nodes() {
		object := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name}},
			Spec: corev1.NodeSpec{PodCIDR: n.podCIDR, PodCIDRs: []string{n.podCIDR}, Taints: []corev1.Taint{
				{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: "Demo", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}},
		}
		if _, err := st.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Node %s: %w", n.name, err)
		}
		st.show.fact("node "+n.name, "registered with taint "+cloudproviderapi.TaintExternalCloudProvider)
		expected = append(expected, st.nodeFacts(n.name)...)
	}
	return st.show.expect(ctx, step, nodeLimit, expected)
}

// nodeFacts expects what the cloud-node controller does.
func (st *stage) nodeFacts(name string) []expectation {
	on := func(waiting string, look func(*corev1.Node) string) expectation {
		return expectation{subject: "node " + name, waiting: waiting, look: func(ctx context.Context) (string, error) {
			n, err := st.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return look(n), nil
		}}
	}
	return []expectation{
		on("providerID is set", func(n *corev1.Node) string { return prefixed("providerID ", n.Spec.ProviderID) }),
		on("addresses are set", func(n *corev1.Node) string { return prefixed("addresses ", addresses(n)) }),
		on("zone, region and type labels are set", placement),
		on("the taint is gone", func(n *corev1.Node) string {
			for _, t := range n.Spec.Taints {
				if t.Key == cloudproviderapi.TaintExternalCloudProvider {
					return ""
				}
			}
			return "taint gone: ready for Pods"
		}),
	}
}

func addresses(n *corev1.Node) string {
	var all []string
	for _, a := range n.Status.Addresses {
		all = append(all, string(a.Type)+"="+a.Address)
	}
	return strings.Join(all, " ")
}

func placement(n *corev1.Node) string {
	zone, region, kind := n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelInstanceTypeStable]
	if zone == "" || region == "" || kind == "" {
		return ""
	}
	return fmt.Sprintf("labels zone=%s region=%s instance-type=%s", zone, region, kind)
}

// prefixed returns "" for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// createService asks for a load balancer.
func (st *stage) createService(ctx context.Context) error {
	const step = "a Service asks for a load balancer"
	st.show.step("%s", step)
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: serviceName}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	services := st.client.CoreV1().Services(st.namespace)
	if _, err := services.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Service %s: %w", serviceName, err)
	}
	return st.show.expect(ctx, step, nodeLimit, []expectation{{
		subject: "service " + serviceName, waiting: "a load balancer address is in the status",
		look: func(ctx context.Context) (string, error) {
			s, err := services.Get(ctx, serviceName, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return prefixed("load balancer ", ingress(s)), nil
		},
	}})
}

func ingress(s *corev1.Service) string {
	var all []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		all = append(all, i.IP+i.Hostname)
	}
	return strings.Join(all, " ")
}

// createVolume makes a volume that says nothing of where it is.
func (st *stage) createVolume(ctx context.Context) error {
	const step = "a PersistentVolume is found a place"
	st.show.step("%s", step)
	object := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: st.name(volumeName)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "demo.csi.example.com", VolumeHandle: "rack-b/data"}},
		},
	}
	volumes := st.client.CoreV1().PersistentVolumes()
	if _, err := volumes.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create PersistentVolume %s: %w", object.Name, err)
	}
	on := func(waiting string, look func(*corev1.PersistentVolume) string) expectation {
		return expectation{subject: "volume " + object.Name, waiting: waiting, look: func(ctx context.Context) (string, error) {
			v, err := volumes.Get(ctx, object.Name, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return look(v), nil
		}}
	}
	return st.show.expect(ctx, step, nodeLimit, []expectation{
		on("zone and region labels are set", func(v *corev1.PersistentVolume) string {
			zone, region := v.Labels[corev1.LabelTopologyZone], v.Labels[corev1.LabelTopologyRegion]
			if zone == "" || region == "" {
				return ""
			}
			return "labels zone=" + zone + " region=" + region
		}),
		on("node affinity is set", affinity),
	})
}

// affinity tells the node affinity of a volume, or "".
func affinity(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return ""
	}
	var all []string
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			all = append(all, fmt.Sprintf("%s %s %v", e.Key, e.Operator, e.Values))
		}
	}
	return prefixed("node affinity ", strings.Join(all, ", "))
}

// awaitRoutes waits for the route controller, which is off in an existing
// cluster.
func (st *stage) awaitRoutes(ctx context.Context) error {
	if st.cluster == nil {
		return nil
	}
	const step = "the Nodes' pod networks get their routes"
	st.show.step("%s", step)
	var expected []expectation
	for _, n := range st.nodes() {
		expected = append(expected, expectation{
			subject: "node " + n.name, waiting: "the condition NetworkUnavailable is False",
			look: func(ctx context.Context) (string, error) {
				object, err := st.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				for _, c := range object.Status.Conditions {
					if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse {
						return "route to " + n.podCIDR + ": " + c.Message, nil
					}
				}
				return "", nil
			},
		})
	}
	return st.show.expect(ctx, step, nodeLimit, expected)
}

// serviceState is what a replacement of the guest must not change.
type serviceState struct {
	address, resourceVersion string
	// ensured is how often the provider was asked to ensure a load balancer.
	ensured float64
}

func (st *stage) serviceState(ctx context.Context) (serviceState, error) {
	s, err := st.client.CoreV1().Services(st.namespace).Get(ctx, serviceName, metav1.GetOptions{})
	if err != nil {
		return serviceState{}, err
	}
	ensured, err := st.sum(ctx, "wasm_ccm_provider_op_duration_seconds_count", "lb_ensure")
	return serviceState{address: ingress(s), resourceVersion: s.ResourceVersion, ensured: ensured}, err
}

// sum adds up the lines of the counter that are of the op.
func (st *stage) sum(ctx context.Context, counter, op string) (float64, error) {
	lines, err := st.manager.metrics(ctx, st.config, counter+"{")
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, line := range lines {
		if !strings.Contains(line, `op="`+op+`"`) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum += n
	}
	return sum, nil
}
