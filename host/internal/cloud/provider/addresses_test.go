package provider

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

// What each op answers with one address or name in it.
func withIP(op abi.Op, ip string) abi.Message {
	return withIngress(op, &abi.LoadBalancerIngress{Ip: ip}, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: ip})
}

func withName(op abi.Op, name string) abi.Message {
	return withIngress(op, &abi.LoadBalancerIngress{Hostname: name}, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_EXTERNAL_DNS, Address: name})
}

func withIngress(op abi.Op, ingress *abi.LoadBalancerIngress, address *abi.NodeAddress) abi.Message {
	status := &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: "192.0.2.1"}, ingress}}
	switch op {
	case abi.OpLoadBalancerGet:
		return &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: status}
	case abi.OpLoadBalancerEnsure:
		return &abi.LoadBalancerEnsureResponse{Status: status}
	}
	return &abi.InstanceMetadataResponse{Metadata: &abi.InstanceMetadata{
		ProviderId: "fake://1", Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "10.0.0.1"}, address},
	}}
}

var steeringOps = []abi.Op{abi.OpLoadBalancerGet, abi.OpLoadBalancerEnsure, abi.OpInstanceMetadata}

// running is testService as it is while nobody has deleted it.
func running(t *testing.T) {
	t.Helper()
	testService.Spec.Type = corev1.ServiceTypeLoadBalancer
	t.Cleanup(func() { testService.Spec.Type = "" })
}

// One address that is refused fails the op, by default: with the reason, with
// nothing of the answer, and with none of the errors on which upstream deletes.
func TestAddressesAreRefused(t *testing.T) {
	running(t)
	for _, op := range steeringOps {
		var answers []abi.Message
		for _, ip := range strings.Fields("127.0.0.1 ::1 169.254.1.1 169.254.169.254 fe80::1 224.0.0.1 ff02::1 255.255.255.255 240.0.0.1 0.0.0.0 :: ::ffff:127.0.0.1 64:ff9b::7f00:1") {
			answers = append(answers, withIP(op, ip))
		}
		for _, name := range strings.Fields("localhost kubernetes.default.svc web.default.svc.cluster.local metadata.google.internal a.example. 0x7f.1") {
			answers = append(answers, withName(op, name))
		}
		for _, given := range answers {
			got, err := call(t.Context(), New(answer(t, given)), op)
			if err == nil || !strings.HasPrefix(err.Error(), op.String()+subjects[op]+": invalid answer of the guest: ") || !strings.Contains(err.Error(), "[1]") {
				t.Errorf("%s of %v: error %v", op, given, err)
			}
			for _, sentinel := range []error{cloudprovider.InstanceNotFound, cloudprovider.NotImplemented, cloudprovider.ImplementedElsewhere} {
				if errors.Is(err, sentinel) {
					t.Errorf("%s of %v: upstream takes it for %v", op, given, sentinel)
				}
			}
			switch got := got.(type) {
			case *corev1.LoadBalancerStatus:
				if got != nil {
					t.Errorf("%s: status %v", op, got)
				}
			case *cloudprovider.InstanceMetadata:
				if got != nil {
					t.Errorf("%s: metadata %v", op, got)
				}
			}
		}
	}
}

// A policy that changes is in force at the next answer.
func TestThePolicyOfNow(t *testing.T) {
	running(t)
	policy := addresses.Default()
	set := func(allow, deny []string) {
		t.Helper()
		var err error
		if policy, err = addresses.New(allow, deny); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	option := WithAddresses(func() *addresses.Policy { return policy }, func(node *corev1.Node, err error) { told = append(told, node.Name+": "+err.Error()) })
	for _, op := range steeringOps {
		told = nil
		p := New(answer(t, withIP(op, "127.0.0.1")), option)
		set(nil, nil)
		if _, err := call(t.Context(), p, op); err == nil {
			t.Errorf("%s: taken by default", op)
		}
		set([]string{"127.0.0.0/8"}, nil)
		if _, err := call(t.Context(), p, op); err != nil {
			t.Errorf("%s: allowed: %v", op, err)
		}
		set([]string{"127.0.0.0/8"}, []string{"192.0.2.0/24", "10.0.0.0/8"})
		_, err := call(t.Context(), p, op)
		if refused := (*addresses.Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "denied by") {
			t.Errorf("%s: denied: %v", op, err)
		}
		if want := map[bool]int{true: 2}[op == abi.OpInstanceMetadata]; len(told) != want {
			t.Errorf("%s: told %q, want %d", op, told, want)
		}
	}
	if len(told) == 0 || !strings.HasPrefix(told[0], "n1: instance_metadata n1: ") || !strings.Contains(told[0], "providers[].addresses.allow") {
		t.Errorf("told %q", told)
	}
}

// A load balancer with an address that is refused can be deleted: what upstream
// asks before is only whether there is one.
func TestARefusedAddressDoesNotKeepAServiceFromBeingDeleted(t *testing.T) {
	balancer, _ := New(answer(t, withIP(abi.OpLoadBalancerGet, "127.0.0.1"))).LoadBalancer()
	deleted := testService.DeepCopy()
	deleted.Spec.Type, deleted.DeletionTimestamp = corev1.ServiceTypeLoadBalancer, &metav1.Time{}
	changed := testService.DeepCopy()
	changed.Spec.Type = corev1.ServiceTypeClusterIP
	for _, service := range []*corev1.Service{deleted, changed} {
		status, exists, err := balancer.GetLoadBalancer(t.Context(), "c", service)
		if err != nil || !exists || status == nil || len(status.Ingress) != 0 {
			t.Errorf("status %v, exists %v, error %v", status, exists, err)
		}
	}
	invalid, _ := New(answer(t, &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS})).LoadBalancer()
	if _, _, err := invalid.GetLoadBalancer(t.Context(), "c", deleted); err == nil {
		t.Error("an answer without a status is taken")
	}
}

// Routes that lead where no Node's pods may be are left alone, and the others
// are kept: a private cloud lists its default route beside.
func TestForeignRoutesAreLeftOut(t *testing.T) {
	var in []*abi.Route
	for _, to := range strings.Fields("0.0.0.0/0 10.244.1.0/24 169.254.169.254/32 ::/0 10.244.2.0/24 224.0.0.0/8 127.0.0.0/8") {
		in = append(in, &abi.Route{Name: to, TargetNode: "n1", DestinationCidr: to})
	}
	got, err := call(t.Context(), New(answer(t, &abi.RouteListResponse{Routes: in, Done: true})), abi.OpRouteList)
	if err != nil {
		t.Fatal(err)
	}
	var to []string
	for _, r := range got.([]*cloudprovider.Route) {
		to = append(to, r.DestinationCIDR)
	}
	if want := []string{"10.244.1.0/24", "10.244.2.0/24"}; !slices.Equal(to, want) {
		t.Errorf("routes %q, want %q", to, want)
	}
}

// Who may make a Node must not get the traffic of others by its pods' network.
func TestRoutesThatAreNotCreated(t *testing.T) {
	never := fails(errors.New("the guest was asked"))
	for _, to := range strings.Fields("0.0.0.0/0 ::/0 127.0.0.0/24 169.254.169.254/32 224.0.0.0/24 010.0.0.0/24 ::ffff:10.0.0.0/120") {
		routes, _ := New(never).Routes()
		err := routes.CreateRoute(t.Context(), "c", "hint", &cloudprovider.Route{TargetNode: "n1", DestinationCIDR: to})
		if err == nil || strings.Contains(err.Error(), "was asked") || !strings.HasPrefix(err.Error(), "route_create "+to+" of n1: ") {
			t.Errorf("%s: %v", to, err)
		}
		// What is there can be deleted in any case.
		if err := routes.DeleteRoute(t.Context(), "c", &cloudprovider.Route{TargetNode: "n1", DestinationCIDR: to}); err == nil || !strings.Contains(err.Error(), "was asked") {
			t.Errorf("%s: %v", to, err)
		}
	}
}
