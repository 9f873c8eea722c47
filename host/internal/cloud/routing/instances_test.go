package routing

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

type metadataFunc = func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)

func id(id string) metadataFunc {
	return func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		return &cloudprovider.InstanceMetadata{ProviderID: id}, nil
	}
}

func failing(err error) metadataFunc {
	return func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, err }
}

func instancesOf(t *testing.T, cloud cloudprovider.Interface) cloudprovider.InstancesV2 {
	t.Helper()
	i, ok := cloud.InstancesV2()
	if !ok {
		t.Fatal("no instances")
	}
	return i
}

// TestNodesOfOthersAreLeftAlone: the fake's nil functions must not be called.
func TestNodesOfOthersAreLeftAlone(t *testing.T) {
	a := instancesOf(t, two(t).Cloud("a", &fakeCloud{}, CloudOptions{}))
	for _, n := range []*corev1.Node{node("b1://1", ""), node("", "b"), node("kind://1", "a"), node("", "x"), node("", "")} {
		if exists, err := a.InstanceExists(t.Context(), n); !exists || err != nil {
			t.Errorf("exists: %v, %v", exists, err)
		}
		if shutdown, err := a.InstanceShutdown(t.Context(), n); shutdown || err != nil {
			t.Errorf("shutdown: %v, %v", shutdown, err)
		}
		if unmarked(n) {
			continue
		}
		if _, err := a.InstanceMetadata(t.Context(), n); err == nil || !strings.Contains(err.Error(), `node n1 is not a node of provider "a": its `) {
			t.Errorf("metadata: %v", err)
		}
	}
}

func TestOwnNodesAreAsked(t *testing.T) {
	failure := errors.New("cloud is down")
	cloud := &fakeCloud{
		exists:   func(*corev1.Node) (bool, error) { return false, nil },
		shutdown: func(*corev1.Node) (bool, error) { return true, failure },
		metadata: id("a://1"),
	}
	a := instancesOf(t, two(t).Cloud("a", cloud, CloudOptions{}))
	for _, n := range []*corev1.Node{node("a://1", ""), node("", "a")} {
		if exists, err := a.InstanceExists(t.Context(), n); exists || err != nil {
			t.Errorf("exists: %v, %v", exists, err)
		}
		if shutdown, err := a.InstanceShutdown(t.Context(), n); !shutdown || !errors.Is(err, failure) {
			t.Errorf("shutdown: %v, %v", shutdown, err)
		}
		if m, err := a.InstanceMetadata(t.Context(), n); err != nil || m.ProviderID != "a://1" {
			t.Errorf("metadata: %v, %v", m, err)
		}
	}
}

func TestMetadata(t *testing.T) {
	tests := map[string]struct {
		node *corev1.Node
		a, b metadataFunc
		want string // in the error; "" is none
	}{
		"only a knows":             {node("", ""), id("a://1"), failing(cloudprovider.InstanceNotFound), ""},
		"b has no such op":         {node("", ""), id("a://1"), failing(cloudprovider.NotImplemented), ""},
		"b answers nothing":        {node("", ""), id("a://1"), failing(nil), ""},
		"both know":                {node("", ""), id("a://1"), id("b1://1"), "node n1 is known to the providers a, b; set its label wasm-ccm.dev/provider to"},
		"b cannot tell":            {node("", ""), id("a://1"), failing(errors.New("503")), `the provider of node n1 is not known yet, so it waits (or set its label wasm-ccm.dev/provider to "a"): provider "b": 503`},
		"labelled: b is not asked": {node("", "a"), id("a://1"), nil, ""},
		"no ProviderID":            {node("a://1", ""), id(""), nil, ""},
		"gives it to b":            {node("", "a"), id("b1://1"), nil, `provider "a" gives node n1 a ProviderID with the scheme "b1", which is not one of its own`},
		"gives it to nobody":       {node("", ""), id("1"), nil, `the scheme ""`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := two(t)
			a := instancesOf(t, r.Cloud("a", &fakeCloud{metadata: test.a}, CloudOptions{}))
			r.Cloud("b", &fakeCloud{metadata: test.b}, CloudOptions{})
			m, err := a.InstanceMetadata(t.Context(), test.node)
			switch {
			case test.want == "" && (err != nil || m == nil):
				t.Errorf("%v, %v", m, err)
			case test.want != "" && (m != nil || err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, %v; want %q", m, err, test.want)
			}
		})
	}
}

func TestErrorsPassUnchanged(t *testing.T) {
	retry := cloudproviderapi.NewRetryError("in progress", time.Minute)
	for _, want := range []error{cloudprovider.InstanceNotFound, cloudprovider.NotImplemented, retry} {
		a := instancesOf(t, two(t).Cloud("a", &fakeCloud{metadata: failing(want)}, CloudOptions{}))
		for _, n := range []*corev1.Node{node("a://1", ""), node("", "")} {
			if _, err := a.InstanceMetadata(t.Context(), n); err != want { //nolint:errorlint // upstream compares with ==
				t.Errorf("%v, want %v itself", err, want)
			}
		}
	}
}

func TestWhoMayNotBeAsked(t *testing.T) {
	r := mustNew(t, Rules{Provider: "a", AskNodes: true}, Rules{Provider: "b"}, Rules{Provider: "c", AskNodes: true})
	a := instancesOf(t, r.Cloud("a", &fakeCloud{metadata: id("a://1")}, CloudOptions{}))
	b := instancesOf(t, r.Cloud("b", &fakeCloud{}, CloudOptions{}))
	if _, err := b.InstanceMetadata(t.Context(), node("", "")); err == nil || !strings.Contains(err.Error(), `provider "b" may not be asked`) {
		t.Errorf("b: %v", err)
	}
	if _, err := a.InstanceMetadata(t.Context(), node("", "")); err == nil || !strings.Contains(err.Error(), `provider "c": it does not run yet`) {
		t.Errorf("c is not there: %v", err)
	}
	r.Cloud("c", &fakeCloud{noInstances: true}, CloudOptions{})
	if _, err := a.InstanceMetadata(t.Context(), node("", "")); err == nil || !strings.Contains(err.Error(), `provider "c": it has no instances now`) {
		t.Errorf("c does not serve: %v", err)
	}
}

// TestOneThatHangs: provider b answers nothing for ever, and ignores contexts.
func TestOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := two(t)
		release := make(chan struct{})
		var mu sync.Mutex
		asked := 0
		a := instancesOf(t, r.Cloud("a", &fakeCloud{metadata: id("a://1")}, CloudOptions{AskTimeout: 3 * time.Second}))
		r.Cloud("b", &fakeCloud{metadata: func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			mu.Lock()
			asked++
			mu.Unlock()
			<-release
			return nil, cloudprovider.InstanceNotFound
		}}, CloudOptions{})
		start := time.Now()
		var group sync.WaitGroup
		for range 10 * maxAsks {
			group.Go(func() {
				_, err := a.InstanceMetadata(t.Context(), node("", ""))
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "is not known yet") {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("a node waited %v, want 3 s", took)
		}
		if asked != maxAsks {
			t.Errorf("%d questions hang, want %d", asked, maxAsks)
		}
		// A node that is surely a's does not wait.
		if _, err := a.InstanceMetadata(t.Context(), node("", "a")); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(release)
		synctest.Wait()
		if _, err := a.InstanceMetadata(t.Context(), node("", "")); err != nil {
			t.Errorf("b answers again: %v", err)
		}
	})
}

func TestTheRestPasses(t *testing.T) {
	inner := &fakeCloud{noInstances: true, noLoadBalancer: true}
	cloud := two(t).Cloud("a", inner, CloudOptions{})
	if _, ok := cloud.InstancesV2(); ok {
		t.Error("instances")
	}
	if _, ok := cloud.LoadBalancer(); ok {
		t.Error("load balancers")
	}
	inner.noInstances, inner.noLoadBalancer = false, false // the provider was replaced
	instancesOf(t, cloud)
	if _, ok := cloud.LoadBalancer(); !ok {
		t.Error("no load balancers")
	}
	if _, ok := cloud.Instances(); ok {
		t.Error("instances by name are not guarded, so they must not be there")
	}
	if _, ok := cloud.Zones(); ok {
		t.Error("zones")
	}
	if cloud.ProviderName() != "fake" || !cloud.HasClusterID() {
		t.Error("name or cluster id")
	}
}
