package instances

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// List returns a page of at most maxIDs servers and the token of the next page,
// empty after the last. Servers for which Metadata fails are left out. The
// token is the ID of the last server; if Nova no longer knows it, the error has
// CodeInvalid: begin again. 2 calls, 1 for a page without servers; if Metadata
// needs more, the same number for the whole page.
func (i *Instances) List(token string, size int) ([]*abi.Instance, string, error) {
	if size <= 0 || size > maxIDs {
		size = maxIDs
	}
	query, err := pageQuery(token, size)
	if err != nil {
		return nil, "", err
	}
	servers, next, err := i.page(query, token, size)
	if err != nil || len(servers) == 0 {
		return nil, next, err
	}
	ports, err := i.portsOf(servers...)
	if err != nil {
		return nil, "", err
	}
	d, err := i.details(servers, ports, func() ([]*server, error) { return i.oldPage(query) })
	if err != nil {
		return nil, "", err
	}
	return i.listed(servers, d), next, nil
}

func pageQuery(token string, size int) (url.Values, error) {
	// One more than the page shows whether it is the last.
	query := api.Query("limit", strconv.Itoa(size+1))
	if token == "" {
		return query, nil
	}
	if canonical(token) != token {
		return nil, sdk.Invalidf("the page token %.60q is not one of this provider: begin with the first page", token)
	}
	query.Set("marker", token)
	return query, nil
}

func (i *Instances) page(query url.Values, token string, size int) (servers []*server, next string, err error) {
	servers, following, err := api.Page[*server](i.client, api.Compute, "/servers/detail", query, "servers")
	if api.StatusOf(err) == 400 && token != "" {
		return nil, "", sdk.Invalidf("%v; the server that the last page ended with is gone: begin with the first page", err)
	}
	if err == nil {
		err = checkAll(servers)
	}
	if err != nil {
		return nil, "", fmt.Errorf("list of servers: %w", err)
	}
	if len(servers) > size {
		return servers[:size], servers[size-1].ID, nil
	}
	if following == nil {
		return servers, "", nil
	}
	// Nova's own limit is below the requested one.
	next = canonical(following.Get("marker"))
	if next == "" || next == token {
		return nil, "", sdk.Error(abi.CodeInternal, "list of servers: the cloud's link to the next page leads nowhere")
	}
	return servers, next, nil
}

// oldPage is the same page with the IDs of the flavors. Servers on only one of
// both pages, as they come and go, are left out.
func (i *Instances) oldPage(query url.Values) (servers []*server, err error) {
	read := &api.Read{Service: api.Compute, Path: "/servers/detail", Query: query, Version: oldVersion, Key: "servers", Out: &servers}
	err = i.client.Reads(read)[0]
	return servers, err
}

func (i *Instances) listed(servers []*server, d *details) []*abi.Instance {
	page := make([]*abi.Instance, 0, len(servers))
	for _, s := range servers {
		if s.gone() {
			continue
		}
		if m, err := i.describe(s, d); err == nil {
			page = append(page, &abi.Instance{NodeName: s.Name, Metadata: m, State: s.power()})
		}
	}
	return page
}
