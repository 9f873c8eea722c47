package instances

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func byID(id string) *abi.Node { return &abi.Node{Name: "n", ProviderId: "openstack:///" + id} }

func TestMetadata(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "worker-1", "10.0.0.5")["OS-EXT-AZ:availability_zone"] = "rack 1/ü"
	want := "openstack:///" + uuid(1) + "\nm1.small\nrack-1\nR1\ninternal 10.0.0.5"
	for name, node := range map[string]*abi.Node{
		"by provider ID": byID(uuid(1)), "by provider ID with the region": {ProviderId: "openstack://R1/" + uuid(1)},
		"by name": {Name: "worker-1"}, "in upper case": byID(strings.ToUpper(uuid(1))), "without hyphens": byID(strings.ReplaceAll(uuid(1), "-", "")),
	} {
		f.requests = nil
		m, err := f.instances().Metadata(node)
		if err != nil || text(m) != want || len(f.requests) != 2 {
			t.Errorf("%s: %v, %v, %s", name, err, f.requests, text(m))
		}
	}
}

func TestProviderIDWithRegion(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "a", "10.0.0.5")
	i := f.configured("[Global]\nauth-url = https://keystone\nregion = R1\nregional-provider-id = true")
	m, err := i.Metadata(byID(uuid(1)))
	if err != nil || m.ProviderId != "openstack://R1/"+uuid(1) {
		t.Errorf("%v, %s", err, text(m))
	}
}

func TestExistence(t *testing.T) {
	f := &fakeCloud{t: t}
	f.addServer(1, "worker-1", "10.0.0.5")
	f.addServer(2, "twin", "10.0.0.6")
	f.addServer(3, "twin", "10.0.0.7")
	f.addServer(4, "Mixed.Case", "10.0.0.8")
	f.addServer(5, "wrecked", "10.0.0.9")["status"] = "ERROR"
	f.addServer(6, "deleted", "10.0.0.10")["status"] = "DELETED"
	f.addServer(7, "soft", "10.0.0.11")["status"] = "SOFT_DELETED"
	f.addServer(8, "mixedXcase", "10.0.0.12")
	f.addServer(9, "Case", "10.0.0.13")
	f.addServer(10, "case", "10.0.0.14")
	tests := map[string]struct {
		node *abi.Node
		want string
	}{
		"there":               {byID(uuid(1)), "exists"},
		"there, by name":      {&abi.Node{Name: "worker-1"}, "exists"},
		"by name, other case": {&abi.Node{Name: "mixed.case"}, "exists"},
		"the very name first": {&abi.Node{Name: "case"}, "exists"},
		"in ERROR":            {byID(uuid(5)), "exists"},
		"to be restored":      {byID(uuid(7)), "exists"},
		"not there":           {byID(uuid(99)), "gone"},
		"DELETED":             {byID(uuid(6)), "gone"},
		"no such name": {&abi.Node{Name: "worker"}, "node worker has no provider ID, and the project has no server of that name; give both the same name, or the kubelet --provider-id=openstack:///ID; " +
			"this does not prove that its machine is gone: the Node stays until somebody deletes it or sets its provider ID"},
		"several of a name": {&abi.Node{Name: "twin"}, "node twin has no provider ID, and 2 servers have that name (" + uuid(2) + ", " + uuid(3) +
			"); rename all but one, or give the kubelet --provider-id=openstack:///ID"},
		"no name":        {&abi.Node{}, "the node has neither a name nor a provider ID"},
		"another cloud":  {&abi.Node{Name: "n", ProviderId: "aws:///x/i-1"}, `node n: the provider ID "aws:///x/i-1" is of another cloud: it does not begin with openstack://`},
		"another region": {&abi.Node{Name: "n", ProviderId: "openstack://R2/" + uuid(1)}, `node n: the provider ID "openstack://R2/` + uuid(1) + `" is of another region than [Global] region "R1" in cloud.conf: nothing is known about servers there`},
		"no UUID":        {&abi.Node{Name: "n", ProviderId: "openstack:///detail"}, `node n: the provider ID "openstack:///detail" has no UUID, so it is not of a server of Nova`},
		"no ID":          {&abi.Node{Name: "n", ProviderId: "openstack://R1/"}, `node n: the provider ID "openstack://R1/" is none of openstack:///ID and openstack://REGION/ID`},
	}
	for name, test := range tests {
		f.requests = nil
		existence, err := f.instances().Exists(test.node)
		got := map[sdk.Existence]string{sdk.Exists: "exists", sdk.DoesNotExist: "gone"}[existence]
		if err != nil {
			got += err.Error()
		}
		if got != test.want || len(f.requests) > 1 {
			t.Errorf("%s: %s, %v\nwant %s", name, got, f.requests, test.want)
		}
		if err != nil && sdk.CodeOf(err) != abi.CodeInvalid {
			t.Errorf("%s: the code is %v", name, sdk.CodeOf(err))
		}
	}
}

// Nothing between us and Nova may make an existing server seem gone.
func TestNothingButNovaSaysGone(t *testing.T) {
	body := `{"server": {"id": "` + uuid(2) + `", "name": "n", "status": "DELETED"}}`
	for name, resp := range map[string]*abi.HttpResponse{
		"a proxy's 404":           answer(404, "<html><head><title>404 Not Found</title></head></html>"),
		"an empty 404":            answer(404, ""),
		"a 404 of the path":       answer(404, `{"message": "The resource could not be found.", "code": "404 Not Found", "title": "Not Found"}`),
		"a 404 of Neutron":        answer(404, `{"NeutronError": {"message": "not found", "type": "HTTPNotFound"}}`),
		"410":                     answer(410, `{"itemNotFound": {"message": "x", "code": 410}}`),
		"a list":                  answer(200, `{"servers": []}`),
		"an empty object":         answer(200, `{}`),
		"null":                    answer(200, `{"server": null}`),
		"a server without an ID":  answer(200, `{"server": {"status": "DELETED"}}`),
		"another server":          answer(200, body),
		"truncated":               answer(200, body[:30]),
		"HTML":                    answer(200, "<html>hello</html>"),
		"401":                     answer(401, `{"error": {"code": 401, "message": "The request you have made requires authentication."}}`),
		"403":                     answer(403, `{"forbidden": {"code": 403, "message": "Policy does not allow"}}`),
		"429":                     answer(429, ``),
		"a cell that is down":     answer(500, `{"computeFault": {"code": 500, "message": "Unexpected API Error."}}`),
		"503":                     answer(503, ``),
		"a redirect to somewhere": answer(302, ``),
	} {
		f := &fakeCloud{t: t, instead: func(*abi.HttpRequest) *abi.HttpResponse { return resp }}
		existence, err := f.instances().Exists(byID(uuid(1)))
		if err == nil || existence == sdk.DoesNotExist || sdk.CodeOf(err) == abi.CodeInstanceNotFound {
			t.Errorf("%s: %v, %v", name, existence, err)
		}
		if _, err := f.instances().Metadata(byID(uuid(1))); err == nil || sdk.CodeOf(err) == abi.CodeInstanceNotFound {
			t.Errorf("%s: metadata: %v", name, err)
		}
	}
}

func TestProxysNotFoundIsExplained(t *testing.T) {
	f := &fakeCloud{t: t, instead: func(*abi.HttpRequest) *abi.HttpResponse {
		return answer(http.StatusNotFound, "<html><head><title>no such page</title></head></html>")
	}}
	_, err := f.instances().Exists(byID(uuid(1)))
	want := "node n: GET nova/v2.1/servers/" + uuid(1) + ": the cloud answers 404 Not Found: a page of HTML: no such page; this is not Nova's word on a server, so check the compute endpoint in Keystone's catalog"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestNotThere(t *testing.T) {
	f := &fakeCloud{t: t}
	for name, node := range map[string]*abi.Node{"by ID": byID(uuid(1)), "by name": {Name: "n"}} {
		i := f.instances()
		_, err := i.Metadata(node)
		if sdk.CodeOf(err) != abi.CodeInstanceNotFound {
			t.Errorf("%s: metadata: %v", name, err)
		}
		if _, err := i.Shutdown(node); sdk.CodeOf(err) != abi.CodeInstanceNotFound {
			t.Errorf("%s: shutdown: %v", name, err)
		}
	}
}

func TestShutdown(t *testing.T) {
	off := []string{"SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED"}
	for _, status := range append([]string{"ACTIVE", "BUILD", "ERROR", "PAUSED", "SUSPENDED", "REBOOT", "RESCUE", "RESIZE", "MIGRATING", "UNKNOWN", ""}, off...) {
		f := &fakeCloud{t: t}
		f.addServer(1, "a", "10.0.0.5")["status"] = status
		state, err := f.instances().Shutdown(byID(uuid(1)))
		if err != nil || (state == sdk.Shutdown) != slices.Contains(off, status) || len(f.requests) != 1 {
			t.Errorf("%s: %v, %v, %v", status, state, err, f.requests)
		}
	}
}

func TestInstanceType(t *testing.T) {
	tests := map[string]struct {
		flavor object
		id     string
		want   string
		calls  int
	}{
		"a name":                 {object{"original_name": "m1.small"}, "1", "m1.small", 2},
		"a name that is none":    {object{"original_name": "8 vCPU, 16 GB"}, "f-8.16", "f-8.16", 3},
		"an ID that is none":     {object{"original_name": "-x"}, "8 vCPU/16", "8-vCPU-16", 3},
		"a name that is long":    {object{"original_name": strings.Repeat("x", 64)}, "1", "1", 3},
		"the ID, as old Nova":    {object{"id": "42"}, "42", "42", 2},
		"the longest name":       {object{"original_name": strings.Repeat("x", 63)}, "1", strings.Repeat("x", 63), 2},
		"a name in other script": {object{"original_name": "größe"}, "7", "7", 3},
	}
	for name, test := range tests {
		f := &fakeCloud{t: t}
		s := f.addServer(1, "a", "10.0.0.5")
		s["flavor"], s["flavor_id"] = test.flavor, test.id
		m, err := f.instances().Metadata(byID(uuid(1)))
		if err != nil || m.InstanceType != test.want || len(f.requests) != test.calls {
			t.Errorf("%s: %v, %v, %v", name, err, m, f.requests)
		}
	}
}

func TestLabel(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "nova": "nova", "a b": "a-b", "a  /b": "a-b", "-_.a.-_": "a", "é": "", "a-é-b": "a---b",
		strings.Repeat("x", 70): strings.Repeat("x", 63), strings.Repeat("x", 62) + ".yz": strings.Repeat("x", 62),
	} {
		if got := label(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
