package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// pages answers by the query of a request, "" for the first page.
func pages(bodies map[string]string) *cloud {
	return &cloud{respond: func(req *abi.HttpRequest) (*abi.HttpResponse, error) {
		_, query, _ := strings.Cut(req.Url, "?")
		body, found := bodies[query]
		if !found {
			return &abi.HttpResponse{Status: 400, Body: []byte("no such page: " + query)}, nil
		}
		return &abi.HttpResponse{Status: 200, Body: []byte(body)}, nil
	}}
}

// page has one server and a link to the next page, if any.
func page(id, next string) string {
	links := ""
	if next != "" {
		links = `, "servers_links": [{"rel": "previous", "href": "https://x?marker=before"}, {"rel": "next", "href": "` + next + `"}]`
	}
	return `{"servers": [{"id": "` + id + `"}]` + links + `}`
}

func listServers(c *Client) (string, error) {
	all, err := List[server](c, Compute, "/servers/detail", Query("limit", "1"), "servers")
	ids := ""
	for _, s := range all {
		ids += s.ID
	}
	return ids, err
}

func TestPages(t *testing.T) {
	// Behind a proxy the cloud's own URL differs. Host and path stay ours, and
	// so does the credential.
	fake := pages(map[string]string{
		"limit=1":              page("a", "http://10.0.0.1:8774/v2.1/servers/detail?limit=1&marker=a"),
		"limit=1&marker=a":     page("b", "https://evil.example.com/steal?limit=1&marker=b%26x"),
		"limit=1&marker=b%26x": page("c", "?marker=c"),
		"marker=c":             `{"servers": [], "servers_links": [{"rel": "next", "href": "/servers?marker=d&marker=e"}]}`,
		"marker=d&marker=e":    page("d", "") + "\n",
	})
	c, _ := newClient(t, fake)
	if ids, err := listServers(c); ids != "abcd" || err != nil {
		t.Error(ids, err)
	}
	want := []string{}
	for _, query := range []string{"limit=1", "limit=1&marker=a", "limit=1&marker=b%26x", "marker=c", "marker=d&marker=e"} {
		want = append(want, "GET https://nova:8774/v2.1/servers/detail?"+query)
	}
	if diff := cmp.Diff(want, fake.urls()); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyList(t *testing.T) {
	c, _ := newClient(t, pages(map[string]string{"limit=1": `{"servers": [], "servers_links": []}`}))
	all, err := List[server](c, Compute, "/servers/detail", Query("limit", "1"), "servers")
	if all == nil || len(all) != 0 || err != nil {
		t.Error(all, err)
	}
}

// A list is complete or an error.
func TestBrokenLists(t *testing.T) {
	const path = "GET nova:8774/v2.1/servers/detail: "
	two := "http://x?limit=1&marker=a"
	tests := map[string]struct {
		second string
		code   abi.Code
		want   string
	}{
		"a page again":          {page("b", two), abi.CodeInternal, "GET /servers/detail: the pages of the list do not end"},
		"a link without query":  {page("b", "http://x/servers"), abi.CodeInternal, path + "the cloud's answer cannot be used: the link to the next page has no query"},
		"a link of rubbish":     {page("b", "http://x?%zz"), abi.CodeInternal, path + "the cloud's answer cannot be used: the link to the next page has no query"},
		"links of rubbish":      {`{"servers": [], "servers_links": {"next": "x"}}`, abi.CodeInternal, path + "the cloud's answer cannot be used: the links to other pages: json: cannot unmarshal object"},
		"no list":               {`{}`, abi.CodeInternal, path + `the cloud's answer cannot be used: it has no "servers"`},
		"null":                  {`{"servers": null}`, abi.CodeInternal, path + `the cloud's answer cannot be used: it has no "servers"`},
		"truncated":             {`{"servers": [{"id": "b"},`, abi.CodeInternal, path + "the cloud's answer cannot be used: it is not JSON"},
		"a marker that is gone": {page("b", "?marker=gone"), abi.CodeInvalid, path + "the cloud answers 400 Bad Request: no such page: marker=gone"},
	}
	for name, test := range tests {
		c, _ := newClient(t, pages(map[string]string{"limit=1": page("a", two), "limit=1&marker=a": test.second}))
		ids, err := listServers(c)
		if ids != "" || sdk.CodeOf(err) != test.code || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %q, %v", name, ids, err)
		}
	}
}

func TestEndlessList(t *testing.T) {
	count := 0
	c, _ := newClient(t, &cloud{respond: func(*abi.HttpRequest) (*abi.HttpResponse, error) {
		count++
		return &abi.HttpResponse{Status: 200, Body: []byte(page("a", fmt.Sprint("?marker=", count)))}, nil
	}})
	_, err := listServers(c)
	if err == nil || err.Error() != "GET /servers/detail: the pages of the list do not end" || count != maxPages+1 {
		t.Errorf("after %d pages: %v", count, err)
	}
}

func TestPage(t *testing.T) {
	c, _ := newClient(t, pages(map[string]string{"": page("a", "?marker=a"), "marker=a": page("b", "")}))
	first, next, err := Page[server](c, Compute, "/servers", nil, "servers")
	if err != nil || first[0].ID != "a" || next.Encode() != "marker=a" {
		t.Fatal(first, next, err)
	}
	second, next, err := Page[server](c, Compute, "/servers", next, "servers")
	if err != nil || second[0].ID != "b" || next != nil {
		t.Fatal(second, next, err)
	}
}
