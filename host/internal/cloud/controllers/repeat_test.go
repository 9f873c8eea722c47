package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// failingCloud is a cloud that says what fail says, of each call that it has an
// error for.
type failingCloud struct {
	*cloud
	addresses []corev1.NodeAddress

	mu   sync.Mutex
	fail error
	told []string
}

func newFailingCloud(fail error) *failingCloud {
	return &failingCloud{cloud: newCloud("a"), fail: fail}
}

// provider serves everything.
func (c *failingCloud) provider() Provider {
	return Provider{Name: "a", Cloud: c, Volumes: c, Changed: c.Changed, Uninitialised: func(n *corev1.Node, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, n.Name+": "+err.Error())
	}}
}

func (c *failingCloud) telling() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// becomes makes another generation serve, which says something else.
func (c *failingCloud) becomes(fail error) {
	c.mu.Lock()
	c.fail = fail
	c.mu.Unlock()
	c.has(true, true, true, true)
}

func (c *failingCloud) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fail
}

func (c *failingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }
func (c *failingCloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return c, true }
func (c *failingCloud) Routes() (cloudprovider.Routes, bool)             { return nil, false }

func (c *failingCloud) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }

func (c *failingCloud) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	metadata, err := c.cloud.InstanceMetadata(ctx, n)
	if metadata != nil {
		metadata.NodeAddresses = c.addresses
	}
	return metadata, errors.Join(err, c.failure())
}

func (c *failingCloud) EnsureLoadBalancer(ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	status, err := c.cloud.EnsureLoadBalancer(ctx, cluster, s, nodes)
	return status, errors.Join(err, c.failure())
}

func (c *failingCloud) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	labels, err := c.cloud.GetLabelsForVolume(ctx, pv)
	return labels, errors.Join(err, c.failure())
}

// Upstream's back-off is a quarter of an hour by then.
func TestAReplacementAsksAtOnceForWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, volume("disk"))
		c := newFailingCloud(errors.New("the password is wrong"))
		w.start(c.provider())
		w.sleep()
		w.create(t, objects.Nodes(t)["k3s-dual-stack.yaml"])
		time.Sleep(time.Second)
		w.create(t, objects.Services(t)["istio-ingressgateway.yaml"])
		time.Sleep(2 * time.Hour)
		before := c.seen()
		c.addresses = objects.Nodes(t)["k3s-dual-stack.yaml"].Status.Addresses
		c.becomes(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		node, err := w.api.CoreV1().Nodes().Get(t.Context(), "edge-nas", metav1.GetOptions{})
		if err != nil || isUninitialised(node) {
			t.Errorf("a second after the replacement: %v, taints %v", err, node.Spec.Taints)
		}
		for _, e := range w.events(t) {
			if e.Reason == "EnsuredLoadBalancer" {
				before = nil // it worked
			}
		}
		if before != nil {
			t.Error("the Service was not ensured")
		}
		disk, err := w.api.CoreV1().PersistentVolumes().Get(t.Context(), "disk", metav1.GetOptions{})
		if err != nil || disk.Labels[corev1.LabelTopologyZone] == "" {
			t.Errorf("the volume has the labels %v, %v", disk.Labels, err)
		}
		time.Sleep(10 * time.Minute) // what was in the queue is looked at
		ensures := c.count("ensure")
		c.becomes(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := c.count("ensure"); n != ensures {
			t.Errorf("a replacement asks %d times for what did not fail", n-ensures)
		}
		w.stop()
	})
}

// Upstream does not look at when a provider wants to be asked again.
func TestANodeIsAskedForWhenItsProviderSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newFailingCloud(errors.New("the password is wrong"))
		c.addresses = objects.Nodes(t)["k3s-dual-stack.yaml"].Status.Addresses
		w.start(c.provider())
		w.sleep()
		w.create(t, objects.Nodes(t)["k3s-dual-stack.yaml"])
		time.Sleep(2 * time.Hour)
		c.becomes(cloudproviderapi.NewRetryError("has been in progress", 3*time.Second))
		time.Sleep(time.Second)
		c.mu.Lock()
		c.fail = nil
		c.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n, err := w.api.CoreV1().Nodes().Get(t.Context(), "edge-nas", metav1.GetOptions{}); err != nil || isUninitialised(n) {
			t.Errorf("4 s after the provider said 3 s: %v, taints %v", err, n.Spec.Taints)
		}
		w.stop()
	})
}

func TestWhyANodeIsNotInitialisedIsToldOncePerCause(t *testing.T) {
	joining := objects.Nodes(t)["kubeadm-joining.yaml"]
	for name, test := range map[string]struct {
		fail      error
		addresses []corev1.NodeAddress
		want      string
	}{
		"not there":         {cloudprovider.InstanceNotFound, nil, "instance not found"},
		"another --node-ip": {nil, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.13"}}, "the kubelet's --node-ip (10.0.0.31) is not among the addresses that the provider has for it (10.0.0.13)"},
		"later":             {cloudproviderapi.NewRetryError("the machine is being made (retry after 7s)", 7*time.Second), nil, "is being made"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newFailingCloud(test.fail)
				c.addresses = test.addresses
				w.start(c.provider())
				w.sleep()
				w.create(t, joining)
				time.Sleep(3 * time.Second)
				if told := c.telling(); len(told) != 0 {
					t.Errorf("told at once, when it may be a matter of seconds: %v", told)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if told := c.telling(); len(told) != 1 || !strings.Contains(told[0], test.want) {
					t.Errorf("told %q, want once %q", told, test.want)
				}
				c.becomes(errors.New("quota"))
				time.Sleep(time.Minute)
				synctest.Wait()
				if told := c.telling(); len(told) != 2 || !strings.Contains(told[1], "quota") {
					t.Errorf("another cause: told %q", told)
				}
				c.addresses = joining.Status.Addresses
				c.becomes(nil)
				time.Sleep(time.Second)
				synctest.Wait()
				if n, err := w.api.CoreV1().Nodes().Get(t.Context(), joining.Name, metav1.GetOptions{}); err != nil || isUninitialised(n) {
					t.Errorf("%v, taints %v", err, n.Spec.Taints)
				}
				if told := c.telling(); len(told) != 2 {
					t.Errorf("after it was initialised: told %q", told)
				}
				w.stop()
			})
		})
	}
}

// A Node that another provider may know is not complained about while that one
// may still answer.
func TestANodeOfPerhapsAnotherIsToldOfLate(t *testing.T) {
	u := newUninitialised(Provider{Uninitialised: func(*corev1.Node, error) {}, OwnedNodes: func(*corev1.Node) bool { return false }})
	n, start := objects.Nodes(t)["k3s-dual-stack.yaml"], time.Now()
	for after, want := range map[time.Duration]bool{0: false, 59 * time.Second: false} {
		if got := u.due(n, cloudprovider.InstanceNotFound, start.Add(after)); got != want {
			t.Errorf("after %v: %v", after, got)
		}
	}
	if !u.due(n, cloudprovider.InstanceNotFound, start.Add(2*time.Minute)) {
		t.Error("nobody knows it, and nobody is told")
	}
}

// What is remembered of Nodes and calls is bounded.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	u := newUninitialised(Provider{Uninitialised: func(*corev1.Node, error) {}})
	l := newLater()
	for i := range 3 * maxUninitialised {
		n := uninitialisedNode(fmt.Sprint("node-", i))
		u.due(n, cloudprovider.InstanceNotFound, time.Now())
		l.heard("ensure", n.Name, cloudproviderapi.NewRetryError(n.Name, time.Second))
	}
	if len(u.nodes) > maxUninitialised || len(l.texts) > maxTexts || len(l.failed) > maxHeard || len(l.putOff) > maxHeard {
		t.Errorf("%d Nodes, %d texts, %d failed, %d put off", len(u.nodes), len(l.texts), len(l.failed), len(l.putOff))
	}
}

func uninitialisedNode(name string) *corev1.Node {
	n := node(name, "", corev1.ConditionTrue)
	n.UID = types.UID(name)
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return n
}
