package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudservice "k8s.io/cloud-provider/controllers/service"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/component-base/featuregate"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// These tests run upstream's own service controller, one for each provider,
// over informers that are filtered as the manager filters them.

// balancers are the load balancers at one cloud.
type balancers struct {
	name string
	mu   sync.Mutex
	log  []string
	have map[types.UID]bool
}

func (b *balancers) note(op string, s *corev1.Service, have bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, b.name+" "+op+" "+s.Name)
	b.have[s.UID] = have
}

func (b *balancers) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

func (b *balancers) cloud() *fakeCloud {
	return &fakeCloud{
		get: func(s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return &corev1.LoadBalancerStatus{}, b.have[s.UID], nil
		},
		ensure: func(s *corev1.Service) (*corev1.LoadBalancerStatus, error) {
			b.note("ensure", s, true)
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: b.name + ".example"}}}, nil
		},
		update: func(s *corev1.Service) error { b.note("update", s, true); return nil },
		remove: func(s *corev1.Service) error { b.note("delete", s, false); return nil },
	}
}

// manager runs the service controllers of the providers a, which is the
// default, and b, and returns their clouds.
func manager(t *testing.T, api kubernetes.Interface, events record.EventRecorder) (a, b *balancers) {
	t.Helper()
	router := two(t)
	factory := informers.NewSharedInformerFactory(api, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
		factory.Shutdown()
	})
	var all []*balancers
	for _, name := range []string{"a", "b"} {
		have := &balancers{name: name, have: map[types.UID]bool{}}
		all = append(all, have)
		cloud := router.Cloud(name, have.cloud(), CloudOptions{Client: api, Recorder: events})
		mine := filteredServices{factory.Core().V1().Services(), router.Services(name)}
		c, err := cloudservice.New(cloud, api, mine, factory.Core().V1().Nodes(), "c", featuregate.NewFeatureGate())
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { c.Run(ctx, 2, controllersmetrics.NewControllerManagerMetrics("test")) })
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return all[0], all[1]
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func change(t *testing.T, api kubernetes.Interface, name string, patch string) {
	t.Helper()
	if _, err := api.CoreV1().Services("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, api kubernetes.Interface, name, want string) {
	t.Helper()
	eventually(t, name+" is at "+want, func() bool {
		s, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			got = ingress.Hostname
		}
		return got == want && (want == "") == (s.Labels[ServiceOwnerLabel] == "") && (want == "") != servicehelpers.HasLBFinalizer(s)
	})
}

func create(t *testing.T, api kubernetes.Interface, name, choice string) {
	t.Helper()
	s := service("", choice)
	s.Name, s.ResourceVersion, s.UID = name, "", ""
	if _, ok := api.(*fake.Clientset); ok {
		s.UID = types.UID(name) // a real one gives it one
	}
	if _, err := api.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// life is a Service's: made, with another annotation, moved, deleted.
func life(t *testing.T, api kubernetes.Interface) {
	events := record.NewFakeRecorder(100)
	a, b := manager(t, api, events)
	create(t, api, "web", "b")
	status(t, api, "web", "b.example")

	// The user wants a. An annotation makes upstream ensure again: at the owner.
	change(t, api, "web", `{"metadata":{"annotations":{"`+ServiceAnnotation+`":"a"}}}`)
	eventually(t, "Event", func() bool { return len(events.Events) == 1 })
	eventually(t, "ensured at b", func() bool { return len(b.calls()) == 2 })
	status(t, api, "web", "b.example")

	// The way that the Event tells.
	change(t, api, "web", `{"spec":{"type":"ClusterIP"}}`)
	eventually(t, "given up", func() bool {
		s, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && s.Labels[ServiceOwnerLabel] == "" && !servicehelpers.HasLBFinalizer(s) && len(s.Status.LoadBalancer.Ingress) == 0
	})
	change(t, api, "web", `{"spec":{"type":"LoadBalancer"}}`)
	status(t, api, "web", "a.example")

	// Deleted at the owner, although the annotation changed.
	change(t, api, "web", `{"metadata":{"annotations":{"`+ServiceAnnotation+`":"b"}}}`)
	eventually(t, "ensured at a", func() bool { return len(a.calls()) == 2 })
	remove(t, api, "web")

	want := []string{"a ensure web", "a ensure web", "a delete web", "b ensure web", "b ensure web", "b delete web"}
	if got := append(a.calls(), b.calls()...); !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if len(events.Events) != 2 {
		t.Errorf("%d Events on how to move, want one for each change", len(events.Events))
	}
}

// remove deletes a Service and, with the fake clientset, which knows no
// finalizers, plays the API server.
func remove(t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	if _, ok := api.(*fake.Clientset); ok {
		change(t, api, name, `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
		eventually(t, "finalizer", func() bool {
			s, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && !servicehelpers.HasLBFinalizer(s)
		})
		return
	}
	if err := api.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted", func() bool {
		_, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// many shows that the label is written once and makes nothing ensure again.
func many(t *testing.T, api kubernetes.Interface, patches func() int) {
	a, b := manager(t, api, nil)
	const each = 10
	for n := range each {
		create(t, api, fmt.Sprint("default-", n), "")
		create(t, api, fmt.Sprint("b-", n), "b")
		create(t, api, fmt.Sprint("nobody-", n), "x")
	}
	for n := range each {
		status(t, api, fmt.Sprint("default-", n), "a.example")
		status(t, api, fmt.Sprint("b-", n), "b.example")
		status(t, api, fmt.Sprint("nobody-", n), "")
	}
	// A real change is ensured again, so the controllers do look at updates; it
	// comes after the labels, which were seen by then.
	change(t, api, "b-0", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	change(t, api, "default-0", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	eventually(t, "the last ensure", func() bool { return len(a.calls()) > each && len(b.calls()) > each })
	for n := range each {
		remove(t, api, fmt.Sprint("default-", n))
		remove(t, api, fmt.Sprint("b-", n))
	}
	for cloud, prefix := range map[*balancers]string{a: "default-", b: "b-"} {
		count := map[string]int{}
		for _, call := range cloud.calls() {
			count[strings.TrimPrefix(call, cloud.name+" ")]++
		}
		for n := range each {
			name := fmt.Sprint(prefix, n)
			want := 1
			if n == 0 {
				want = 2
			}
			if count["ensure "+name] != want || count["delete "+name] != 1 {
				t.Errorf("%s: %d ensures, %d deletes; want %d and 1", name, count["ensure "+name], count["delete "+name], want)
			}
		}
		if len(count) != 2*each {
			t.Errorf("%s was asked for others: %v", cloud.name, count)
		}
	}
	if got := patches(); got != 2*each {
		t.Errorf("%d patches of the owner label, want %d", got, 2*each)
	}
}

// ownerPatches counts the fake clientset's patches that set the label.
func ownerPatches(api *fake.Clientset) func() int {
	return func() (n int) {
		for _, action := range api.Actions() {
			if patch, ok := action.(interface{ GetPatch() []byte }); ok && strings.Contains(string(patch.GetPatch()), ServiceOwnerLabel) {
				n++
			}
		}
		return n
	}
}

func TestUpstreamOverTheFakeClientset(t *testing.T) {
	t.Run("life", func(t *testing.T) { life(t, fake.NewClientset()) })
	t.Run("many", func(t *testing.T) {
		api := fake.NewClientset()
		many(t, api, ownerPatches(api))
	})
}

// TestUpstreamOverAnAPIServer needs etcd and kube-apiserver in
// $KUBEBUILDER_ASSETS (make test sets it): the fake clientset compares no
// resourceVersions and knows no finalizers.
func TestUpstreamOverAnAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := cluster.Config()
	config.QPS = -1
	api := kubernetes.NewForConfigOrDie(config)
	t.Run("life", func(t *testing.T) { life(t, api) })
	t.Run("claims", func(t *testing.T) { claims(t, api) })
	t.Run("rights", func(t *testing.T) {
		config := rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "manager"}
		rights(t, api, kubernetes.NewForConfigOrDie(config))
	})
}

// rights shows that the rules that the error names are the ones that are needed.
func rights(t *testing.T, admin, api kubernetes.Interface) {
	have := (&balancers{name: "a", have: map[types.UID]bool{}}).cloud()
	b, _ := two(t).Cloud("a", have, CloudOptions{Client: api}).LoadBalancer()
	create(t, admin, "rights", "a")
	s, err := admin.CoreV1().Services("default").Get(t.Context(), "rights", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.EnsureLoadBalancer(t.Context(), "c", s, nil)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs the rules") {
		t.Fatalf("%v", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "allowed", func() bool {
		_, err = b.EnsureLoadBalancer(t.Context(), "c", s, nil)
		return err == nil
	})
	change(t, admin, "rights", `{"spec":{"type":"ClusterIP"}}`)
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if err := b.EnsureLoadBalancerDeleted(t.Context(), "c", s); err != nil {
		t.Errorf("%v", err)
	}
	if s, err = admin.CoreV1().Services("default").Get(t.Context(), "rights", metav1.GetOptions{}); err != nil || s.Labels[ServiceOwnerLabel] != "" {
		t.Errorf("not given up: %v, %v", s.Labels, err)
	}
}

// claims lets two providers claim the same Services at the same time, as their
// controllers do when the user changes the annotation meanwhile.
func claims(t *testing.T, api kubernetes.Interface) {
	router := two(t)
	for n := range 20 {
		name := fmt.Sprint("claimed-", n)
		create(t, api, name, "a")
		old, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owners := make(chan string, 2)
		var group sync.WaitGroup
		for _, provider := range []string{"a", "b"} {
			cloud := router.Cloud(provider, (&balancers{name: provider, have: map[types.UID]bool{}}).cloud(), CloudOptions{Client: api})
			b, _ := cloud.LoadBalancer()
			group.Go(func() {
				if provider == "b" {
					change(t, api, name, `{"metadata":{"annotations":{"`+ServiceAnnotation+`":"b"}}}`)
				}
				if _, err := b.EnsureLoadBalancer(t.Context(), "c", old, nil); err == nil {
					owners <- provider
				}
			})
		}
		group.Wait()
		now, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(owners) != 1 {
			t.Fatalf("%d providers made a load balancer", len(owners))
		}
		if owner := <-owners; now.Labels[ServiceOwnerLabel] != owner {
			t.Errorf("%s made it, the label says %q", owner, now.Labels[ServiceOwnerLabel])
		}
	}
}
