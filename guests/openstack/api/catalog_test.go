package api

import (
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// catalogOf has one service, with endpoints given as "INTERFACE REGION URL".
func catalogOf(kind string, endpoints ...string) string {
	var b strings.Builder
	for i, e := range endpoints {
		f := strings.Fields(e)
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"interface": "` + f[0] + `", "region_id": "` + f[1] + `", "url": "` + f[2] + `"}`)
	}
	return `{"catalog": [{"type": "` + kind + `", "endpoints": [` + b.String() + `]}, {"type": "image", "endpoints": []}], "links": {}}`
}

func TestEndpoints(t *testing.T) {
	several := []string{"internal R1 http://i1", "public R2 http://p2", "public R1 http://p1", "admin R1 http://a1", "public R1 http://later"}
	tests := map[string]struct {
		catalog, region, kind string
		service               Service
		want                  string
	}{
		"the first without a region":     {catalogOf("compute", "public R http://p1", "public R http://p2"), "", "public", Compute, "http://p1/x"},
		"of a region":                    {catalogOf("compute", several...), "R1", "public", Compute, "http://p1/x"},
		"of an interface":                {catalogOf("compute", several...), "R1", "internal", Compute, "http://i1/x"},
		"admin":                          {catalogOf("compute", several...), "R1", "admin", Compute, "http://a1/x"},
		"with a version and a slash":     {catalogOf("compute", "public R http://c/v2.1/"), "", "public", Compute, "http://c/v2.1/x"},
		"with a project":                 {catalogOf("compute", "public R http://c/v2.1/0f0f"), "", "public", Compute, "http://c/v2.1/0f0f/x"},
		"Neutron without a version":      {catalogOf("network", "public R http://n:9696/"), "", "public", Network, "http://n:9696/v2.0/x"},
		"Neutron with one":               {catalogOf("network", "public R http://n/networking/v2.0/"), "", "public", Network, "http://n/networking/v2.0/x"},
		"Octavia without a version":      {catalogOf("load-balancer", "public R http://o/load-balancer"), "", "public", LoadBalancer, "http://o/load-balancer/v2.0/x"},
		"Octavia with v2":                {catalogOf("load-balancer", "public R http://o/v2"), "", "public", LoadBalancer, "http://o/v2.0/x"},
		"Cinder with a project":          {catalogOf("volumev3", "public R http://v/v3/0f0f"), "", "public", BlockStorage, "http://v/v3/0f0f/x"},
		"Cinder by another of its names": {catalogOf("block-storage", "public R http://v/v3"), "", "public", BlockStorage, "http://v/v3/x"},
	}
	for name, test := range tests {
		fake := answering(200, `{"x": {}}`)
		fake.catalog = test.catalog
		_, h := newClient(t, fake)
		config := global()
		config.Region, config.EndpointType = test.region, test.kind
		if err := New(h.Op(), config).Get(test.service, "/x", nil, "x", &struct{}{}); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := fake.sent[1].Url; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Clouds give the region as its ID or, before Mitaka's client, as its name.
func TestRegionByName(t *testing.T) {
	fake := answering(200, `{"x": {}}`)
	fake.catalog = `{"catalog": [{"type": "compute", "endpoints": [{"interface": "public", "region": "R1", "url": "http://c"}]}]}`
	_, h := newClient(t, fake)
	config := global()
	config.Region = "R1"
	if err := New(h.Op(), config).Get(Compute, "/x", nil, "x", &struct{}{}); err != nil {
		t.Error(err)
	}
}

// The servers of the other region would seem to be gone.
func TestSeveralRegionsNeedAChoice(t *testing.T) {
	fake := answering(404, `{"itemNotFound": {"message": "Instance x could not be found."}}`)
	fake.catalog = catalogOf("compute", "public R1 http://c1", "public R2 http://c2")
	_, h := newClient(t, fake)
	config := global()
	config.Region = ""
	const want = "Keystone's catalog has the service compute in several regions; set [Global] region: a server of another region must not pass for one that is gone"
	for range 2 { // the second time from the cache
		err := New(h.Op(), config).Get(Compute, "/servers/x", nil, "server", &struct{}{})
		if IsNotFound(err) || sdk.CodeOf(err) != abi.CodeInvalid || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
}

func TestKeystone(t *testing.T) {
	for authURL, want := range map[string]string{
		"https://k:5000": "https://k:5000/v3/auth/catalog", "https://k:5000/": "https://k:5000/v3/auth/catalog", "https://k:5000/v3": "https://k:5000/v3/auth/catalog",
		"https://k:5000/v3/": "https://k:5000/v3/auth/catalog", "https://k/identity/v2.0": "https://k/identity/v3/auth/catalog", "https://k/identity": "https://k/identity/v3/auth/catalog",
	} {
		fake := answering(200, `{"x": {}}`)
		_, h := newClient(t, fake)
		c := New(h.Op(), &cloudconf.Global{AuthURL: authURL, EndpointType: "public"})
		if err := c.Get(Compute, "/x", nil, "x", &struct{}{}); err != nil || fake.sent[0].Url != want {
			t.Errorf("%s: %s, %v", authURL, fake.sent[0].Url, err)
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	const want = `Keystone's catalog has no public endpoint of the service load-balancer in the region "R1"; check [Global] region and os-endpoint-type`
	for name, catalog := range map[string]string{
		"no service": `{"catalog": []}`, "another region": catalogOf("load-balancer", "public R2 http://o"),
		"another interface": catalogOf("load-balancer", "internal R1 http://o"), "no URL": `{"catalog": [{"type": "load-balancer", "endpoints": [{"interface": "public", "region": "R1"}]}]}`,
	} {
		fake := answering(200, `{}`)
		fake.catalog = catalog
		_, h := newClient(t, fake)
		config := global()
		config.Region = "R1"
		c := New(h.Op(), config)
		err := c.Get(LoadBalancer, "/lbaas/loadbalancers/x", nil, "loadbalancer", &struct{}{})
		if sdk.CodeOf(err) != abi.CodeInvalid || err.Error() != want || IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An unreadable catalog is never taken for an empty one.
func TestBrokenCatalog(t *testing.T) {
	for body, want := range map[string]string{
		"":                     `looking for the endpoints: GET keystone:5000/v3/auth/catalog: the cloud's answer cannot be used: it is not JSON`,
		"{}":                   `looking for the endpoints: GET keystone:5000/v3/auth/catalog: the cloud's answer cannot be used: it has no "catalog"`,
		`{"catalog": null}`:    `it has no "catalog"`,
		`{"catalog": {}}`:      `catalog: json: cannot unmarshal object`,
		`{"catalog": [{"endp`:  `it is not JSON (unexpected end of JSON input)`,
		"<html>please log in<": `it is not JSON`,
	} {
		fake := answering(200, `{"server": {}}`)
		c, h := newClient(t, fake)
		fake.catalog = body
		_, err := getServer(c)
		if sdk.CodeOf(err) != abi.CodeInternal || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", body, err)
		}
		// Nothing of it is kept: the next answer of Keystone is used.
		fake.catalog = catalogBody
		if _, err := getServer(New(h.Op(), global())); err != nil {
			t.Errorf("after %q: %v", body, err)
		}
	}
	fake := &cloud{respond: failing(abi.CodeUnavailable, "connection refused").respond}
	_, h := newClient(t, fake)
	h.HTTP = fake.respond
	_, err := getServer(New(h.Op(), global()))
	if sdk.CodeOf(err) != abi.CodeUnavailable || err.Error() != "looking for the endpoints: GET keystone:5000/v3/auth/catalog: http_send: connection refused" {
		t.Error(err)
	}
}

func FuzzCatalog(f *testing.F) {
	f.Add(catalogBody, "RegionOne")
	f.Add(catalogOf("network", "public R http://n/v2.0/v2/"), "")
	f.Fuzz(func(t *testing.T, body, region string) {
		fake := answering(200, `{"networks": []}`)
		fake.catalog = body
		_, h := newClient(t, fake)
		config := global()
		config.Region = region
		_, err := List[server](New(h.Op(), config), Network, "/networks", nil, "networks")
		if err == nil && !strings.HasSuffix(fake.sent[1].Url, "/v2.0/networks") {
			t.Fatal(fake.sent[1].Url)
		}
	})
}

func TestVersions(t *testing.T) {
	const want = "GET octavia:9876/: "
	for body, test := range map[string]struct {
		status int32
		ids    string
		err    string
	}{
		`{"versions": [{"id": "v2.0"}, {"id": "v2.26"}]}`: {200, "v2.0 v2.26", ""},
		`{"versions": [{"id": "v2.1"}]}`:                  {300, "v2.1", ""},
		`{"versions": []}`:                                {200, "", want + "the cloud's answer cannot be used: it has no versions"},
		`{}`:                                              {200, "", want + "the cloud's answer cannot be used: it has no versions"},
		`<html>`:                                          {200, "", want + "the cloud's answer cannot be used: it is not JSON"},
		`{"faultstring": "down"}`:                         {503, "", want + "the cloud answers 503 Service Unavailable: down"},
	} {
		fake := answering(test.status, body)
		c, _ := newClient(t, fake)
		ids, err := c.Versions(LoadBalancer)
		if strings.Join(ids, " ") != test.ids || (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%d %s: %q, %v", test.status, body, ids, err)
		}
		if urls := fake.urls(); len(urls) != 1 || urls[0] != "GET https://octavia:9876/" {
			t.Errorf("%q", urls)
		}
	}
}
