package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// apply creates or replaces ConfigMaps, one after the other.
func apply(t *testing.T, client kubernetes.Interface, cms ...corev1.ConfigMap) {
	t.Helper()
	for _, cm := range cms {
		api := client.CoreV1().ConfigMaps(cm.Namespace)
		_, err := api.Update(t.Context(), &cm, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(t.Context(), &cm, metav1.CreateOptions{})
		}
		must(t, err)
	}
}

func remove(t *testing.T, client kubernetes.Interface, cms ...corev1.ConfigMap) {
	t.Helper()
	for _, cm := range cms {
		must(t, client.CoreV1().ConfigMaps(cm.Namespace).Delete(t.Context(), cm.Name, metav1.DeleteOptions{}))
	}
}

// becomes skips errors, which pass, but no bundle.
func becomes(t *testing.T, offers <-chan offered, module, config string) source.Bundle {
	t.Helper()
	for {
		o := next(t, offers)
		if o.err != nil {
			continue
		}
		if string(o.bundle.Module) != module || string(o.bundle.Config) != config {
			t.Fatalf("a module of %d bytes with configuration %q, want one of %d with %q", len(o.bundle.Module), o.bundle.Config, len(module), config)
		}
		return o.bundle
	}
}

// fails skips other errors, which pass, but no bundle.
func fails(t *testing.T, offers <-chan offered, reason string, texts ...string) {
	t.Helper()
	for {
		o := next(t, offers)
		if o.err == nil {
			t.Fatalf("a module of %d bytes, want error %s", len(o.bundle.Module), reason)
		}
		var e *source.Error
		if errors.As(o.err, &e) && e.Reason == reason && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(o.err.Error(), text) }) {
			return
		}
	}
}

// sides are tests that run against the fake clientset and an API server.
var sides = map[string]func(*testing.T, kubernetes.Interface){
	"parts before their index, and the reverse": testOrder,
	"parts with fixed names":                    testFixedNames,
	"a part that comes and goes":                testPartLife,
	"a signature that changes alone":            testSignatureAlone,
}

func TestParts(t *testing.T) {
	for name, test := range sides {
		t.Run(name, func(t *testing.T) { test(t, fake.NewClientset()) })
	}
}

func testOrder(t *testing.T, client kubernetes.Interface) {
	one, two, three := noise(1, 1000<<10), noise(2, 1<<20), noise(3, 1<<20)
	a, b, c := split(t, one, source.SplitOptions{Config: []byte("1")}), split(t, two, source.SplitOptions{Config: []byte("2")}), split(t, three, source.SplitOptions{})
	apply(t, client, a...)
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	first := wantBundle(t, offers, string(one), "1")
	if first.Ref == nil || first.Ref.Name != name.Name {
		t.Errorf("reference %v", first.Ref)
	}

	// As it is meant to be: nothing is told between the two.
	apply(t, client, b...)
	if got := wantBundle(t, offers, string(two), "2"); got.Revision == first.Revision {
		t.Error("another module has the same revision")
	}
	remove(t, client, a[:2]...)

	apply(t, client, *last(c))
	fails(t, offers, source.ReasonModuleIncomplete, "ConfigMap kube-system/cloud-provider: part 1 of 2 (ConfigMap "+c[0].Name)
	apply(t, client, c[0])
	fails(t, offers, source.ReasonModuleIncomplete, "part 2 of 2 (ConfigMap "+c[1].Name, "it does not exist")
	apply(t, client, c[1])
	becomes(t, offers, string(three), "")

	// Back to one ConfigMap, whose revision does not depend on the splitting.
	apply(t, client, *configMap("", map[string][]byte{"p.wasm": one, "cloud.conf": []byte("1")}))
	if got := becomes(t, offers, string(one), "1"); got.Revision != first.Revision {
		t.Error("the same module has another revision")
	}
}

func testFixedNames(t *testing.T, client kubernetes.Interface) {
	names := []string{"fixed-0", "fixed-1"}
	make := func(seed byte) []corev1.ConfigMap {
		return split(t, noise(seed, 1<<20), source.SplitOptions{PartNames: names, Config: []byte(fmt.Sprint(seed))})
	}
	apply(t, client, make(0)...)
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	wantBundle(t, offers, string(noise(0, 1<<20)), "0")
	for seed := byte(1); seed < 12; seed++ {
		cms := make(seed)
		if seed%2 == 0 {
			slices.Reverse(cms)
		}
		if seed%3 == 0 {
			apply(t, client, cms[0])
			fails(t, offers, source.ReasonModuleIncomplete, "is not the one that the index is about")
		}
		apply(t, client, cms...)
		becomes(t, offers, string(noise(seed, 1<<20)), fmt.Sprint(seed))
	}
}

func testPartLife(t *testing.T, client kubernetes.Interface) {
	module := noise(1, 1<<20)
	cms := split(t, module, source.SplitOptions{})
	apply(t, client, cms...)
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	wantBundle(t, offers, string(module), "")
	remove(t, client, cms[1])
	fails(t, offers, source.ReasonModuleIncomplete, "part 2 of 2", "it does not exist")
	apply(t, client, cms[1])
	becomes(t, offers, string(module), "")
	broken := cms[2].DeepCopy()
	broken.Data["provider.wasm.zst.parts"] = "{}"
	apply(t, client, *broken)
	fails(t, offers, source.ReasonModuleIndexInvalid)
	remove(t, client, *broken)
	fails(t, offers, source.ReasonConfigMapNotFound)
	apply(t, client, cms[2])
	becomes(t, offers, string(module), "")
}

func testSignatureAlone(t *testing.T, client kubernetes.Interface) {
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	fails(t, offers, source.ReasonConfigMapNotFound)
	files := map[string][]byte{"p.wasm": []byte("one")}
	apply(t, client, *configMap("", files))
	unsigned := becomes(t, offers, "one", "")
	wantSignature(t, unsigned, "")
	for _, signature := range []string{"first", "second"} {
		files["p.wasm.sig"] = []byte(signature)
		apply(t, client, *configMap("", files))
		got := becomes(t, offers, "one", "")
		wantSignature(t, got, signature)
		if got.Revision != unsigned.Revision {
			t.Error("a signature changes the revision")
		}
	}
	delete(files, "p.wasm.sig")
	apply(t, client, *configMap("", files))
	wantSignature(t, becomes(t, offers, "one", ""), "")
}

func TestPartThatMayNotBeListed(t *testing.T) {
	cms := split(t, noise(1, 1<<20), source.SplitOptions{PartNames: []string{"m-1", "m-2"}})
	client := fake.NewClientset(&cms[0], &cms[1], &cms[2])
	client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if list, ok := action.(clienttesting.ListAction); ok && list.GetListRestrictions().Fields.String() == "metadata.name=m-2" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "m-2", errors.New("no"))
		}
		return false, nil, nil
	})
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	wantError(t, offers, source.ReasonModuleIncomplete, `part 2 of 2 (ConfigMap m-2, key m-2.part): failed to list *v1.ConfigMap: configmaps "m-2" is forbidden: no; with the Helm chart, give it in the values (providers; for a CloudProvider cloudProviders.rights; for a module in parts modulesNamespace); otherwise add to a Role in namespace kube-system that is bound to the manager's service account: {apiGroups: [""], resources: ["configmaps"], resourceNames: ["m-1", "m-2"], verbs: ["list", "watch"]}`)
}

// TestPartsAgainstAPIServer needs etcd and kube-apiserver in
// $KUBEBUILDER_ASSETS (make test sets it): the fake clientset knows neither
// rights nor field selectors, and its watches end by themselves.
func TestPartsAgainstAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, cluster.Stop()) })
	tests := maps.Clone(sides)
	tests["the largest module of Split is taken"] = testLargest
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := kubernetes.NewForConfigOrDie(quick(cluster.Config()))
			defer clear(t, client)
			test(t, client)
		})
	}
	for name, test := range map[string]func(*testing.T, *rest.Config){
		"only the parts of the index are watched": testNoLeak,
		"missing rights are named, then helped":   testRights,
	} {
		t.Run(name, func(t *testing.T) {
			config := quick(cluster.Config())
			defer clear(t, kubernetes.NewForConfigOrDie(config))
			test(t, config)
		})
	}
}

func quick(config *rest.Config) *rest.Config {
	config.QPS = -1
	return config
}

func clear(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	must(t, client.CoreV1().ConfigMaps(name.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

func testLargest(t *testing.T, client kubernetes.Interface) {
	module, config := noise(1, 300<<10), string(make([]byte, 700<<10))
	apply(t, client, split(t, module, source.SplitOptions{Config: []byte(config), Signature: make([]byte, 20<<10)})...)
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	becomes(t, offers, string(module), config)
	module, config = noise(1, 40<<20), string(make([]byte, 900<<10))
	cms := split(t, module, source.SplitOptions{Config: []byte(config), Signature: make([]byte, 64<<10)})
	apply(t, client, cms...)
	becomes(t, offers, string(module), config)
}

// open counts the watches that a client has.
type open struct {
	next http.RoundTripper
	mu   sync.Mutex
	of   map[string]int
}

func (o *open) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if name := r.URL.Query().Get("fieldSelector"); err == nil && r.URL.Query().Get("watch") == "true" {
		o.add(name, 1)
		response.Body = &counted{ReadCloser: response.Body, closed: func() { o.add(name, -1) }}
	}
	return response, err
}

func (o *open) add(name string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[name] += n; o.of[name] == 0 {
		delete(o.of, name)
	}
}

type counted struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (c *counted) Close() error {
	c.once.Do(c.closed)
	return c.ReadCloser.Close()
}

// are waits until these ConfigMaps are watched, each once, and no others.
func (o *open) are(t *testing.T, cms ...corev1.ConfigMap) {
	t.Helper()
	want := map[string]int{}
	for _, cm := range cms {
		want["metadata.name="+cm.Name] = 1
	}
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return maps.Equal(o.of, want), nil
	})
	if err != nil {
		t.Fatalf("watches %v, want %v", o.of, want)
	}
}

func testNoLeak(t *testing.T, config *rest.Config) {
	client := kubernetes.NewForConfigOrDie(config)
	watches, counted := &open{of: map[string]int{}}, rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		watches.next = next
		return watches
	})
	ctx, cancel := context.WithCancel(t.Context())
	offers, done := make(chan offered, 1000), make(chan struct{})
	go func() {
		defer close(done)
		source.NewConfigMap(kubernetes.NewForConfigOrDie(counted), name, source.Limits{}).Run(ctx, func(bundle source.Bundle, err error) { offers <- offered{bundle, err} })
	}()
	defer func() { cancel(); <-done }()

	for seed := range byte(5) {
		cms := split(t, noise(seed, int(1+seed%3)<<20), source.SplitOptions{})
		apply(t, client, cms...)
		becomes(t, offers, string(noise(seed, int(1+seed%3)<<20)), "")
		watches.are(t, cms...)
	}
	apply(t, client, *configMap("", map[string][]byte{"p.wasm": []byte("small")}))
	becomes(t, offers, "small", "")
	watches.are(t, *configMap("", nil))
	remove(t, client, *configMap("", nil))
	fails(t, offers, source.ReasonConfigMapNotFound)
	watches.are(t, *configMap("", nil))
	apply(t, client, split(t, noise(0, 1<<20), source.SplitOptions{})...)
	becomes(t, offers, string(noise(0, 1<<20)), "")
	cancel()
	<-done
	watches.are(t)
}

func testRights(t *testing.T, config *rest.Config) {
	admin := kubernetes.NewForConfigOrDie(config)
	cms := split(t, noise(1, 1<<20), source.SplitOptions{PartNames: []string{"m-1", "m-2"}})
	apply(t, admin, cms...)
	limited := rest.CopyConfig(config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
	offers := run(t, source.NewConfigMap(kubernetes.NewForConfigOrDie(limited), name, source.Limits{}))
	fails(t, offers, source.ReasonConfigMapUnreadable, `resourceNames: ["cloud-provider"], verbs: ["list", "watch"]`)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name.Name}, Verbs: []string{"list", "watch"},
	}}}
	role, err := admin.RbacV1().Roles(name.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().RoleBindings(name.Namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}}, metav1.CreateOptions{})
	must(t, err)
	fails(t, offers, source.ReasonModuleIncomplete, "part 1 of 2 (ConfigMap m-1", "forbidden", `resourceNames: ["m-1", "m-2"], verbs: ["list", "watch"]`)
	role.Rules[0].ResourceNames = []string{name.Name, "m-1", "m-2"}
	_, err = admin.RbacV1().Roles(name.Namespace).Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
	becomes(t, offers, string(noise(1, 1<<20)), "")
}
