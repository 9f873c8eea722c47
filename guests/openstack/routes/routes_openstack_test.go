//go:build openstack

package routes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// scripts has the cloud's own tools: the tests compare with them, not with our
// code.
const scripts = "../../../testdata/openstack/"

func python(t *testing.T, name string) string {
	t.Helper()
	script, err := os.ReadFile("testdata/" + name)
	must(t, err)
	return tool(t, bytes.NewReader(script), "os")
}

func tool(t *testing.T, in io.Reader, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, scripts+name, args...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, complaints.String())
	}
	return strings.TrimSpace(out.String())
}

// realCloud is the real OpenStack of OPENSTACK_RC.
type realCloud struct {
	AuthURL string `json:"auth_url"`
	Region  string
	Users   map[string]struct{ Username, Password, Domain, Project string }

	router, token string
	// old: the cloud seems to lack the extension extraroute-atomic.
	old   bool
	mu    sync.Mutex
	calls map[string]int
}

func openReal(t *testing.T) *realCloud {
	t.Helper()
	data, err := os.ReadFile(os.Getenv("OPENSTACK_RC"))
	if err != nil {
		t.Fatalf("OPENSTACK_RC must name the file that testdata/openstack/up writes: %v", err)
	}
	c := &realCloud{calls: map[string]int{}}
	must(t, json.Unmarshal(data, c))
	c.login(t, "kubernetes")
	python(t, "teardown.py")
	t.Cleanup(func() { python(t, "teardown.py") })
	var made struct{ Router string }
	must(t, json.Unmarshal([]byte(python(t, "setup.py")), &made))
	c.router = made.Router
	return c
}

func (c *realCloud) login(t *testing.T, user string) {
	t.Helper()
	u := c.Users[user]
	domain := map[string]string{"name": u.Domain}
	body, err := json.Marshal(map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{"name": u.Username, "password": u.Password, "domain": domain}}},
		"scope":    map[string]any{"project": map[string]any{"name": u.Project, "domain": domain}},
	}})
	must(t, err)
	resp, err := http.Post(strings.TrimSuffix(c.AuthURL, "/v3")+"/v3/auth/tokens", "application/json", bytes.NewReader(body))
	must(t, err)
	must(t, resp.Body.Close())
	if c.token = resp.Header.Get("X-Subject-Token"); c.token == "" {
		t.Fatalf("login of %s: %s", user, resp.Status)
	}
}

func (c *realCloud) serve(r *abi.HttpRequest) (*abi.HttpResponse, error) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.Url, "http://"), "/")
	path, _, _ = strings.Cut(path, "?")
	call := r.Method + " " + path
	c.mu.Lock()
	c.calls[call]++
	c.mu.Unlock()
	if c.old && strings.Contains(path, "extraroute") {
		return &abi.HttpResponse{Status: 404, Body: []byte("{}")}, nil
	}
	req, err := http.NewRequest(r.Method, r.Url, bytes.NewReader(r.Body))
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
	answer, err := io.ReadAll(resp.Body)
	return &abi.HttpResponse{Status: int32(resp.StatusCode), Body: answer}, err
}

func (c *realCloud) counted() (writes, reads int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call, n := range c.calls {
		if strings.HasPrefix(call, "GET ") {
			reads += n
		} else {
			writes += n
		}
	}
	c.calls = map[string]int{}
	return writes, reads
}

func (c *realCloud) manager(t *testing.T, router string) *manager {
	t.Helper()
	config := &cloudconf.Config{
		Global: cloudconf.Global{AuthURL: c.AuthURL, Region: c.Region, EndpointType: "public"},
		Route:  cloudconf.Route{RouterID: router},
	}
	h := sdktest.New(t)
	h.HTTP = c.serve
	return &manager{h, config}
}

// plan is n routes to five servers, half of them IPv6: ten for each port.
func plan(n int) (all []*abi.Route, state, ovn []string) {
	for i := range n {
		server, hop, cidr := i%5, "", ""
		if i%2 == 0 {
			cidr, hop = fmt.Sprintf("10.177.%d.0/24", i), fmt.Sprintf("10.77.0.%d", 10+server)
		} else {
			cidr, hop = fmt.Sprintf("fd01:0:0:%x::/64", i), fmt.Sprintf("fd77::%x", 10+server)
		}
		all = append(all, route(fmt.Sprintf("routes-%d", server), cidr, hop))
		state = append(state, cidr+" via "+hop, fmt.Sprintf("routes-%d allows %s", server, cidr))
		ovn = append(ovn, cidr+" "+hop)
	}
	slices.Sort(state)
	slices.Sort(ovn)
	return all, state, ovn
}

// check compares the reports of openstacksdk and of OVN's database.
func (c *realCloud) check(t *testing.T, what string, state, ovn []string) {
	t.Helper()
	got := strings.Split(python(t, "state.py"), "\n")
	slices.Sort(got)
	check(t, what+": openstacksdk", strings.Join(got, "\n"), strings.Join(state, "\n"))
	inOVN := []string{}
	for line := range strings.Lines(tool(t, nil, "nb", "lr-route-list", "neutron-"+c.router)) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.Contains(fields[0], "/") {
			inOVN = append(inOVN, fields[0]+" "+fields[1])
		}
	}
	slices.Sort(inOVN)
	// Neutron may give OVN a route twice (RATIONALE.md): the duplicate is
	// harmless, and a delete removes both.
	once := slices.Compact(slices.Clone(inOVN))
	t.Logf("%s: %d routes are in OVN twice", what, len(inOVN)-len(once))
	inOVN = once
	check(t, what+": OVN", strings.Join(inOVN, "\n"), strings.Join(ovn, "\n"))
}

// all applies do to all routes, eight in parallel as a guest's instances do,
// each with its own cache. It returns the number of failures: Neutron answers
// 500 to some concurrent changes, and upstream retries these.
func (c *realCloud) all(t *testing.T, list []*abi.Route, do func(*manager, *abi.Route) error) (failed int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 8)
	for _, r := range list {
		slots <- struct{}{}
		m := c.manager(t, c.router)
		wg.Go(func() {
			defer func() { <-slots }()
			if err := do(m, r); err != nil {
				t.Logf("%s: %v", r.DestinationCidr, err)
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

// settle lets a restarted manager reconcile until nothing is left to do, as
// upstream does every ten seconds.
func (c *realCloud) settle(t *testing.T, nodes []node) (passes int) {
	t.Helper()
	for passes < 6 {
		c.counted()
		if m := c.manager(t, c.router); m.reconcile(nodes) {
			if writes, _ := c.counted(); writes == 0 {
				return passes
			}
		}
		passes++
	}
	t.Errorf("not settled after %d passes", passes)
	return passes
}

func nodesOf(all []*abi.Route) (nodes []node) {
	for _, r := range all {
		nodes = append(nodes, node{r.TargetNode, r.TargetNodeAddresses[1].Address, r.DestinationCidr})
	}
	return nodes
}

func TestRealRoutes(t *testing.T) {
	c := openReal(t)
	for _, old := range []bool{false, true} {
		c.old = old
		n := 50
		if old { // each change waits for the previous ones
			n = 20
		}
		all, state, ovn := plan(n)
		start := time.Now()
		c.counted()
		failed := c.all(t, all, (*manager).create)
		writes, reads := c.counted()
		t.Logf("without extraroute-atomic %v: %d concurrent creates in %v, %d failed, %d writes, %d reads", old, n, time.Since(start).Round(time.Millisecond), failed, writes, reads)
		if !old {
			check(t, "failed", failed, 0)
			check(t, "routes lost by Neutron", n-strings.Count(python(t, "state.py"), " via "), 0)
		}
		t.Logf("%d more passes", c.settle(t, nodesOf(all)))
		c.check(t, "created", state, ovn)

		c.counted()
		m := c.manager(t, c.router) // restarted
		listed, err := m.r().List()
		must(t, err)
		for i, r := range listed {
			if r.Blackhole || r.HasTargetNodeAddresses || !strings.HasPrefix(r.TargetNode, "routes-") {
				t.Errorf("listed[%d]: %v", i, r)
			}
		}
		check(t, "listed", len(listed), n)
		_, reads = c.counted()
		t.Logf("list after a restart: %d reads with the catalog", reads)
		m.list(t)
		_, reads = c.counted()
		check(t, "reads of a list", reads, 1)

		c.all(t, listed, (*manager).delete)
		c.settle(t, nil)
		for _, r := range listed { // again, one by one
			must(t, m.delete(r))
		}
		c.check(t, "deleted", []string{""}, nil)
	}
}

func TestRealHalfARoute(t *testing.T) {
	c := openReal(t)
	all, state, ovn := plan(10)
	c.all(t, all, (*manager).create)
	nodes := nodesOf(all)
	c.settle(t, nodes)
	python(t, "half.py")
	m := c.manager(t, c.router)
	listed, err := m.r().List()
	must(t, err)
	for i, r := range listed {
		check(t, fmt.Sprintf("half %d %v", i, r), r.HasTargetNodeAddresses, r.TargetNode == "routes-0")
	}
	c.counted()
	if !m.reconcile(nodes) {
		t.Error("the pass that mends fails")
	}
	c.check(t, "mended", state, ovn)
	c.counted()
	m.reconcile(nodes)
	writes, reads := c.counted()
	check(t, "writes and reads of a pass without a change", []int{writes, reads}, []int{0, 1})
	m.reconcile(nil)
	c.check(t, "without Nodes", []string{""}, nil)
}

func TestRealRefusals(t *testing.T) {
	c := openReal(t)
	ok := route("routes-0", "10.177.0.0/24", "10.77.0.10")
	const nobody = "00000000-0000-4000-8000-000000000000"
	_, listErr := c.manager(t, nobody).r().List()
	for what, test := range map[string]struct {
		err  error
		code abi.Code
		want string
	}{
		"list of a wrong router":   {listErr, abi.CodeInvalid, "[Route] router-id in cloud.conf: there is no router"},
		"create at a wrong router": {c.manager(t, nobody).create(ok), abi.CodeInvalid, "[Route] router-id in cloud.conf: there is no router"},
		"no such port":             {c.manager(t, c.router).create(route("routes-9", "10.177.0.0/24", "10.77.0.99")), abi.CodeInstanceNotFound, "no port of this project has its address"},
	} {
		if sdk.CodeOf(test.err) != test.code || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v (%v)", what, test.err, sdk.CodeOf(test.err))
		}
	}
	must(t, c.manager(t, c.router).create(ok))
	c.login(t, "other")
	if listed, err := c.manager(t, c.router).r().List(); err == nil {
		t.Errorf("another project sees %v", listed)
	}
	if err := c.manager(t, c.router).create(ok); err == nil {
		t.Error("another project creates a route")
	}
	// Zed's Neutron lets users with the role reader write, so there is no 403.
	c.check(t, "afterwards", []string{"10.177.0.0/24 via 10.77.0.10", "routes-0 allows 10.177.0.0/24"}, []string{"10.177.0.0/24 10.77.0.10"})
}
