package manager

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// The networks of Services come from the API server, and stay known when it
// does not answer, forbids the list or returns malformed ones.
func TestTheNetworksOfServices(t *testing.T) {
	client := fake.NewClientset(serviceCIDR("kubernetes", "10.96.0.0/12", "fd00:96::/112"), serviceCIDR("more", "10.7.0.0/24"))
	s := &serviceCIDRs{client: client}
	s.refresh(t.Context())
	want := []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:96::/112")}
	if !slices.Equal(s.known(), want) {
		t.Fatalf("networks %v, want %v", s.known(), want)
	}
	var failure error
	client.PrependReactor("list", "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) { return failure != nil, nil, failure })
	resource := networkingv1.Resource("servicecidrs")
	for _, failure = range []error{
		errors.New("connection refused"), apierrors.NewForbidden(resource, "", errors.New("no")), apierrors.NewNotFound(resource, ""),
	} {
		s.refresh(t.Context())
		if !slices.Equal(s.known(), want) || s.failure == "" {
			t.Errorf("%v: networks %v, told %q", failure, s.known(), s.failure)
		}
		const rule = `add to a ClusterRole that is bound to the manager's service account: {apiGroups: ["networking.k8s.io"], resources: ["servicecidrs"], verbs: ["list"]}`
		if apierrors.IsForbidden(failure) != strings.Contains(s.failure, rule) {
			t.Errorf("%v: told %q", failure, s.failure)
		}
	}
	failure = nil
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR("bad", "10.0.0.0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.refresh(t.Context()); !slices.Equal(s.known(), want) || !strings.Contains(s.failure, "ServiceCIDR bad") {
		t.Errorf("networks %v, told %q", s.known(), s.failure)
	}
}

// The administrator's lists and the cluster's networks are both in force at the
// next answer.
func TestSteeringChangesWhileItIsUsed(t *testing.T) {
	client := fake.NewClientset()
	events := record.NewFakeRecorder(10)
	s := &steering{services: &serviceCIDRs{client: client}, events: events, told: rate.NewLimiter(0, 1)}
	s.set(addresses.Default())
	loopback, service := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.96.0.1")
	expect := func(when string, ip netip.Addr, taken bool) {
		t.Helper()
		if err := s.policy().IP(ip); (err == nil) != taken {
			t.Errorf("%s: %s: %v", when, ip, err)
		}
	}
	expect("at first", loopback, false)
	expect("at first", service, true) // the cluster's networks are unknown
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR("kubernetes", "10.96.0.0/12"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.services.refresh(t.Context())
	expect("known", service, false)
	allowed, err := addresses.New([]string{"127.0.0.0/8"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.set(allowed)
	expect("allowed", loopback, true)
	expect("allowed", service, false)

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for range 3 { // above the rate of the Events
		s.refused(node, errors.New("127.0.0.1 is refused"))
	}
	if got := <-events.Events; got != "Warning ProviderMetadataRefused 127.0.0.1 is refused" || len(events.Events) > 0 {
		t.Errorf("Event %q, and %d more", got, len(events.Events))
	}
}

// A change of addresses makes no new generation: it is in force for the serving
// one.
func TestAddressesAreNoPartOfTheRevision(t *testing.T) {
	before, after := example(t, replace("", "")), example(t, replace("allow: [127.0.0.0/8", "allow: [169.254.0.0/16"))
	a, err1 := revisionOf(&before.Providers[0])
	b, err2 := revisionOf(&after.Providers[0])
	if err := errors.Join(err1, err2); err != nil || a != b {
		t.Errorf("revisions %s and %s, error %v", a, b, err)
	}
}

// A useless entry is reported once, and not while the cluster's networks are
// unknown.
func TestEntriesThatOpenNothingAreToldOf(t *testing.T) {
	lists, err := addresses.New([]string{"10.0.0.0/8", "10.100.0.0/16"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	services := &serviceCIDRs{client: fake.NewClientset(serviceCIDR("kubernetes", "10.96.0.0/12"))}
	s := &steering{services: services}
	s.set(lists)
	r, events := newTestReporter(t)
	r.idle(s.idle())
	if n := len(events); n != 0 {
		t.Errorf("%d Events before the networks of Services are known", n)
	}
	services.refresh(t.Context())
	for range 2 {
		r.idle(s.idle())
	}
	if n := len(events); n != 1 {
		t.Fatalf("%d Events, want 1", n)
	}
	if text := <-events; !strings.HasPrefix(text, "Warning "+eventWarning+" providers[].addresses.allow 10.0.0.0/8 has no effect") {
		t.Error(text)
	}
}
