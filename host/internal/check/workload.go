package check

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// workload checks the manager's DaemonSet or Deployment.
func (c *checker) workload(ctx context.Context) {
	w := c.target()
	if w == nil {
		c.notInstalled()
		return
	}
	c.section("Workload", w.where(), "by its template, its Pods start on new Nodes and elect a leader", func() {
		c.tolerations(w)
		c.election(w)
		c.network(w)
		c.priority(ctx, w)
	})
}

func (c *checker) notInstalled() {
	if !c.bare() {
		return
	}
	evidence := ""
	if led := c.elsewhere(); len(led) > 0 {
		evidence = "a manager leads by the Lease of namespace " + led[0].Namespace
	}
	c.tell(report.NotInstalled, "namespace "+c.Namespace, evidence)
}

// bare reports whether no manager is installed, planned, or answers.
func (c *checker) bare() bool {
	return c.target() == nil && c.plan.configuration == nil && c.status == nil && !c.seen.unread[daemonSetOf+c.own()] && !c.seen.unread[deploymentOf+c.own()]
}

// tolerations that the manager needs to start on the nodes that wait for it.
func (c *checker) tolerations(w *workload) {
	for _, taint := range []corev1.Taint{
		{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
	} {
		if !slices.ContainsFunc(w.pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			c.tell(report.TolerationMissing, w.where(), fmt.Sprintf("%s:%s", taint.Key, taint.Effect))
		}
	}
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	return (t.Key == "" && t.Operator == corev1.TolerationOpExists || t.Key == taint.Key) &&
		(t.Effect == "" || t.Effect == taint.Effect) && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
}

func (c *checker) election(w *workload) {
	elects, set := flag(w.container(), "leader-elect")
	several := w.replicas > 1 || w.kind == "DaemonSet" && len(c.seen.nodes) > 1
	if set && elects == "false" && several {
		c.tell(report.NoLeaderElection, w.where(), "")
	}
	if port, set := flag(w.container(), "secure-port"); set && port == "0" {
		c.tell(report.SecurePortOff, w.where(), "")
	}
	if w.kind == "Deployment" && w.replicas == 0 && (w != c.seen.workload || c.seen.pods == nil) { // else counts says so
		c.noReplicas(w)
	}
}

func (c *checker) noReplicas(w *workload) {
	c.tell(report.NoReplicas, w.where(), "")
}

// network looks whether the manager works before there is a pod network.
func (c *checker) network(w *workload) {
	spec := w.pod.Spec
	switch {
	case !spec.HostNetwork:
		c.tell(report.NoHostNetwork, w.where(), "")
	case spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet:
		c.tell(report.ClusterDNS, w.where(), "")
	}
}

func (c *checker) priority(ctx context.Context, w *workload) {
	name := w.pod.Spec.PriorityClassName
	if name == "" {
		c.tell(report.NoPriorityClass, w.where(), "")
		return
	}
	_, err := c.client.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !c.plan.has("PriorityClass", "", name) {
		c.tell(report.PriorityClassMissing, "priorityclass "+name, "")
		return
	}
	c.readable("priorityclass "+name, err)
}

// pods reports why Pods of the manager do not run.
func (c *checker) pods(ctx context.Context) {
	if c.seen.workload == nil || c.seen.pods == nil {
		return
	}
	own := c.ownPods()
	good := fmt.Sprintf("the manager's %d Pods are ready", len(own))
	if begin := len(slices.DeleteFunc(slices.Clone(own), readyPod)); begin > 0 {
		good = fmt.Sprintf("%d of the manager's %d Pods are not ready yet, for less than %v", begin, len(own), c.Patience)
	}
	c.section("Pods", "namespace "+c.Namespace, good, func() {
		c.counts(ctx, len(own))
		for i := range own {
			c.pod(ctx, &own[i])
		}
	})
}

func readyPod(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue
	})
}

func (c *checker) pod(ctx context.Context, pod *corev1.Pod) {
	reason, evidence := fault(pod)
	if reason == "" && preparing(pod) {
		if evidence = c.warned(ctx, pod); evidence != "" {
			reason = report.PodNotStarted
		}
	}
	if reason != "" {
		c.tell(reason, podName(pod), evidence)
		return
	}
	for _, condition := range pod.Status.Conditions {
		long := c.dates.now().Sub(condition.LastTransitionTime.Time) > c.Patience
		switch {
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue && len(pod.Status.ContainerStatuses) == 0 && long:
			c.tell(report.PodNotStarted, podName(pod), "the kubelet of node "+pod.Spec.NodeName+" says nothing of it")
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
			c.tell(report.PodNotScheduled, podName(pod), condition.Message)
		case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && long:
			c.tell(unready(pod), podName(pod), condition.Message)
		}
	}
}

// unready is why a Pod is not ready.
func unready(pod *corev1.Pod) (reason string) {
	if preparing(pod) {
		return report.PodNotStarted
	}
	return report.PodNotReady
}

// ports looks for foreign Pods on host ports that the manager needs.
func (c *checker) ports(context.Context) {
	wanted := c.wantedPorts()
	if wanted == nil {
		return
	}
	c.section("Ports", c.target().where(), "no other Pod has the manager's ports of the host", func() {
		for i := range c.seen.pods {
			pod := &c.seen.pods[i]
			if port := takes(pod, wanted); port != 0 && !c.ours(pod) {
				c.tell(report.PortTaken, podName(pod), fmt.Sprintf("port %d of node %s", port, pod.Spec.NodeName))
			}
		}
	}, ofPods)
}

// wantedPorts are the host ports that the manager needs; nil if none.
func (c *checker) wantedPorts() map[int32]bool {
	w := c.target()
	if w == nil || !w.pod.Spec.HostNetwork {
		return nil
	}
	return hostPorts(w.pod.Spec)
}

// takes is the first of these ports that a Pod occupies on its host, or 0.
func takes(pod *corev1.Pod, wanted map[int32]bool) int32 {
	if len(wanted) == 0 {
		return 0
	}
	for _, port := range slices.Sorted(maps.Keys(hostPorts(pod.Spec))) {
		if wanted[port] {
			return port
		}
	}
	return 0
}

// hostPorts are the host ports that a Pod declares.
func hostPorts(spec corev1.PodSpec) map[int32]bool {
	ports := map[int32]bool{}
	for _, container := range spec.Containers {
		for _, port := range container.Ports {
			if spec.HostNetwork {
				ports[port.ContainerPort] = true
			} else if port.HostPort != 0 {
				ports[port.HostPort] = true
			}
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if spec.HostNetwork && probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port.IntVal != 0 {
				ports[probe.HTTPGet.Port.IntVal] = true
			}
		}
		if value, set := flag(container, "secure-port"); set && spec.HostNetwork {
			var port int32
			if _, err := fmt.Sscan(value, &port); err == nil && port != 0 {
				ports[port] = true
			}
		}
	}
	return ports
}
