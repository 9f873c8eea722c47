package check

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// The chart's name for the manager, its Lease, its ServiceAccount and its
// ConfigMap, and its label selector of Pods.
const (
	managerName = "cloud-controller-manager"
	nameLabel   = "app.kubernetes.io/name"
)

// cluster holds the objects read before the checks. Nil pods and leases were
// unreadable.
type cluster struct {
	// nodes are reduced to names, ages and specs.
	nodes      []corev1.Node
	nodeLeases []coordinationv1.Lease
	// leases with the name of the manager's Lease, in all namespaces.
	leases []coordinationv1.Lease
	// pods that have not ended, and belong to this manager or possibly another
	// one, or use a port that this manager needs.
	pods []corev1.Pod
	// workload is the installed one, nil if there is none or it is unreadable.
	workload *workload
	config   *corev1.ConfigMap
	// unread names the unreadable objects, about which no finding claims anything.
	unread map[string]bool
}

// workload is a DaemonSet or a Deployment, or a planned one.
type workload struct {
	kind string
	// replicas is the wanted number of Pods; 0 for a DaemonSet.
	replicas int32
	pod      corev1.PodTemplateSpec
	// counted: the controller has observed the current workload. Then wanted and made are
	// its numbers of Pods, and refused is its reason for missing Pods, if it has one.
	counted      bool
	wanted, made int32
	refused      string
}

func (w *workload) where() string { return strings.ToLower(w.kind) + " " + managerName }

// container of the manager.
func (w *workload) container() corev1.Container {
	for _, container := range w.pod.Spec.Containers {
		if container.Name == managerName {
			return container
		}
	}
	if len(w.pod.Spec.Containers) > 0 {
		return w.pod.Spec.Containers[0]
	}
	return corev1.Container{}
}

// The objects read before the checks, by their names in findings.
const (
	ofNodes      = "nodes"
	ofNodeLeases = "leases in " + corev1.NamespaceNodeLease
	ofLeases     = "leases " + managerName + " of all namespaces"
	ofPods       = "pods of all namespaces"
	daemonSetOf  = "daemonset "
	deploymentOf = "deployment "
)

// readable reports whether a read succeeded. A missing right is a finding.
func (c *checker) readable(what string, err error) bool {
	if err != nil && !apierrors.IsNotFound(err) {
		if c.seen.unread == nil {
			c.seen.unread = map[string]bool{}
		}
		c.seen.unread[what] = true
	}
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		c.unknown("MayNotRead", what, "not checked: you may not read it: "+err.Error())
	case !apierrors.IsNotFound(err):
		c.unknown("NotReadable", what, "not checked: "+err.Error())
	}
	return false
}

func (c *checker) read(ctx context.Context) {
	c.readWorkload(ctx)
	c.readNodes(ctx)
	c.readLeases(ctx)
	c.readPods(ctx)
	if config, err := c.client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, managerName, metav1.GetOptions{}); c.readable("configmap "+c.own(), err) {
		c.seen.config = config
	}
}

// readNodes keeps only the checked fields of each Node: its status names every
// image on the machine.
func (c *checker) readNodes(ctx context.Context) {
	var all []corev1.Node
	err := each(ctx, c.client.CoreV1().Nodes().List, metav1.ListOptions{}, func(n *corev1.Node) {
		all = append(all, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, CreationTimestamp: n.CreationTimestamp}, Spec: n.Spec})
	})
	if c.readable(ofNodes, err) {
		c.seen.nodes = all
	}
}

func (c *checker) readLeases(ctx context.Context) {
	leases := func(namespace string, o metav1.ListOptions) ([]coordinationv1.Lease, error) {
		all := []coordinationv1.Lease{}
		err := each(ctx, c.client.CoordinationV1().Leases(namespace).List, o, func(l *coordinationv1.Lease) {
			all = append(all, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace}, Spec: l.Spec})
		})
		return all, err
	}
	if all, err := leases(corev1.NamespaceNodeLease, metav1.ListOptions{}); c.readable(ofNodeLeases, err) {
		c.seen.nodeLeases = all
	}
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", managerName).String()}
	if all, err := leases(metav1.NamespaceAll, named); c.readable(ofLeases, err) {
		c.seen.leases = all
	}
}

// readPods keeps the few relevant Pods that have not ended.
func (c *checker) readPods(ctx context.Context) {
	all, wanted := []corev1.Pod{}, c.wantedPorts()
	running := metav1.ListOptions{FieldSelector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))).String()}
	err := each(ctx, c.client.CoreV1().Pods(metav1.NamespaceAll).List, running, func(pod *corev1.Pod) {
		if c.ours(pod) || isManager(pod) || takes(pod, wanted) != 0 {
			pod.ManagedFields = nil
			all = append(all, *pod)
		}
	})
	if c.readable(ofPods, err) {
		c.seen.pods = all
	}
}

func (c *checker) readWorkload(ctx context.Context) {
	if set, err := c.client.AppsV1().DaemonSets(c.Namespace).Get(ctx, managerName, metav1.GetOptions{}); c.readable(daemonSetOf+c.own(), err) {
		c.seen.workload = ofDaemonSet(set)
	}
	if set, err := c.client.AppsV1().Deployments(c.Namespace).Get(ctx, managerName, metav1.GetOptions{}); c.readable(deploymentOf+c.own(), err) {
		c.seen.workload = ofDeployment(set)
	}
}

func ofDaemonSet(set *appsv1.DaemonSet) *workload {
	s := &set.Status
	return &workload{kind: "DaemonSet", pod: set.Spec.Template,
		counted: s.ObservedGeneration > 0 && s.ObservedGeneration >= set.Generation, wanted: s.DesiredNumberScheduled, made: s.CurrentNumberScheduled}
}

func ofDeployment(set *appsv1.Deployment) *workload {
	w := &workload{kind: "Deployment", replicas: 1, pod: set.Spec.Template}
	if set.Spec.Replicas != nil {
		w.replicas = *set.Spec.Replicas
	}
	w.counted, w.wanted, w.made = set.Status.ObservedGeneration > 0 && set.Status.ObservedGeneration >= set.Generation, w.replicas, set.Status.Replicas
	for _, condition := range set.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			w.refused = condition.Message
		}
	}
	return w
}

// own is the manager's object of a kind: the chart gives all of them one name.
func (c *checker) own() string { return c.Namespace + "/" + managerName }

// ours reports whether a Pod belongs to this manager.
func (c *checker) ours(pod *corev1.Pod) bool {
	return pod.Namespace == c.Namespace && pod.Labels[nameLabel] == managerName
}

func (c *checker) ownPods() (own []corev1.Pod) {
	for i := range c.seen.pods {
		if c.ours(&c.seen.pods[i]) {
			own = append(own, c.seen.pods[i])
		}
	}
	return own
}

// target is the checked workload: the planned one, or else the installed.
func (c *checker) target() *workload {
	if c.plan.workload != nil {
		return c.plan.workload
	}
	return c.seen.workload
}

// installed reports whether an installation should work now.
func (c *checker) installed() bool { return c.seen.workload != nil || c.status != nil }

// flag is the value of a container's argument, as --name=value or --name value.
func flag(container corev1.Container, name string) (string, bool) {
	words := append(append([]string(nil), container.Command...), container.Args...)
	for i := len(words) - 1; i >= 0; i-- { // the last of several counts
		key, value, cut := strings.Cut(words[i], "=")
		if strings.TrimLeft(key, "-") != name || !strings.HasPrefix(key, "-") {
			continue
		}
		if !cut && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			return words[i+1], true
		}
		return value, true
	}
	return "", false
}

func podName(pod *corev1.Pod) string { return fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name) }
