package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// bundleCluster reads a bundle's objects from the API server, with the user's rights.
type bundleCluster struct {
	*bundle
	config    *restclient.Config
	client    kubernetes.Interface
	namespace string
	lines     int64
	written   []byte // config.yaml
}

// partTimeout bounds each part: a kubelet that hangs has no logs. checkTimeout
// is for the part that reads everything.
const (
	partTimeout  = 20 * time.Second
	checkTimeout = time.Minute
)

// Bounds of lists.
const (
	maxListed = 500
	maxPages  = 20
	maxPods   = 10
	maxEvents = 1000
)

func (c *bundleCluster) collect(ctx context.Context) {
	for _, part := range []struct {
		what string
		read func(context.Context) error
	}{
		// First, since they name the Secrets.
		{"configuration.json, cloudproviders.json", c.configuration},
		{"versions.json", c.versions},
		{"lease.json", c.lease},
		{"providers.json", c.providers},
		{"workloads.json", c.workloads},
		{"pods.json", c.pods},
		{"nodes.json", c.nodes},
		{"services.json", c.services},
		{"events.json", c.events},
	} {
		c.part(ctx, partTimeout, part.what, part.read)
	}
}

func (c *bundleCluster) versions(context.Context) error {
	server, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	return c.show("versions.json", map[string]string{"ccmctl": version.Release(), "kubernetes": server.GitVersion})
}

func (c *bundleCluster) lease(ctx context.Context) error {
	found, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, managerName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return c.show("lease.json", found.Spec)
}

// providers reads the statuses that outlive a manager.
func (c *bundleCluster) providers(ctx context.Context) error {
	list, err := c.client.CoreV1().ConfigMaps(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: status.LabelProvider, Limit: maxListed})
	if err != nil {
		return err
	}
	var all []any
	for i := range list.Items {
		object := map[string]any{"metadata": list.Items[i].ObjectMeta}
		var written status.Status
		if yaml.Unmarshal([]byte(list.Items[i].Data["status"]), &written) == nil { // an unreadable status is left out
			object["status"] = written
		}
		all = append(all, object)
	}
	c.cut("providers.json", "ConfigMaps of providers", list.Continue)
	return c.show("providers.json", all)
}

// cut notes that a list has more objects.
func (c *bundleCluster) cut(file, of, more string) {
	if more != "" {
		c.miss(file, own("there are more than %d %s", maxListed, of))
	}
}

// workloads are the objects that the chart made of its values: the release's
// Secret has all values, and is never read.
func (c *bundleCluster) workloads(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: maxPods}
	sets, err := c.client.AppsV1().DaemonSets(c.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	deployments, err := c.client.AppsV1().Deployments(c.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	var all []any
	for i := range sets.Items {
		sets.Items[i].Kind = "DaemonSet"
		all = append(all, &sets.Items[i])
	}
	for i := range deployments.Items {
		deployments.Items[i].Kind = "Deployment"
		all = append(all, &deployments.Items[i])
	}
	return c.show("workloads.json", all)
}

func (c *bundleCluster) pods(ctx context.Context) error {
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return own("namespace %s has no Pods %s, and so no logs of them", c.namespace, selector)
	}
	if list.Continue != "" {
		c.miss("pods.json", own("there are more than %d Pods", maxPods))
	}
	if c.asked.logs {
		for i := range list.Items {
			c.logs(ctx, &list.Items[i])
		}
	}
	return c.show("pods.json", list.Items)
}

func (c *bundleCluster) nodes(ctx context.Context) error {
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return err
	}
	c.cut("nodes.json", "Nodes", list.Continue)
	return c.show("nodes.json", list.Items)
}

// services with a cloud's load balancer, existing or wanted.
func (c *bundleCluster) services(ctx context.Context) error {
	var all []corev1.Service
	options := metav1.ListOptions{Limit: maxListed}
	for page := 0; page == 0 || options.Continue != "" && len(all) < maxListed && page < maxPages; page++ {
		list, err := c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Spec.Type == corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
				all = append(all, *s)
			}
		}
		options.Continue = list.Continue
	}
	if options.Continue != "" {
		c.miss("services.json", own("there are more Services: %d were looked at, or %d with a load balancer were found", maxPages*maxListed, maxListed))
	}
	return c.show("services.json", all)
}

// components are the sources of the manager's Events: itself, and upstream's loops.
var components = []string{"wasm-cloud-controller-manager", "service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "route_controller"}

func (c *bundleCluster) events(ctx context.Context) error {
	all, err := c.eventsIn(ctx, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		c.miss("events.json: of other namespaces than "+c.namespace, err)
		all, err = c.eventsIn(ctx, c.namespace)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return told(&a).Compare(told(&b)) })
	if more := len(all) - maxEvents; more > 0 {
		c.miss("events.json", own("%d older Events have no room", more))
		all = all[more:]
	}
	c.free(c.asked.messages, "events.txt", "the Events with their messages", eventLines(all))
	return c.show("events.json", all)
}

func (c *bundleCluster) eventsIn(ctx context.Context, namespace string) (all []corev1.Event, err error) {
	for _, component := range components {
		list, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "source=" + component, Limit: maxListed})
		if err != nil {
			return nil, err
		}
		c.cut("events.json", "Events of "+component, list.Continue)
		all = append(all, list.Items...)
	}
	return all, nil
}
