package instances

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// all reads all pages.
func all(t *testing.T, i interface {
	List(token string, size int) ([]*abi.Instance, string, error)
}, size int) (found []*abi.Instance, pages int) {
	t.Helper()
	token := ""
	for pages < 1000 {
		page, next, err := i.List(token, size)
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		pages++
		found = append(found, page...)
		if next == "" {
			return found, pages
		}
		token = next
	}
	t.Fatal("the pages do not end")
	return nil, 0
}

func fill(f *fakeCloud, n int) {
	for k := range n {
		f.addServer(k, fmt.Sprintf("worker-%d", k), fmt.Sprintf("10.0.%d.%d", k/250, k%250+1))
	}
}

func TestListCalls(t *testing.T) {
	for _, test := range []struct{ servers, size, limit, pages, calls int }{
		{0, 100, 0, 1, 1}, {1, 100, 0, 1, 2}, {99, 100, 0, 1, 2}, {100, 100, 0, 1, 2}, {101, 100, 0, 2, 4}, {200, 100, 0, 2, 4}, {200, 0, 0, 2, 4}, {200, 5000, 0, 2, 4},
		{10, 1, 0, 10, 20}, {10, 3, 0, 4, 8}, {10, 100, 4, 3, 6}, {8, 100, 4, 3, 5},
	} {
		f := &fakeCloud{t: t, limit: test.limit}
		fill(f, test.servers)
		found, pages := all(t, f.instances(), test.size)
		if len(found) != test.servers || pages != test.pages || len(f.requests) != test.calls {
			t.Errorf("%+v: %d servers, %d pages, %v", test, len(found), pages, f.requests)
		}
		if f.longest > 8000 {
			t.Errorf("%+v: a URL of %d bytes", test, f.longest)
		}
	}
}

// mixed are servers of all kinds.
func mixed(t *testing.T) *fakeCloud {
	f := &fakeCloud{t: t}
	rich(f)
	f.addServer(2, "two", "10.0.0.2", "fd00::2")["status"] = "SHUTOFF"
	f.addServer(3, "deleted", "10.0.0.3")["status"] = "DELETED"
	f.addServer(4, "unspoken", "10.0.0.4")["flavor"] = object{"original_name": "4 cores"}
	f.addServer(5, "building")["status"] = "BUILD"
	f.addServer(6, "restorable", "10.0.0.6")["status"] = "SOFT_DELETED"
	f.addServer(7, "broken", "10.0.0.7", "x")
	f.addServer(8, "wrecked", "10.0.0.8")["status"] = "ERROR"
	f.addServer(9, "trunk", "10.0.0.9")
	f.ports[8]["trunk_details"] = object{"sub_ports": []object{{"port_id": "sub"}}}
	f.ports = append(f.ports, object{"id": "sub", "network_id": "n", "fixed_ips": []object{{"ip_address": "10.9.9.9"}}},
		object{"id": "second", "device_id": uuid(2), "status": "ACTIVE", "fixed_ips": []object{{"ip_address": "10.7.0.2"}}})
	f.networks = []object{{"id": "n", "name": "vlan"}}
	return f
}

func TestListIsAsTheSingleAnswers(t *testing.T) {
	for _, size := range []int{1, 2, 100} {
		f := mixed(t)
		i := f.instances("address-sort-order = fd00::/8")
		listed := map[string]*abi.Instance{}
		found, _ := all(t, i, size)
		for _, instance := range found {
			listed[instance.Metadata.ProviderId] = instance
		}
		if len(listed) != len(found) || len(found) != 6 {
			t.Errorf("%d instances, %d different", len(found), len(listed))
		}
		for _, s := range f.servers {
			node := byID(s["id"].(string))
			want, err := i.Metadata(node)
			got := listed[node.ProviderId]
			if (err == nil) != (got != nil) {
				t.Errorf("%s: listed %v, and alone %v", s["name"], got != nil, err)
			}
			if err != nil || got == nil {
				continue
			}
			state, err := i.Shutdown(node)
			if err != nil || text(got.Metadata) != text(want) || got.State != state || got.NodeName != s["name"] {
				t.Errorf("%s: %v\nlisted %s, %v, %s\nalone  %s, %v", s["name"], err, got.NodeName, got.State, text(got.Metadata), state, text(want))
			}
		}
	}
}

// 2 for all, 2 for the trunks of all, 1 for the flavors of all.
func TestListOfAllKindsTakesFiveCalls(t *testing.T) {
	f := mixed(t)
	all(t, f.instances(), 100)
	want := []string{"GET /v2.1/servers/detail", "GET /v2.0/ports", "GET /v2.0/ports", "GET /v2.0/networks", "GET /v2.1/servers/detail"}
	if !slices.Equal(f.requests, want) {
		t.Errorf("%v", f.requests)
	}
}

func TestRubbishToken(t *testing.T) {
	f := &fakeCloud{t: t}
	fill(f, 3)
	for _, token := range []string{"x", "7", strings.ToUpper(uuid(1)), uuid(1) + "&all_tenants=1", strings.ReplaceAll(uuid(1), "-", "")} {
		page, _, err := f.instances().List(token, 10)
		if sdk.CodeOf(err) != abi.CodeInvalid || page != nil || len(f.requests) != 0 {
			t.Errorf("%s: %v, %v", token, err, f.requests)
		}
	}
}

func TestMarkerIsGone(t *testing.T) {
	f := &fakeCloud{t: t}
	fill(f, 3)
	page, _, err := f.instances().List(uuid(77), 10)
	if sdk.CodeOf(err) != abi.CodeInvalid || page != nil || !strings.HasSuffix(err.Error(), "the server that the last page ended with is gone: begin with the first page") {
		t.Errorf("%v", err)
	}
}

// An incomplete list must not pass for a complete one.
func TestListThatCannotBeUsed(t *testing.T) {
	one := `{"id": "` + uuid(1) + `", "name": "a"}`
	for name, body := range map[string]string{
		"empty": `{}`, "null": `{"servers": null}`, "no list": `{"servers": {}}`, "a null": `{"servers": [null]}`, "no ID": `{"servers": [{"name": "a"}]}`,
		"truncated": `{"servers": [`, "HTML": "<html>", "a link to nowhere": `{"servers": [` + one + `], "servers_links": [{"rel": "next", "href": "http://x/?limit=5"}]}`,
		"a link to itself": `{"servers": [` + one + `], "servers_links": [{"rel": "next", "href": "http://x/?marker=` + uuid(7) + `"}]}`,
	} {
		f := &fakeCloud{t: t, instead: func(req *abi.HttpRequest) *abi.HttpResponse {
			if strings.Contains(req.Url, "/servers") {
				return answer(200, body)
			}
			return nil
		}}
		if page, next, err := f.instances().List(uuid(7), 10); err == nil || page != nil || next != "" {
			t.Errorf("%s: %v, %q, %v", name, page, next, err)
		}
	}
	for _, path := range []string{"/ports", "/networks"} {
		f := mixed(t)
		f.instead = func(req *abi.HttpRequest) *abi.HttpResponse {
			if strings.Contains(req.Url, path) {
				return answer(500, "")
			}
			return nil
		}
		if page, _, err := f.instances().List("", 100); err == nil || page != nil {
			t.Errorf("%s fails: %v, %v", path, page, err)
		}
	}
}
