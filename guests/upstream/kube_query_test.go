package upstream

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	watchapi "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// asking runs a provider's use of clients during an op about a Service.
func asking(t *testing.T, fill func(*cluster), ask func(ctx context.Context, k *kube, c *cluster)) {
	t.Helper()
	var k *kube
	r := newRig(t, "", nil)
	c := newCluster(t, r)
	fill(c)
	r.p.create = func(e *Environment) (cloudprovider.Interface, error) {
		k, _ = e.Clients.(*kube)
		return &cloud{balancers: &balancers{ensure: func(ctx context.Context, _ *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
			ask(ctx, k, c)
			return &v1.LoadBalancerStatus{}, nil
		}}}, nil
	}
	request := &abi.LoadBalancerRequest{Service: &abi.Service{Namespace: "default", Name: "web", Uid: "u-web"}, Nodes: r.Nodes()}
	if err := r.Call(abi.OpLoadBalancerEnsure, request, &abi.LoadBalancerEnsureResponse{}); err != nil {
		t.Fatal(err)
	}
}

func service(namespace, name string, kind v1.ServiceType) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u-web", ResourceVersion: "7"}, Spec: v1.ServiceSpec{Type: kind, ClusterIP: "10.0.0.1"}}
}

func fill(c *cluster) {
	cordoned := machine("m2", "2", map[string]string{"zone": "b"})
	cordoned.Spec.Unschedulable = true
	c.has(machine("m1", "1", map[string]string{"zone": "a"}), cordoned, machine("m3", "3", map[string]string{"zone": "b"}))
	c.has(service("default", "web", v1.ServiceTypeLoadBalancer), service("default", "db", v1.ServiceTypeClusterIP), service("other", "web", v1.ServiceTypeClusterIP))
	c.has(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: "IPv4"})
	c.has(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "settings"}, Data: map[string]string{"a": "b"}})
	c.has(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "hook"}, Data: map[string][]byte{"a": []byte("b")}, Type: v1.SecretTypeOpaque})
}

// clients are a client that reads protobuf, as the provider gets it, and one
// that reads only JSON.
func clients(t *testing.T, k *kube) map[string]kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(k.ConfigOrDie("test"))
	config.AcceptContentTypes = asJSON
	inJSON, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]kubernetes.Interface{"protobuf": k.ClientOrDie("test"), "JSON": inJSON}
}

func TestReads(t *testing.T) {
	asking(t, fill, func(ctx context.Context, k *kube, c *cluster) {
		for name, client := range clients(t, k) {
			for _, list := range []struct {
				what     string
				names    func(metav1.ListOptions) ([]string, error)
				options  metav1.ListOptions
				want     string
				wantAsks string
			}{
				{"all", nodeNames(ctx, client), metav1.ListOptions{}, "m1 m2 m3", "nodes /"},
				{"by label", nodeNames(ctx, client), metav1.ListOptions{LabelSelector: "zone in (b, c)"}, "m2 m3", "nodes /"},
				{"by field", nodeNames(ctx, client), metav1.ListOptions{LabelSelector: "zone=b", FieldSelector: "spec.unschedulable=false"}, "m3", "nodes /"},
				{"by name", nodeNames(ctx, client), metav1.ListOptions{FieldSelector: "metadata.name=m2"}, "m2", "nodes /m2"},
				{"none", nodeNames(ctx, client), metav1.ListOptions{LabelSelector: "zone=z"}, "", "nodes /"},
				{"of all namespaces", serviceNames(ctx, client, ""), metav1.ListOptions{}, "default/db default/web other/web", "services /"},
				{"of a namespace", serviceNames(ctx, client, "default"), metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer"}, "default/web", "services default/"},
				{"of a namespace by field", serviceNames(ctx, client, ""), metav1.ListOptions{FieldSelector: "metadata.namespace=other,metadata.name!=x"}, "other/web", "services other/"},
			} {
				c.asked = nil
				got, err := list.names(list.options)
				slices.Sort(got)
				if err != nil || strings.Join(got, " ") != list.want {
					t.Errorf("%s, %s: %q, %v, want %s", name, list.what, got, err, list.want)
				}
				for _, asked := range c.asked {
					if !strings.HasPrefix(asked, list.wantAsks+" ") {
						t.Errorf("%s, %s: the host was asked for %s, want %s", name, list.what, asked, list.wantAsks)
					}
				}
			}
			checkOne(ctx, t, client)
		}
	})
}

func nodeNames(ctx context.Context, client kubernetes.Interface) func(metav1.ListOptions) ([]string, error) {
	return func(options metav1.ListOptions) (names []string, err error) {
		all, err := client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names, nil
	}
}

func serviceNames(ctx context.Context, client kubernetes.Interface, namespace string) func(metav1.ListOptions) ([]string, error) {
	return func(options metav1.ListOptions) (names []string, err error) {
		all, err := client.CoreV1().Services(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range all.Items {
			names = append(names, all.Items[i].Namespace+"/"+all.Items[i].Name)
		}
		return names, nil
	}
}

// checkOne reads objects one by one.
func checkOne(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	if got, err := client.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{}); err != nil || got.Spec.ProviderID != "fake:///m1 1" || got.ResourceVersion != "1" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "m9", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if got, err := client.CoreV1().Secrets("kube-system").Get(ctx, "hook", metav1.GetOptions{}); err != nil || string(got.Data["a"]) != "b" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "settings", metav1.GetOptions{}); err != nil || got.Data["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	slices, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
	if err != nil || len(slices.Items) != 1 || slices.Items[0].AddressType != "IPv4" {
		t.Errorf("%v, %v", slices, err)
	}
}

// Resources that are not granted, or not available to providers, are refused in
// Kubernetes' form; a partial grant gives no list of everything.
func TestReadsRefused(t *testing.T) {
	asking(t, fill, func(ctx context.Context, k *kube, c *cluster) {
		c.advice["secrets"], c.advice["services"] = "these are read one by one", "add \"*\" to providers[].kube.services"
		client := k.ClientOrDie("test")
		_, all := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		_, secrets := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
		_, pods := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		_, old := client.DiscoveryV1beta1().EndpointSlices("").List(ctx, metav1.ListOptions{})
		for want, err := range map[string]error{"providers[].kube.services": all, "one by one": secrets, "no pods for providers": pods, "no endpointslices": old} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "spec.providerID=x"}); !apierrors.IsBadRequest(err) {
			t.Errorf("an unknown field: %v", err)
		}
		if info, err := client.Discovery().ServerVersion(); err != nil || info.Major != "1" {
			t.Errorf("version: %v, %v", info, err)
		}
	})
}

// A watch begins with everything, or continues its list; then it gets each
// change as the selectors see it.
func TestWatches(t *testing.T) {
	asking(t, fill, func(ctx context.Context, k *kube, c *cluster) {
		for name, client := range clients(t, k) {
			list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "zone=b"})
			if err != nil {
				t.Fatal(err)
			}
			on, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{LabelSelector: "zone=b", ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			begun, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=m1"})
			if err != nil {
				t.Fatal(err)
			}
			c.has(machine("m1", "11", map[string]string{"zone": "b"}), machine("m2", "12", map[string]string{"zone": "b"}), machine("m3", "13", map[string]string{"zone": "a"}))
			k.mu.Lock()
			err = k.sync(ctx, k.follows[scope{"nodes", "", ""}])
			k.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			checkEvents(t, name+", from a list", on, "ADDED m1 11", "DELETED m3 3", "MODIFIED m2 12")
			checkEvents(t, name+", from the beginning", begun, "ADDED m2 2", "ADDED m3 3", "MODIFIED m2 12", "MODIFIED m3 13")
			w, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err == nil {
				w.Stop()
			}
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				t.Errorf("%s, from an old list: %v", name, err)
			}
			fill(c)
		}
	})
}

// checkEvents reads the wanted number of events, in any order.
func checkEvents(t *testing.T, what string, w watchapi.Interface, want ...string) {
	t.Helper()
	defer w.Stop()
	var got []string
	for range want {
		e := <-w.ResultChan()
		node, ok := e.Object.(*v1.Node)
		if !ok {
			t.Fatalf("%s: %v", what, e)
		}
		got = append(got, string(e.Type)+" "+node.Name+" "+node.ResourceVersion)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
