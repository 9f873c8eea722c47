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

// What the chart calls the manager, its Lease, its ServiceAccount and its ConfigMap,
// and by what it selects its Pods.
const (
	managerName = "cloud-controller-manager"
	nameLabel   = "app.kubernetes.io/name"
)

// cluster is what was read before the checks. Nil pods and
// leases were not readable.
type cluster struct {
	nodes      []corev1.Node
	nodeLeases []coordinationv1.Lease
	// leases are those of the name of the manager's, in all namespaces.
	leases []coordinationv1.Lease
	pods   []corev1.Pod
	// workload is the installed one, nil if there is none or it is not readable.
	workload *workload
	config   *corev1.ConfigMap
	// unread are what could not be read, so that nothing is said of it.
	unread map[string]bool
}

// workload is a DaemonSet or a Deployment, or a planned one.
type workload struct {
	kind string
	// replicas is how many Pods there are to be; of a DaemonSet 0.
	replicas int32
	pod      corev1.PodTemplateSpec
}

func (w *workload) where() string { return strings.ToLower(w.kind) + " " + managerName }

// container is the manager's.
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

// What is read before the checks, by the name that findings give it.
const (
	ofNodes      = "nodes"
	ofNodeLeases = "leases in " + corev1.NamespaceNodeLease
	ofLeases     = "leases " + managerName + " of all namespaces"
	ofPods       = "pods of all namespaces"
	daemonSetOf  = "daemonset "
	deploymentOf = "deployment "
)

// readable says whether something was read. A missing right is a finding.
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
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", managerName).String()}
	if list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); c.readable(ofNodes, err) {
		c.seen.nodes = list.Items
	}
	if list, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{}); c.readable(ofNodeLeases, err) {
		c.seen.nodeLeases = list.Items
	}
	if list, err := c.client.CoordinationV1().Leases("").List(ctx, named); c.readable(ofLeases, err) {
		c.seen.leases = append([]coordinationv1.Lease{}, list.Items...)
	}
	if list, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); c.readable(ofPods, err) {
		c.seen.pods = append([]corev1.Pod{}, list.Items...)
	}
	if config, err := c.client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, managerName, metav1.GetOptions{}); c.readable("configmap "+c.own(), err) {
		c.seen.config = config
	}
	c.readWorkload(ctx)
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
	return &workload{kind: "DaemonSet", pod: set.Spec.Template}
}

func ofDeployment(set *appsv1.Deployment) *workload {
	w := &workload{kind: "Deployment", replicas: 1, pod: set.Spec.Template}
	if set.Spec.Replicas != nil {
		w.replicas = *set.Spec.Replicas
	}
	return w
}

// own is the manager's object of a kind: the chart gives all of them its name.
func (c *checker) own() string { return c.Namespace + "/" + managerName }

// ours says whether a Pod is one of this manager.
func (c *checker) ours(pod *corev1.Pod) bool {
	return pod.Namespace == c.Namespace && pod.Labels[nameLabel] == managerName
}

// target is the workload that is checked: the planned one, or else the installed.
func (c *checker) target() *workload {
	if c.plan.workload != nil {
		return c.plan.workload
	}
	return c.seen.workload
}

// installed says whether there is an installation that is to work now.
func (c *checker) installed() bool { return c.seen.workload != nil || c.status != nil }

// flag is the value of a container's argument, as --name=value or --name value.
func flag(container corev1.Container, name string) (string, bool) {
	words := append(append([]string(nil), container.Command...), container.Args...)
	for i := len(words) - 1; i >= 0; i-- { // of two the last counts
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
