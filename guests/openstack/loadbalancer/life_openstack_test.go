//go:build openstack

package loadbalancer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/loadbalancer"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// real is a Service, its nodes and a real OpenStack. Its state is read by
// ovn-nbctl and openstacksdk, never by the code under test.
type real struct {
	*bench
	rc struct {
		AuthURL         string `json:"auth_url"`
		Region          string
		Users           map[string]struct{ Username, Password, Domain, Project string }
		Network         struct{ ID, Name string }
		ExternalNetwork struct{ ID string } `json:"external_network"`
	}
	token string
	tools string
	calls []string
	// lose, if set, chooses the answers that are lost after their effect.
	lose func(n int) bool
}

func newReal(t *testing.T, name string, lines ...string) *real {
	t.Helper()
	r := &real{bench: &bench{t: t, host: sdktest.New(t), cloud: &cloud{}}}
	path := os.Getenv("OPENSTACK_RC")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("OPENSTACK_RC must name the file that testdata/openstack/up writes: %v", err)
	}
	if err := json.Unmarshal(data, &r.rc); err != nil {
		t.Fatal(err)
	}
	if r.tools, err = filepath.Abs("../../../testdata/openstack"); err != nil {
		t.Fatal(err)
	}
	r.login()
	r.host.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		_, path, _ := strings.Cut(strings.TrimPrefix(req.Url, "http://"), "/")
		r.calls = append(r.calls, req.Method+" /"+path)
		resp, err := r.do(req)
		if r.lose != nil && r.lose(len(r.calls)) {
			return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "the answer is lost"}
		}
		return resp, err
	}
	text := fmt.Sprintf("[Global]\nauth-url=%s\nregion=%s\n[LoadBalancer]\nlb-provider=ovn\n%s", r.rc.AuthURL, r.rc.Region, strings.Join(lines, "\n"))
	if r.config, _, err = cloudconf.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	r.service = service(name, 80)
	return r
}

func (r *real) login() {
	r.t.Helper()
	u := r.rc.Users["kubernetes"]
	domain := object{"name": u.Domain}
	body, err := json.Marshal(object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{"user": object{"name": u.Username, "password": u.Password, "domain": domain}}},
		"scope":    object{"project": object{"name": u.Project, "domain": domain}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.do(&abi.HttpRequest{Method: "POST", Url: r.rc.AuthURL + "/auth/tokens", Body: body, Headers: []*abi.HttpHeader{{Name: "Content-Type", Value: "application/json"}}})
	if err == nil && resp.Status != 201 {
		err = fmt.Errorf("%d %s", resp.Status, resp.Body)
	}
	if err != nil {
		r.t.Fatalf("login: %v", err)
	}
	for _, h := range resp.Headers {
		if h.Name == "X-Subject-Token" {
			r.token = h.Value
		}
	}
}

func (r *real) do(in *abi.HttpRequest) (*abi.HttpResponse, error) {
	req, err := http.NewRequestWithContext(context.Background(), in.Method, in.Url, bytes.NewReader(in.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range in.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set("X-Auth-Token", r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	out := &abi.HttpResponse{Status: int32(resp.StatusCode), Body: body}
	for name, values := range resp.Header {
		out.Headers = append(out.Headers, &abi.HttpHeader{Name: name, Value: values[0]})
	}
	return out, err
}

// tool runs a helper on the cloud's machine.
func (r *real) tool(input, name string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(r.tools, name), args...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s %v: %v: %s", name, args, err, stderr.String())
	}
	return string(out)
}

// clock sets the host's clock, which decides how long an object has been
// pending.
func (r *real) clock() { r.host.Clock = time.Now() }

// until repeats an op at the times it asks for, as the host does.
func (r *real) until(what string, op func() error) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		r.clock()
		err := op()
		if err == nil {
			return
		}
		code := sdk.CodeOf(err)
		if code != abi.CodeRetryAfter && code != abi.CodeUnavailable {
			r.t.Fatalf("%s: %v", what, err)
		}
		if code == abi.CodeRetryAfter {
			<-time.After(time.Second) // as the host would
		}
	}
	r.t.Fatalf("%s does not end", what)
}

func (r *real) apply() string {
	r.t.Helper()
	r.until("ensure", func() error {
		status, err := r.ensureOnce()
		if err == nil {
			r.service.Status = status
		}
		return err
	})
	return r.service.Status.Ingress[0].Ip
}

func (r *real) remove() {
	r.t.Helper()
	r.until("delete", func() error { return loadbalancer.Delete(r.client(), r.config, r.request()) })
}

// vips are OVN's load balancers: VIPs to backends, sorted.
func (r *real) vips(ports []string) map[string][]string {
	r.t.Helper()
	found := map[string][]string{}
	out := r.tool("", "nb", "--format=json", "--columns=vips,external_ids", "list", "load_balancer")
	var table struct{ Data [][]json.RawMessage }
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		r.t.Fatalf("ovn-nbctl: %v: %s", err, out)
	}
	for _, row := range table.Data {
		if !slices.ContainsFunc(ports, func(id string) bool { return strings.Contains(string(row[1]), id) }) {
			continue
		}
		var tagged []json.RawMessage
		var pairs [][2]string
		if err := json.Unmarshal(row[0], &tagged); err != nil {
			r.t.Fatal(err)
		}
		if err := json.Unmarshal(tagged[1], &pairs); err != nil {
			r.t.Fatal(err)
		}
		for _, pair := range pairs {
			backends := strings.Split(pair[1], ",")
			slices.Sort(backends)
			found[pair[0]] = backends
		}
	}
	return found
}

func (r *real) name() string { return loadbalancer.Name("c", r.service) }

// sdk evaluates an expression of openstacksdk that yields a list of words.
func (r *real) sdk(expression string) []string {
	r.t.Helper()
	script := "import openstack\nNAME=%q\nc=openstack.connect(cloud='kubernetes')\nprint(*[str(x) for x in %s])\n"
	return strings.Fields(r.tool(fmt.Sprintf(script, r.name(), expression), "os"))
}

// forwards waits until OVN forwards, which is a little after Octavia's ACTIVE.
func (r *real) forwards(wanted map[string][]string) {
	r.t.Helper()
	ports := r.sdk("[b.vip_port_id for b in c.load_balancer.load_balancers(name=NAME)]")
	var got map[string][]string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if got = r.vips(ports); maps.EqualFunc(got, wanted, slices.Equal) {
			return
		}
	}
	r.t.Fatalf("OVN forwards %v, not %v", got, wanted)
}

// machines are nodes with ports in that OpenStack: load balancers see no more
// of a server.
func (r *real) machines(count int, prefix string) {
	r.t.Helper()
	script := "import json,openstack\nc=openstack.connect(cloud='kubernetes')\n"
	r.t.Cleanup(func() {
		r.tool(script+fmt.Sprintf("for p in list(c.network.ports()):\n  if p.name.startswith(%q): c.network.delete_port(p)\n", prefix+"-"), "os")
	})
	out := r.tool(script+fmt.Sprintf("print(json.dumps([[a['ip_address'] for a in c.network.create_port(network_id=%q,name='%s-%%d'%%i,device_id='%s-%%d'%%i).fixed_ips] for i in range(%d)]))\n", r.rc.Network.ID, prefix, prefix, count), "os")
	var addresses [][]string
	if err := json.Unmarshal([]byte(out), &addresses); err != nil {
		r.t.Fatalf("ports: %v: %s", err, out)
	}
	for i, list := range addresses {
		node := &abi.Node{Name: fmt.Sprintf("%s-%d", prefix, i), ProviderId: fmt.Sprintf("openstack:///%s-%d", prefix, i)}
		for _, a := range list {
			node.Addresses = append(node.Addresses, &abi.NodeAddress{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: a})
		}
		r.nodes = append(r.nodes, node)
	}
}

func (r *real) backends(port int, family string) []string {
	var all []string
	for _, n := range r.nodes {
		for _, a := range n.Addresses {
			if strings.Contains(a.Address, ":") == (family == "IPv6") {
				all = append(all, net.JoinHostPort(a.Address, fmt.Sprint(port)))
			}
		}
	}
	slices.Sort(all)
	return all
}

// quietly fails if an op writes.
func (r *real) quietly(what string, op func()) {
	r.t.Helper()
	r.calls = nil
	op()
	for _, call := range r.calls {
		if !strings.HasPrefix(call, "GET ") {
			r.t.Fatalf("%s writes with nothing to do: %v", what, r.calls)
		}
	}
	r.t.Logf("%s: %d reads", what, len(r.calls))
}

func TestRealLife(t *testing.T) {
	r := newReal(t, "lbc-life")
	r.machines(3, "lbc-life")
	fip := r.apply()
	t.Cleanup(r.remove)
	vip := r.sdk("[b.vip_address for b in c.load_balancer.load_balancers(name=NAME)]")[0]
	if bound := r.sdk("[f.floating_ip_address for f in c.network.ips() if f.fixed_ip_address=='" + vip + "']"); !slices.Equal(bound, []string{fip}) {
		t.Fatalf("the address is %s; the floating IPs at the VIP %s are %v", fip, vip, bound)
	}
	wanted := map[string][]string{vip + ":80": r.backends(30080, "IPv4"), fip + ":80": r.backends(30080, "IPv4")}
	r.forwards(wanted)
	r.quietly("ensure", func() { r.apply() })
	r.quietly("update", func() {
		r.until("update", func() error { return loadbalancer.Update(r.client(), r.config, r.request()) })
	})

	all := r.nodes
	r.nodes = all[:2]
	r.until("update", func() error { return loadbalancer.Update(r.client(), r.config, r.request()) })
	wanted[vip+":80"], wanted[fip+":80"] = r.backends(30080, "IPv4"), r.backends(30080, "IPv4")
	r.forwards(wanted)

	r.nodes = all
	r.service.Ports = service("x", 8080, 443).Ports
	if again := r.apply(); again != fip {
		t.Fatalf("the address changed from %s to %s", fip, again)
	}
	wanted = map[string][]string{}
	for _, address := range []string{vip, fip} {
		wanted[address+":8080"], wanted[address+":443"] = r.backends(38080, "IPv4"), r.backends(30443, "IPv4")
	}
	r.forwards(wanted)
	r.quietly("ensure", func() { r.apply() })

	r.remove()
	if left := r.sdk("[b.id for b in c.load_balancer.load_balancers(name=NAME)]"); len(left) > 0 {
		t.Fatalf("load balancers are left: %v", left)
	}
	if left := r.sdk("[f.id for f in c.network.ips() if '/lbc-life ' in (f.description or '')]"); len(left) > 0 {
		t.Fatalf("floating IPs are left: %v", left)
	}
	if existence, _, err := loadbalancer.Get(r.client(), r.config, r.request()); err != nil || existence != sdk.DoesNotExist {
		t.Fatalf("get: %v, %v", existence, err)
	}
	r.remove()
}

// TestRealKinds: several kinds of Services, with the answer of every other
// write lost.
func TestRealKinds(t *testing.T) {
	r := newReal(t, "lbc-kinds")
	r.machines(3, "lbc-kinds")
	written := 0
	lose := func(n int) bool {
		if strings.HasPrefix(r.calls[n-1], "GET ") {
			return false
		}
		written++
		return written%2 == 1
	}
	for _, test := range []struct {
		name    string
		set     func()
		family  string
		fip     bool
		monitor bool
	}{
		{name: "udp", set: func() { r.service.Ports[0].Protocol = "UDP" }, family: "IPv4", fip: true},
		{name: "internal", set: func() { r.service.Annotations[internal] = "true" }, family: "IPv4"},
		{name: "six", set: func() { r.service.IpFamilies = []string{"IPv6"} }, family: "IPv6"},
		{name: "monitored", set: func() { r.service.Annotations[ann+"enable-health-monitor"] = "true" }, family: "IPv4", fip: true, monitor: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.t = t
			r.service = service("lbc-"+test.name, 80)
			test.set()
			r.lose = lose
			address := r.apply()
			t.Cleanup(func() { r.t = t; r.remove() })
			r.lose = nil
			facts := r.sdk("[x for b in c.load_balancer.load_balancers(name=NAME) for x in (b.vip_address, len(b.listeners), len(b.pools), len([f for f in c.network.ips() if f.port_id==b.vip_port_id]))]")
			monitors := r.sdk("[m.type for m in c.load_balancer.health_monitors() if m.name.endswith(NAME)]")
			floating := map[bool]string{true: "1", false: "0"}[test.fip]
			if len(facts) != 4 || facts[1] != "1" || facts[2] != "1" || facts[3] != floating || (len(monitors) == 1) != test.monitor {
				t.Fatalf("there are %v (VIP, listeners, pools, floating IPs), monitors %v", facts, monitors)
			}
			backends := r.backends(30080, test.family)
			r.forwards(map[string][]string{net.JoinHostPort(facts[0], "80"): backends, net.JoinHostPort(address, "80"): backends})
			r.quietly("ensure", func() { r.apply() })
			r.lose = lose
			r.remove()
			r.lose = nil
			if left := r.sdk("[b.id for b in c.load_balancer.load_balancers(name=NAME)]+[f.id for f in c.network.ips() if '/lbc-" + test.name + " ' in (f.description or '')]"); len(left) > 0 {
				t.Fatalf("left are %v", left)
			}
		})
	}
}
