//go:build openstack

package instances

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// realCloud is the real OpenStack of OPENSTACK_RC.
type realCloud struct {
	t       *testing.T
	AuthURL string `json:"auth_url"`
	Region  string
	Users   map[string]struct{ Username, Password, Domain, Project string }
	Network struct{ ID, Name string }
	Flavor  struct{ ID, Name string }
	Image   struct{ ID string }
	Zone    string `json:"server_zone"`

	token string
	hosts map[string]string // services, by type
	// requests are the guest's.
	requests []string
}

func openReal(t *testing.T, user string) *realCloud {
	t.Helper()
	path := os.Getenv("OPENSTACK_RC")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("OPENSTACK_RC must name the file that testdata/openstack/up writes: %v", err)
	}
	c := &realCloud{t: t, hosts: map[string]string{}}
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
	c.login(user)
	return c
}

func (c *realCloud) login(user string) {
	c.t.Helper()
	u := c.Users[user]
	domain := object{"name": u.Domain}
	resp := c.send("POST", c.AuthURL+"/auth/tokens", object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{"user": object{"name": u.Username, "password": u.Password, "domain": domain}}},
		"scope":    object{"project": object{"name": u.Project, "domain": domain}},
	}})
	var body struct {
		Token struct {
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range body.Token.Catalog {
		for _, e := range s.Endpoints {
			if e.Interface == "public" {
				c.hosts[s.Type] = e.URL
			}
		}
	}
	for _, h := range resp.Headers {
		if h.Name == "X-Subject-Token" {
			c.token = h.Value
		}
	}
}

// send makes requests of the test itself. A refusal ends the test.
func (c *realCloud) send(method, address string, body any) *abi.HttpResponse {
	c.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.do(&abi.HttpRequest{Method: method, Url: address, Body: encoded, Headers: []*abi.HttpHeader{{Name: "Content-Type", Value: "application/json"}}})
	if err == nil && resp.Status >= 300 {
		err = fmt.Errorf("%d %s", resp.Status, resp.Body)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, address, err)
	}
	return resp
}

func (c *realCloud) do(r *abi.HttpRequest) (*abi.HttpResponse, error) {
	req, err := http.NewRequestWithContext(c.t.Context(), r.Method, r.Url, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range r.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.Header.Set("X-Auth-Token", c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	out := &abi.HttpResponse{Status: int32(resp.StatusCode), Body: body}
	for name, values := range resp.Header {
		out.Headers = append(out.Headers, &abi.HttpHeader{Name: name, Value: values[0]})
	}
	return out, err
}

func (c *realCloud) instances(lines ...string) *Instances {
	c.t.Helper()
	text := fmt.Sprintf("[Global]\nauth-url = %s\nregion = %s\n[Networking]\n%s", c.AuthURL, c.Region, strings.Join(lines, "\n"))
	config, _, err := cloudconf.Parse([]byte(text))
	if err != nil {
		c.t.Fatal(err)
	}
	h := sdktest.New(c.t)
	h.HTTP = func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		if u, err := url.Parse(req.Url); err == nil && !strings.HasSuffix(u.Path, "/auth/catalog") {
			c.requests = append(c.requests, req.Method+" "+u.Path)
		}
		return c.do(req)
	}
	return New(api.New(h.Op(), &config.Global), config)
}

// create makes a server, deleted at the end of the test.
func (c *realCloud) create(name string, more object) string {
	c.t.Helper()
	server := object{"name": name, "flavorRef": c.Flavor.ID, "imageRef": c.Image.ID, "networks": []object{{"uuid": c.Network.ID}}}
	for key, value := range more {
		server[key] = value
	}
	resp := c.send("POST", c.hosts["compute"]+"/servers", object{"server": server})
	var body struct{ Server struct{ ID string } }
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_, _ = http.DefaultClient.Do(c.deletion(body.Server.ID)) //nolint:bodyclose // best effort
	})
	return body.Server.ID
}

func (c *realCloud) deletion(id string) *http.Request {
	req, err := http.NewRequest(http.MethodDelete, c.hosts["compute"]+"/servers/"+id, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", c.token)
	return req
}

// until waits for a server's status, or for "gone".
func (c *realCloud) until(id, status string) {
	c.t.Helper()
	got := ""
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		resp, err := c.do(&abi.HttpRequest{Method: "GET", Url: c.hosts["compute"] + "/servers/" + id})
		if err != nil {
			c.t.Fatal(err)
		}
		if got = "gone"; resp.Status != http.StatusNotFound {
			var body struct{ Server struct{ Status string } }
			if err := json.Unmarshal(resp.Body, &body); err != nil {
				c.t.Fatalf("%s", resp.Body)
			}
			got = body.Server.Status
		}
		if got == status {
			return
		}
	}
	c.t.Fatalf("the server %s is %s, want %s", id, got, status)
}

// portAddresses asks Neutron for the Node's expected addresses.
func (c *realCloud) portAddresses(id string) (want []string) {
	c.t.Helper()
	resp := c.send("GET", c.hosts["network"]+"/v2.0/ports?device_id="+id, nil)
	var body struct {
		Ports []struct {
			FixedIPs []struct {
				Address string `json:"ip_address"`
			} `json:"fixed_ips"`
		}
	}
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range body.Ports {
		for _, fixed := range p.FixedIPs {
			want = append(want, "internal "+fixed.Address)
		}
	}
	return want
}

const prefix = "instances-test-"

func TestRealServer(t *testing.T) {
	c := openReal(t, "kubernetes")
	name := fmt.Sprintf("%s%d.a", prefix, os.Getpid())
	id := c.create(name, object{"metadata": object{"hostname": "a.example.com"}, "accessIPv4": "198.51.100.7"})
	c.create(strings.Replace(name, ".", "x", 1), nil) // also matched by the name as a pattern
	c.until(id, "ACTIVE")
	i := c.instances()

	// Ports that are not bound to a machine, as with Nova's fake driver, are
	// never ACTIVE. Their addresses come last, so order is not compared.
	want := slices.Sorted(slices.Values(append(c.portAddresses(id), "external 198.51.100.7", "hostname a.example.com")))
	for _, node := range []*abi.Node{byID(id), {Name: name}, {Name: strings.ToUpper(name)}} {
		c.requests = nil
		m, err := i.Metadata(node)
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(addressesOf(m))), want) || m.ProviderId != "openstack:///"+id || m.InstanceType != c.Flavor.Name ||
			m.Zone != cmp.Or(c.Zone, m.Zone) || m.Region != c.Region || len(c.requests) != 2 {
			t.Errorf("%v: %v, %v\n%s\nwant %v", node, err, c.requests, text(m), want)
		}
		if existence, err := i.Exists(node); err != nil || existence != sdk.Exists {
			t.Errorf("%v: %v, %v", node, existence, err)
		}
		if state, err := i.Shutdown(node); err != nil || state != sdk.On {
			t.Errorf("%v: %v, %v", node, state, err)
		}
	}
	sorted := c.instances("address-sort-order = fd00::/64", "public-network-name = "+c.Network.Name)
	if m, err := sorted.Metadata(byID(id)); err != nil || !strings.HasPrefix(addressesOf(m)[0], "external fd00::") {
		t.Errorf("%v, %s", err, text(m))
	}

	c.send("POST", c.hosts["compute"]+"/servers/"+id+"/action", object{"os-stop": nil})
	c.until(id, "SHUTOFF")
	if state, err := i.Shutdown(byID(id)); err != nil || state != sdk.Shutdown {
		t.Errorf("%v, %v", state, err)
	}
}

func TestRealServerThatIsGone(t *testing.T) {
	c := openReal(t, "kubernetes")
	i := c.instances()
	id := c.create(fmt.Sprintf("%s%d-gone", prefix, os.Getpid()), nil)
	c.until(id, "ACTIVE") // Nova at once forgets a server that was never built
	c.send("DELETE", c.hosts["compute"]+"/servers/"+id, nil)
	c.until(id, "gone")
	for _, id := range []string{id, uuid(404)} {
		if existence, err := i.Exists(byID(id)); err != nil || existence != sdk.DoesNotExist {
			t.Errorf("%s: %v, %v", id, existence, err)
		}
		if _, err := i.Metadata(byID(id)); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	if existence, err := i.Exists(&abi.Node{Name: prefix + "never"}); err == nil || existence != 0 {
		t.Errorf("%v, %v", existence, err)
	}
	// A list's marker may have been deleted. One that never existed is an
	// error.
	if _, _, err := i.List(id, 10); err != nil {
		t.Error(err)
	}
	if _, _, err := i.List(uuid(404), 10); sdk.CodeOf(err) != abi.CodeInvalid || !strings.HasSuffix(err.Error(), "begin with the first page") {
		t.Error(err)
	}
}

// Nova has another 404 for unknown paths.
func TestRealUnknownPath(t *testing.T) {
	c := openReal(t, "kubernetes")
	resp, err := c.do(&abi.HttpRequest{Method: "GET", Url: c.hosts["compute"] + "/nonsense/servers/" + uuid(404)})
	if err != nil || resp.Status != http.StatusNotFound {
		t.Fatalf("%v, %v", resp, err)
	}
	f := &fakeCloud{t: t, instead: func(*abi.HttpRequest) *abi.HttpResponse { return resp }}
	if existence, err := f.instances().Exists(byID(uuid(404))); err == nil {
		t.Errorf("%v on %s", existence, resp.Body)
	}
}

// The list equals the single answers for all servers. Servers that others
// create or delete meanwhile are ignored.
func TestRealList(t *testing.T) {
	c := openReal(t, "kubernetes")
	c.list(c.instances(), 100)
	mine := map[string]bool{}
	for n := range 3 {
		id := c.create(fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), n), nil)
		mine[id] = true
	}
	for id := range mine {
		c.until(id, "ACTIVE")
	}
	i := c.instances()
	for _, size := range []int{7, 100} {
		found := c.list(i, size)
		seen := 0
		for _, instance := range found {
			id := strings.TrimPrefix(instance.Metadata.ProviderId, "openstack:///")
			if !mine[id] {
				continue
			}
			seen++
			if m, err := i.Metadata(byID(id)); err != nil || text(m) != text(instance.Metadata) {
				t.Errorf("%v\nlisted %s\nalone  %s", err, text(instance.Metadata), text(m))
			}
		}
		if seen != len(mine) {
			t.Errorf("%d of %d servers in pages of %d", seen, len(mine), size)
		}
	}
}

// list reads all pages, with 2 calls each, and reports the number.
func (c *realCloud) list(i *Instances, size int) []*abi.Instance {
	c.t.Helper()
	c.requests = nil
	began := time.Now()
	found, pages := all(c.t, i, size)
	c.t.Logf("pages of %d: %d servers, %d pages, %d calls, %v", size, len(found), pages, len(c.requests), time.Since(began).Round(time.Millisecond))
	if len(c.requests) > 2*pages || pages > len(found)/size+2 {
		c.t.Errorf("pages of %d: %d servers, %d pages, %v", size, len(found), pages, c.requests)
	}
	return found
}
