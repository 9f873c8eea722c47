package loadbalancer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

const ann = "loadbalancer.openstack.org/"

// bench is a Service, its nodes and a cloud.
type bench struct {
	t       testing.TB
	host    *sdktest.Host
	cloud   *cloud
	config  *cloudconf.Config
	service *abi.Service
	nodes   []*abi.Node
}

func newBench(t testing.TB, lines ...string) *bench {
	t.Helper()
	b := &bench{t: t, host: sdktest.New(t), cloud: newCloud(t)}
	b.host.HTTP = b.cloud.serve
	b.host.Clock = b.cloud.now
	b.service = service("web", 80)
	b.nodes = nodes(3)
	b.configure(lines...)
	return b
}

func (b *bench) configure(lines ...string) {
	b.t.Helper()
	text := "[Global]\nauth-url=https://keystone\nregion=R\n[LoadBalancer]\nfloating-network-id=ext\n" + strings.Join(lines, "\n")
	config, _, err := cloudconf.Parse([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.config = config
}

func service(name string, ports ...int32) *abi.Service {
	s := &abi.Service{Namespace: "default", Name: name, Uid: "uid-" + name, IpFamilies: []string{"IPv4"}, Annotations: map[string]string{}, SessionAffinity: "None"}
	for _, p := range ports {
		s.Ports = append(s.Ports, &abi.ServicePort{Name: fmt.Sprint(p), Protocol: "TCP", Port: p, NodePort: 30000 + p})
	}
	return s
}

func nodes(count int) []*abi.Node {
	all := make([]*abi.Node, count)
	for i := range all {
		all[i] = &abi.Node{Name: fmt.Sprintf("node-%d", i), ProviderId: fmt.Sprintf("openstack:///server-%d", i), Labels: map[string]string{"n": fmt.Sprint(i)}, Addresses: []*abi.NodeAddress{
			{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: fmt.Sprintf("10.0.0.%d", 10+i)},
			{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: fmt.Sprintf("fd00::%d", 10+i)},
		}}
	}
	return all
}

func (b *bench) request() *abi.LoadBalancerRequest {
	return &abi.LoadBalancerRequest{ClusterName: "c", Service: b.service, Nodes: b.host.Nodes(b.nodes...)}
}

func (b *bench) client() *api.Client { return api.New(b.host.Op(), &b.config.Global) }

func (b *bench) ensureOnce() (*abi.LoadBalancerStatus, error) {
	status, err := loadbalancer.Ensure(b.client(), b.config, b.request())
	if err == nil {
		b.host.Answered(abi.OpLoadBalancerEnsure, &abi.LoadBalancerEnsureResponse{Status: status})
	}
	return status, err
}

// again repeats an op as the host does, until it is neither in progress nor
// interrupted. It returns the number of runs.
func (b *bench) again(op func() error) (int, error) {
	for n := 1; n < 400; n++ {
		err := op()
		b.host.Clock = b.host.Clock.Add(time.Second)
		b.cloud.now = b.host.Clock
		if code := sdk.CodeOf(err); code != abi.CodeRetryAfter && code != abi.CodeUnavailable {
			return n, err
		}
	}
	b.t.Fatalf("it does not end; the last calls: %v", b.cloud.calls[max(0, len(b.cloud.calls)-20):])
	return 0, nil
}

func (b *bench) tryEnsure() (string, error) {
	var status *abi.LoadBalancerStatus
	_, err := b.again(func() (err error) {
		status, err = b.ensureOnce()
		return err
	})
	if err != nil {
		return "", err
	}
	b.service.Status = status
	in := status.Ingress[0]
	return in.Ip + in.Hostname, nil
}

func (b *bench) ensure() string {
	b.t.Helper()
	address, err := b.tryEnsure()
	if err != nil {
		b.t.Fatalf("ensure: %v", err)
	}
	return address
}

func (b *bench) update() {
	b.t.Helper()
	if _, err := b.again(func() error { return loadbalancer.Update(b.client(), b.config, b.request()) }); err != nil {
		b.t.Fatalf("update: %v", err)
	}
}

func (b *bench) delete() {
	b.t.Helper()
	if _, err := b.again(func() error { return loadbalancer.Delete(b.client(), b.config, b.request()) }); err != nil {
		b.t.Fatalf("delete: %v", err)
	}
}

func (b *bench) exists() bool {
	b.t.Helper()
	existence, _ := b.get()
	return existence == sdk.Exists
}

func (b *bench) get() (sdk.Existence, *abi.LoadBalancerStatus) {
	b.t.Helper()
	existence, status, err := loadbalancer.Get(b.client(), b.config, b.request())
	if err != nil {
		b.t.Fatalf("get: %v", err)
	}
	b.host.Answered(abi.OpLoadBalancerGet, &abi.LoadBalancerGetResponse{Existence: existence, Status: status})
	return existence, status
}

// quiet fails if another ensure or update writes.
func (b *bench) quiet() {
	b.t.Helper()
	b.cloud.reset()
	b.ensure()
	b.update()
	if writes := b.cloud.writes(); len(writes) > 0 {
		b.t.Fatalf("with nothing to do there were writes: %v %v", writes, b.cloud.bodies)
	}
}

func (b *bench) empty() {
	b.t.Helper()
	for _, table := range []string{"loadbalancers", "listeners", "pools", "members", "healthmonitors", "floatingips"} {
		if rows := b.cloud.tables[table]; len(rows) > 0 {
			b.t.Fatalf("%d %s are left: %v", len(rows), table, rows[0].values)
		}
	}
}

func (b *bench) addresses(port string) string {
	var all []string
	for _, m := range b.cloud.where("members", "protocol_port", port) {
		all = append(all, str(m.values["address"]))
	}
	return strings.Join(all, " ")
}

func TestLife(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
	}{
		{"whole", nil},
		{"piece by piece", []string{"provider-requires-serial-api-calls=true"}},
		{"ovn", []string{"lb-provider=ovn"}},
		{"without cascade", []string{"cascade-delete=false"}},
		{"with monitors", []string{"create-monitor=true"}},
	} {
		for looks := range 4 {
			t.Run(fmt.Sprintf("%s, %d looks", test.name, looks), func(t *testing.T) {
				b := newBench(t, test.lines...)
				b.cloud.looks = looks
				address := b.ensure()
				if !strings.HasPrefix(address, "203.0.113.") {
					t.Fatalf("the address is %q, no floating IP", address)
				}
				if got := b.addresses("30080"); got != "10.0.0.10 10.0.0.11 10.0.0.12" {
					t.Fatalf("the members are %q", got)
				}
				b.quiet()
				b.nodes = nodes(2)
				b.update()
				if got := b.addresses("30080"); got != "10.0.0.10 10.0.0.11" {
					t.Fatalf("the members after an update are %q", got)
				}
				b.service.Ports = service("web", 443, 80).Ports
				if again := b.ensure(); again != address {
					t.Fatalf("the address changed from %s to %s", address, again)
				}
				if got := b.addresses("30443"); got != "10.0.0.10 10.0.0.11" {
					t.Fatalf("the members of the second port are %q", got)
				}
				b.quiet()
				if !b.exists() {
					t.Fatal("get does not find it")
				}
				b.delete()
				b.empty()
				if b.exists() {
					t.Fatal("get finds what is deleted")
				}
				b.delete()
			})
		}
	}
}
