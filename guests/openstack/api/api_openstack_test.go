//go:build openstack

package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/sdktest"
)

// openstackRC is written by testdata/openstack/up for a real OpenStack.
type openstackRC struct {
	AuthURL string `json:"auth_url"`
	Region  string
	Users   map[string]struct{ Username, Password, Domain, Project string }
	Network struct{ ID string }
	Router  struct{ ID string }
}

func readRC(t *testing.T) *openstackRC {
	t.Helper()
	data, err := os.ReadFile(os.Getenv("OPENSTACK_RC"))
	rc := &openstackRC{}
	if err != nil || json.Unmarshal(data, rc) != nil {
		t.Fatalf("OPENSTACK_RC must name the file that testdata/openstack/up writes: %v", err)
	}
	return rc
}

// login returns a token of the user; for "" an invalid token.
func (rc *openstackRC) login(t *testing.T, name string) string {
	t.Helper()
	user, found := rc.Users[name]
	if !found {
		return "no-token"
	}
	domain := map[string]any{"name": user.Domain}
	body, _ := json.Marshal(map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{"name": user.Username, "password": user.Password, "domain": domain}}},
		"scope":    map[string]any{"project": map[string]any{"name": user.Project, "domain": domain}},
	}})
	resp, err := http.Post(rc.AuthURL+"/auth/tokens", "application/json", bytes.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %v, %+v", name, err, resp)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("X-Subject-Token")
}

// realClient sends requests as the user.
func realClient(t *testing.T, rc *openstackRC, user string) *Client {
	h := sdktest.New(t)
	token, catalogToken := rc.login(t, user), rc.login(t, "kubernetes")
	h.HTTP = func(r *abi.HttpRequest) (*abi.HttpResponse, error) {
		req, err := http.NewRequestWithContext(t.Context(), r.Method, r.Url, bytes.NewReader(r.Body))
		if err != nil {
			return nil, err
		}
		for _, h := range r.Headers {
			req.Header.Set(h.Name, h.Value)
		}
		req.Header.Set("X-Auth-Token", token)
		if regexp.MustCompile("/auth/catalog$").MatchString(r.Url) {
			req.Header.Set("X-Auth-Token", catalogToken)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, sdk.Error(abi.CodeUnavailable, err.Error())
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		out := &abi.HttpResponse{Status: int32(resp.StatusCode), Body: body}
		for name := range resp.Header {
			out.Headers = append(out.Headers, &abi.HttpHeader{Name: name, Value: resp.Header.Get(name)})
		}
		return out, err
	}
	return New(h.Op(), &cloudconf.Global{AuthURL: rc.AuthURL, Region: rc.Region, EndpointType: "public"})
}

const nobody = "00000000-0000-4000-8000-000000000000"

// TestRealRefusals: refusals by the services of a real OpenStack are
// understood. Each message has the request, the status, their words and the
// request's ID.
func TestRealRefusals(t *testing.T) {
	rc := readRC(t)
	get := func(service Service, path, key string, query ...string) func(c *Client) error {
		return func(c *Client) error { return c.Get(service, path, Query(query...), key, &struct{}{}) }
	}
	tests := map[string]struct {
		user string
		do   func(c *Client) error
		code abi.Code
		want string
	}{
		"Nova, gone":       {"kubernetes", get(Compute, "/servers/"+nobody, "server"), abi.CodeNotFound, `: the cloud answers 404 Not Found: Instance ` + nobody + ` could not be found\. \(req-`},
		"Nova, no UUID":    {"kubernetes", get(Compute, "/servers/"+Segment("a/../b"), "server"), abi.CodeNotFound, `: the cloud answers 404 Not Found`},
		"Nova, marker":     {"kubernetes", get(Compute, "/servers", "servers", "marker", nobody), abi.CodeInvalid, `: the cloud answers 400 Bad Request: marker \[` + nobody + `\] not found`},
		"Nova, token":      {"", get(Compute, "/servers", "servers"), abi.CodeUnauthenticated, `: the cloud answers 401 Unauthorized: .*check the Secret of the credential`},
		"Neutron, gone":    {"kubernetes", get(Network, "/ports/"+nobody, "port"), abi.CodeNotFound, `: the cloud answers 404 Not Found: Port ` + nobody + ` could not be found\.`},
		"Neutron, foreign": {"other", get(Network, "/routers/"+rc.Router.ID, "router"), abi.CodeNotFound, `: the cloud answers 404 Not Found`},
		"Neutron, token":   {"", get(Network, "/ports", "ports"), abi.CodeUnauthenticated, `: the cloud answers 401 Unauthorized`},
		"Octavia, gone":    {"kubernetes", get(LoadBalancer, "/lbaas/loadbalancers/"+nobody, "loadbalancer"), abi.CodeNotFound, `: the cloud answers 404 Not Found: `},
		"Octavia, token":   {"", get(LoadBalancer, "/lbaas/loadbalancers", "loadbalancers"), abi.CodeUnauthenticated, `: the cloud answers 401 Unauthorized`},
		"Octavia, no role": {"reader", func(c *Client) error {
			return c.Post(LoadBalancer, "/lbaas/loadbalancers", "loadbalancer", map[string]any{"name": "api-test", "vip_network_id": rc.Network.ID}, nil)
		}, abi.CodeInternal, `: the cloud answers 403 Forbidden: .*the user's roles in the project do not allow this`},
		"Octavia, wrong": {"kubernetes", func(c *Client) error {
			return c.Post(LoadBalancer, "/lbaas/loadbalancers", "loadbalancer", map[string]any{"name": "api-test", "vip_network_id": nobody}, nil)
		}, abi.CodeInvalid, `: the cloud answers 400 Bad Request: .*` + nobody},
		"Neutron, wrong": {"kubernetes", func(c *Client) error {
			return c.Put(Network, "/routers/"+rc.Router.ID, "router", map[string]any{"routes": []any{map[string]any{"destination": "x", "nexthop": "y"}}}, nil)
		}, abi.CodeInvalid, `: the cloud answers 400 Bad Request: Invalid input for routes`},
		"Neutron, outdated": {"kubernetes", func(c *Client) error {
			return c.PutRevision(Network, "/networks/"+rc.Network.ID, "network", 999999, map[string]any{"description": ""}, nil)
		}, abi.CodeConflict, `: the cloud answers 412 Precondition Failed: `},
		"Cinder, gone": {"kubernetes", get(BlockStorage, "/volumes/"+nobody, "volume"), abi.CodeNotFound, `: the cloud answers 404 Not Found: Volume ` + nobody + ` could not be found`},
	}
	for name, test := range tests {
		err := test.do(realClient(t, rc, test.user))
		t.Logf("%s: %v", name, err)
		if sdk.CodeOf(err) != test.code || err == nil || !regexp.MustCompile(test.want).MatchString(err.Error()) {
			t.Errorf("%s: code %v, want %v; %v\nwant %s", name, sdk.CodeOf(err), test.code, err, test.want)
		}
	}
}

// TestRealPages follows pages of each paged service.
func TestRealPages(t *testing.T) {
	c := realClient(t, readRC(t), "kubernetes")
	all, err := List[struct{ ID string }](c, Network, "/networks", nil, "networks")
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	paged, err := List[struct{ ID string }](c, Network, "/networks", Query("limit", "1", "fields", "id", "sort_key", "id", "sort_dir", "asc"), "networks")
	if err != nil || len(paged) != len(all) {
		t.Errorf("%d networks, page by page %d; %v", len(all), len(paged), err)
	}
	for _, list := range []struct {
		service   Service
		path, key string
	}{{Compute, "/servers", "servers"}, {LoadBalancer, "/lbaas/loadbalancers", "loadbalancers"}, {BlockStorage, "/volumes", "volumes"}} {
		if _, err := List[struct{ ID string }](c, list.service, list.path, Query("limit", "50"), list.key); err != nil {
			t.Error(err)
		}
	}
	versions, err := c.Versions(LoadBalancer)
	if err != nil || len(versions) < 10 {
		t.Error(versions, err)
	}
}
