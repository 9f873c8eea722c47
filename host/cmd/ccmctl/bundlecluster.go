package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// bundleCluster reads what the API server has for a bundle, as who runs ccmctl.
type bundleCluster struct {
	*bundle
	config    *restclient.Config
	client    kubernetes.Interface
	namespace string
	lines     int64
}

// partTimeout bounds each part: a kubelet that hangs has no logs.
const partTimeout = 20 * time.Second

func (c *bundleCluster) collect(ctx context.Context) {
	for _, part := range []struct {
		what string
		read func(context.Context) error
	}{
		// First, as they name the Secrets.
		{"configuration.json, cloudproviders.json", c.configuration},
		{"versions.json", c.versions},
		{"lease.json", c.lease},
		{"providers.json", c.providers},
		{"pods.json, logs", c.pods},
		{"events.txt", c.events},
	} {
		c.say(part.what)
		ctx, cancel := context.WithTimeout(ctx, partTimeout)
		if err := part.read(ctx); err != nil {
			c.miss(part.what, err)
		}
		cancel()
	}
}

func (c *bundleCluster) versions(context.Context) error {
	server, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	c.object("versions.json", "the versions of ccmctl and the API server", map[string]any{"ccmctl": version.Release(), "kubernetes": server})
	return nil
}

func (c *bundleCluster) lease(ctx context.Context) error {
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, managerName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	c.object("lease.json", "who leads, as the API server knows it", lease.Spec)
	return nil
}

// providerObject is what a bundle has of the ConfigMap of a provider.
type providerObject struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	// Commands are the names of the annotations that people steer by.
	Commands []string `json:"commands,omitempty"`
	Status   string   `json:"status,omitempty"`
}

// providers are the statuses that outlive a manager.
func (c *bundleCluster) providers(ctx context.Context) error {
	list, err := c.client.CoreV1().ConfigMaps(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: status.LabelProvider, Limit: maxListed})
	if err != nil {
		return err
	}
	all := []providerObject{}
	for i := range list.Items {
		cm := &list.Items[i]
		o := providerObject{Name: cm.Name, Labels: cm.Labels, Status: cm.Data["status"]}
		for _, command := range []string{status.AnnotationPause, status.AnnotationPromote, status.AnnotationRollback} {
			if _, set := cm.Annotations[command]; set {
				o.Commands = append(o.Commands, command)
			}
		}
		all = append(all, o)
	}
	c.cut("providers.json", "ConfigMaps of providers", list.Continue)
	c.object("providers.json", "the status of each provider, as its ConfigMap has it", all)
	return nil
}

// cut says of a list that there are more.
func (c *bundleCluster) cut(file, of, more string) {
	if more != "" {
		c.miss(file, fmt.Errorf("there are more than %d %s", maxListed, of))
	}
}

// Bounds of what is listed.
const (
	maxListed = 500
	maxPods   = 10
	maxEvents = 1000
	// maxLog bounds one log, in bytes.
	maxLog = 2 << 20
)

// podObject is what a bundle has of a Pod of the manager.
type podObject struct {
	Name  string   `json:"name"`
	Node  string   `json:"node"`
	Image []string `json:"images"`
	// Arguments are those of the first container.
	Arguments []string         `json:"arguments,omitempty"`
	Status    corev1.PodStatus `json:"status"`
}

func (c *bundleCluster) pods(ctx context.Context) error {
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("namespace %s has no Pods %s", c.namespace, selector)
	}
	if list.Continue != "" {
		c.miss("pods.json, logs", fmt.Errorf("there are more than %d Pods", maxPods))
	}
	all := []podObject{}
	for i := range list.Items {
		pod := &list.Items[i]
		o := podObject{Name: pod.Name, Node: pod.Spec.NodeName, Status: pod.Status}
		for n := range pod.Spec.Containers {
			o.Image = append(o.Image, pod.Spec.Containers[n].Image)
			o.Arguments = append(o.Arguments, pod.Spec.Containers[n].Args...)
			c.logs(ctx, pod, pod.Spec.Containers[n].Name)
		}
		all = append(all, o)
	}
	c.object("pods.json", "the Pods of the manager", all)
	return nil
}

// logs adds the log of a container, and that of the one before it, if it was
// restarted.
func (c *bundleCluster) logs(ctx context.Context, pod *corev1.Pod, container string) {
	base := "logs/" + pod.Name + "_" + container
	c.log(ctx, base+".log", pod, &corev1.PodLogOptions{Container: container})
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container && s.RestartCount > 0 {
			c.log(ctx, base+".previous.log", pod, &corev1.PodLogOptions{Container: container, Previous: true})
		}
	}
}

func (c *bundleCluster) log(ctx context.Context, name string, pod *corev1.Pod, options *corev1.PodLogOptions) {
	options.TailLines, options.LimitBytes, options.Timestamps = &c.lines, new(int64(maxLog)), true
	stream, err := c.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		c.miss(name, err)
		return
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		c.miss(name, fmt.Errorf("after %d bytes: %w", len(data), err))
	}
	about := fmt.Sprintf("the last lines of a log, at most %d and %d bytes", c.lines, maxLog)
	if len(data) == maxLog {
		c.miss(name, fmt.Errorf("its last %d lines have more than %d bytes, and the end of them is missing: take fewer lines (--log-lines)", c.lines, maxLog))
	}
	// A line that was cut may end with half a secret, which nothing would find.
	if end := bytes.LastIndexByte(data, '\n'); len(data) == maxLog || err != nil {
		data = data[:end+1]
	}
	c.text(name, about, data)
}

// components are who tells Events in the manager: itself, and upstream's loops.
var components = []string{"wasm-cloud-controller-manager", "service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller", "route_controller"}

func (c *bundleCluster) events(ctx context.Context) error {
	all, err := c.eventsIn(ctx, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		c.miss("events.txt: of other namespaces than "+c.namespace, err)
		all, err = c.eventsIn(ctx, c.namespace)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return told(&a).Compare(told(&b)) })
	if more := len(all) - maxEvents; more > 0 {
		c.miss("events.txt", fmt.Errorf("%d older Events have no room", more))
		all = all[more:]
	}
	var out bytes.Buffer
	for i := range all {
		e := &all[i]
		fmt.Fprintf(&out, "%s  %-7s %-28s x%d  %s %s/%s: %s\n", told(e).UTC().Format(time.RFC3339), e.Type, e.Reason, max(1, e.Count),
			e.InvolvedObject.Kind, cmp.Or(e.InvolvedObject.Namespace, "-"), e.InvolvedObject.Name, text.Line(e.Message, v1alpha1.MaxText))
	}
	c.text("events.txt", "the Events that the manager and its loops told, the oldest first", out.Bytes())
	return nil
}

func (c *bundleCluster) eventsIn(ctx context.Context, namespace string) (all []corev1.Event, err error) {
	for _, component := range components {
		list, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "source=" + component, Limit: maxListed})
		if err != nil {
			return nil, err
		}
		c.cut("events.txt", "Events of "+component, list.Continue)
		all = append(all, list.Items...)
	}
	return all, nil
}
