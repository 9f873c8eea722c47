package routing

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

var services = schema.GroupResource{Resource: "services"}

// balancer returns the provider a's load balancer, the API server's content,
// and the Events.
func balancer(t *testing.T, cloud *fakeCloud, objects ...runtime.Object) (cloudprovider.LoadBalancer, *fake.Clientset, <-chan string) {
	t.Helper()
	api := fake.NewClientset(objects...)
	recorder := record.NewFakeRecorder(100)
	b, ok := two(t).Cloud("a", cloud, CloudOptions{Client: api, Recorder: recorder}).LoadBalancer()
	if !ok {
		t.Fatal("no load balancer")
	}
	return b, api, recorder.Events
}

func stored(t *testing.T, api *fake.Clientset) *corev1.Service {
	t.Helper()
	s, err := api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func with(s *corev1.Service, changes ...func(*corev1.Service)) *corev1.Service {
	for _, change := range changes {
		change(s)
	}
	return s
}

func clusterIP(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
func finalizer(s *corev1.Service) {
	s.Finalizers = []string{"other/one", servicehelpers.LoadBalancerCleanupFinalizer}
}
func deleted(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func remade(s *corev1.Service)  { s.UID = "v" }

func TestLabelBeforeTheFirstEnsure(t *testing.T) {
	tests := map[string]struct {
		seen, stored *corev1.Service // nil: not there
		want         string          // in the error; "" is none
	}{
		"by default":       {service("", ""), service("", ""), ""},
		"by annotation":    {service("", "a"), service("", "a"), ""},
		"has it already":   {service("", ""), service("a", "b"), ""},
		"went to b":        {service("", ""), service("b", ""), `it went to "b" meanwhile`},
		"the user chose b": {service("", ""), service("", "b"), `it went to "b" meanwhile`},
		"never was a's":    {service("", "b"), service("", "b"), `it went to "b" meanwhile`},
		"is b's":           {service("b", "a"), service("b", "a"), `provider "a" does not own the load balancer of Service default/web: its label wasm-ccm.dev/load-balancer-provider says "b"`},
		"is gone":          {service("", ""), nil, "not found"},
		"was deleted":      {service("", ""), with(service("", ""), finalizer, deleted), "it was deleted meanwhile"},
		"was made again":   {service("", ""), with(service("", ""), remade), "it was deleted and made again meanwhile"},
		"wants none":       {service("", ""), with(service("", ""), clusterIP), "it ceased to want a load balancer meanwhile"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ensured := 0
			var api *fake.Clientset
			cloud := &fakeCloud{ensure: func(s *corev1.Service) (*corev1.LoadBalancerStatus, error) {
				ensured++
				if owner := stored(t, api).Labels[ServiceOwnerLabel]; owner != "a" {
					t.Errorf("ensured while the owner is %q", owner)
				}
				return &corev1.LoadBalancerStatus{}, nil
			}}
			var objects []runtime.Object
			if test.stored != nil {
				objects = append(objects, test.stored)
			}
			b, client, _ := balancer(t, cloud, objects...)
			api = client
			before := test.seen.DeepCopy()
			status, err := b.EnsureLoadBalancer(t.Context(), "c", test.seen, nil)
			switch {
			case test.want == "" && (err != nil || status == nil || ensured != 1):
				t.Errorf("%v, %v, %d ensured", status, err, ensured)
			case test.want != "" && (ensured != 0 || err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, %d ensured; want %q", err, ensured, test.want)
			}
			if diff := cmp.Diff(before, test.seen); diff != "" {
				t.Errorf("the informer's object was changed: %s", diff)
			}
		})
	}
}

// An op that takes long is asked for twice, and the second time the Service has
// the label: were it another question, the first answer would be for nobody, and
// each load balancer asked for twice.
func TestTheFirstEnsureSeesTheLabel(t *testing.T) {
	var seen []*corev1.Service
	cloud := &fakeCloud{ensure: func(s *corev1.Service) (*corev1.LoadBalancerStatus, error) {
		seen = append(seen, s)
		return &corev1.LoadBalancerStatus{}, nil
	}}
	b, api, _ := balancer(t, cloud, service("", ""))
	for range 2 {
		s := stored(t, api) // as the informer has it by then
		if _, err := b.EnsureLoadBalancer(t.Context(), "c", s, nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(seen[1].Labels, seen[0].Labels); diff != "" {
		t.Errorf("the provider was asked otherwise the second time: %s", diff)
	}
}

func TestClaimAgainstConflicts(t *testing.T) {
	cloud := &fakeCloud{ensure: func(*corev1.Service) (*corev1.LoadBalancerStatus, error) { return &corev1.LoadBalancerStatus{}, nil }}
	b, api, _ := balancer(t, cloud, service("", ""))
	patches := 0
	api.PrependReactor("patch", "services", func(action k8stesting.Action) (bool, runtime.Object, error) {
		patches++
		patch := string(action.(k8stesting.PatchAction).GetPatch())
		if !strings.Contains(patch, `"resourceVersion":"1"`) {
			t.Errorf("patch %s without the version that was read", patch)
		}
		if patches == 1 {
			return true, nil, apierrors.NewConflict(services, "web", errors.New("changed"))
		}
		return false, nil, nil
	})
	if _, err := b.EnsureLoadBalancer(t.Context(), "c", service("", ""), nil); err != nil || patches != 2 {
		t.Errorf("%v after %d patches, want success by the second", err, patches)
	}
}

func TestForbiddenPatchNamesTheRule(t *testing.T) {
	b, api, _ := balancer(t, &fakeCloud{}, service("", ""))
	api.PrependReactor("patch", "services", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(services, "web", errors.New("no"))
	})
	_, err := b.EnsureLoadBalancer(t.Context(), "c", service("", ""), nil)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `{apiGroups: [""], resources: ["services"], verbs: ["get"]} and {apiGroups: [""], resources: ["services/status"], verbs: ["patch"]}`) {
		t.Errorf("%v", err)
	}
}

func TestTheUserIsToldOnceHowToMove(t *testing.T) {
	cloud := &fakeCloud{ensure: func(*corev1.Service) (*corev1.LoadBalancerStatus, error) { return &corev1.LoadBalancerStatus{}, nil }}
	b, api, events := balancer(t, cloud, service("a", "b"))
	for _, choice := range []string{"b", "b", "", "a", "b", "nobody"} {
		if _, err := b.EnsureLoadBalancer(t.Context(), "c", service("a", choice), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(events) != 2 {
		t.Errorf("%d Events, want one on b and one on nobody", len(events))
	}
	text := <-events
	for _, want := range []string{"Warning LoadBalancerNotMoved", `stays with provider "a"`, `says "b"`, "ClusterIP", "delete the Service"} {
		if !strings.Contains(text, want) {
			t.Errorf("Event %q without %q", text, want)
		}
	}
	if writes := len(api.Actions()); writes != 0 {
		t.Errorf("%d requests for a Service that has its label", writes)
	}
}

// TestRelease: what becomes of the owner label when a has no load balancer for
// the Service (any more).
func TestRelease(t *testing.T) {
	tests := map[string]struct {
		seen, stored *corev1.Service
		want         string // owner then
	}{
		"type changed":               {with(service("a", "b"), clusterIP), with(service("a", "b"), clusterIP), ""},
		"is being deleted":           {with(service("a", ""), deleted), with(service("a", ""), deleted), "a"},
		"type changed, then deleted": {with(service("a", ""), clusterIP), with(service("a", ""), clusterIP, deleted), "a"},
		"wants one again":            {with(service("a", ""), clusterIP), service("a", "b"), "a"},
		"wants one":                  {service("a", ""), service("a", ""), "a"},
		"made again":                 {with(service("a", ""), clusterIP), with(service("a", ""), clusterIP, remade), "a"},
		"is b's by now":              {with(service("a", ""), clusterIP), with(service("b", ""), clusterIP), "b"},
	}
	ways := map[string]func(cloudprovider.LoadBalancer, *corev1.Service) error{
		"deleted": func(b cloudprovider.LoadBalancer, s *corev1.Service) error {
			return b.EnsureLoadBalancerDeleted(t.Context(), "c", s)
		},
		"was not there": func(b cloudprovider.LoadBalancer, s *corev1.Service) error {
			_, exists, err := b.GetLoadBalancer(t.Context(), "c", s)
			if exists {
				return errors.New("it is there")
			}
			return err
		},
	}
	for name, test := range tests {
		for way, run := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				cloud := &fakeCloud{
					remove: func(*corev1.Service) error { return nil },
					get:    func(*corev1.Service) (*corev1.LoadBalancerStatus, bool, error) { return nil, false, nil },
				}
				b, api, _ := balancer(t, cloud, with(test.stored.DeepCopy(), finalizer))
				if err := run(b, test.seen); err != nil {
					t.Fatal(err)
				}
				got := stored(t, api)
				if owner := got.Labels[ServiceOwnerLabel]; owner != test.want {
					t.Errorf("the owner is %q, want %q", owner, test.want)
				}
				want := []string{"other/one"}
				if test.want != "" {
					want = append(want, servicehelpers.LoadBalancerCleanupFinalizer)
				}
				if diff := cmp.Diff(want, got.Finalizers); diff != "" {
					t.Errorf("finalizers: %s", diff)
				}
			})
		}
	}
}

func TestNoReleaseBeforeItIsGone(t *testing.T) {
	retry := cloudproviderapi.NewRetryError("in progress", time.Minute)
	there, failure := true, errors.New("503")
	cloud := &fakeCloud{
		remove: func(*corev1.Service) error { return retry },
		get: func(*corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
			if there {
				return &corev1.LoadBalancerStatus{}, true, nil
			}
			return nil, false, failure
		},
	}
	s := with(service("a", ""), clusterIP)
	b, api, _ := balancer(t, cloud, s)
	if err := b.EnsureLoadBalancerDeleted(t.Context(), "c", s); err != error(retry) { //nolint:errorlint // upstream compares with ==
		t.Errorf("deleted: %v, want the RetryError itself", err)
	}
	if _, exists, err := b.GetLoadBalancer(t.Context(), "c", s); !exists || err != nil {
		t.Errorf("get: %v, %v", exists, err)
	}
	there = false
	if _, _, err := b.GetLoadBalancer(t.Context(), "c", s); !errors.Is(err, failure) {
		t.Errorf("get: %v", err)
	}
	if len(api.Actions()) != 0 || stored(t, api).Labels[ServiceOwnerLabel] != "a" {
		t.Error("the label was touched")
	}
}

func TestSentinelsOfLoadBalancersPass(t *testing.T) {
	cloud := &fakeCloud{
		ensure: func(*corev1.Service) (*corev1.LoadBalancerStatus, error) {
			return nil, cloudprovider.ImplementedElsewhere
		},
		update: func(*corev1.Service) error { return cloudprovider.ImplementedElsewhere },
	}
	s := with(service("a", ""), clusterIP)
	b, _, _ := balancer(t, cloud, s)
	if _, err := b.EnsureLoadBalancer(t.Context(), "c", service("a", ""), nil); err != cloudprovider.ImplementedElsewhere { //nolint:errorlint // upstream compares with ==
		t.Errorf("ensure: %v", err)
	}
	if err := b.UpdateLoadBalancer(t.Context(), "c", service("a", ""), nil); err != cloudprovider.ImplementedElsewhere { //nolint:errorlint // upstream compares with ==
		t.Errorf("update: %v", err)
	}
}

func TestOthersAreNotDeleted(t *testing.T) {
	b, _, _ := balancer(t, &fakeCloud{}, service("b", "a"))
	if err := b.EnsureLoadBalancerDeleted(t.Context(), "c", service("b", "a")); err == nil || !strings.Contains(err.Error(), `says "b"`) {
		t.Errorf("%v", err)
	}
}
