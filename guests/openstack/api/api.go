// Package api calls OpenStack's HTTP APIs through the host: it finds the
// endpoints in Keystone's catalog, encodes and decodes JSON, follows pages and
// gives every refusal of the cloud a code and one clear message.
//
// It never waits and never repeats a request.
package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk/rest"
)

// Service is one of OpenStack's APIs.
type Service string

// The services that the provider uses.
const (
	Compute      Service = "compute"
	Network      Service = "network"
	LoadBalancer Service = "load-balancer"
	BlockStorage Service = "block-storage"
)

// computeVersion is a microversion of Nova (Pike). From it on a server shows
// the name of its flavor, which saves one call per server.
const computeVersion = "2.47"

// Client speaks to one cloud within one op.
type Client struct {
	op        *sdk.Op
	config    *cloudconf.Global
	endpoints map[string]string // of the catalog; nil: not yet read
}

// New returns a client for the op. It sends nothing.
func New(op *sdk.Op, config *cloudconf.Global) *Client { return &Client{op: op, config: config} }

// Op is the client's op.
func (c *Client) Op() *sdk.Op { return c.op }

// Read is a GET of one object or of one page of a list.
type Read struct {
	Service Service
	// Path follows the endpoint and its version: "/servers/ID".
	Path  string
	Query url.Values
	// Version overrides the microversion of Nova. May be empty.
	Version string
	// Key is the member of the answer that is decoded into Out. An answer
	// without it is an error, and never an empty list.
	Key string
	Out any
	// Next, if set, receives the query of the next page; nil after the last.
	Next url.Values
}

// Get reads one object.
func (c *Client) Get(service Service, path string, query url.Values, key string, out any) error {
	return c.Reads(&Read{Service: service, Path: path, Query: query, Key: key, Out: out})[0]
}

// Reads sends several reads in parallel. Each has its own error.
func (c *Client) Reads(reads ...*Read) []error {
	errs := make([]error, len(reads))
	requests := make([]*abi.HttpRequest, len(reads))
	for i, r := range reads {
		var err error
		if requests[i], err = c.request("GET", r.Service, r.Path, r.Query, nil); err != nil {
			return each(errs, err)
		}
		if r.Version != "" {
			setVersion(requests[i], r.Version)
		}
	}
	results, err := c.op.HTTP().DoAll(requests...)
	if err != nil {
		return each(errs, err)
	}
	for i, r := range reads {
		errs[i] = r.decode(requests[i], results[i])
	}
	return errs
}

func each(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (r *Read) decode(req *abi.HttpRequest, result sdk.HTTPResult) error {
	members, err := answer(req, result)
	if err != nil {
		return err
	}
	if err := member(req, members, r.Key, r.Out); err != nil {
		return err
	}
	r.Next, err = next(members[r.Key+"_links"])
	if err != nil {
		return broken(req, err.Error())
	}
	return nil
}

// Post creates an object: in is sent as the member key, and the answer's member
// key is decoded into out, which may be nil.
func (c *Client) Post(service Service, path, key string, in, out any) error {
	return c.write("POST", service, path, key, in, out)
}

// Put changes an object. Its arguments are those of Post.
func (c *Client) Put(service Service, path, key string, in, out any) error {
	return c.write("PUT", service, path, key, in, out)
}

// PutRevision changes an object of Neutron if it still has this
// revision_number. See IsOutdated.
func (c *Client) PutRevision(service Service, path, key string, revision int64, in, out any) error {
	return c.write("PUT", service, path, key, in, out,
		&abi.HttpHeader{Name: "If-Match", Value: "revision_number=" + strconv.FormatInt(revision, 10)})
}

// Delete deletes an object. A missing one is an error. See IsNotFound.
func (c *Client) Delete(service Service, path string, query url.Values) error {
	req, err := c.request("DELETE", service, path, query, nil)
	if err != nil {
		return err
	}
	return c.send(req, "", nil)
}

func (c *Client) write(method string, service Service, path, key string, in, out any, headers ...*abi.HttpHeader) error {
	body, err := json.Marshal(map[string]any{key: in})
	if err != nil {
		return fmt.Errorf("encoding %s of %s: %w", key, path, err)
	}
	req, err := c.request(method, service, path, nil, body)
	if err != nil {
		return err
	}
	req.Headers = append(req.Headers, headers...)
	return c.send(req, key, out)
}

func (c *Client) send(req *abi.HttpRequest, key string, out any) error {
	response, err := c.op.HTTP().Do(req)
	result := sdk.HTTPResult{Response: response, Err: err}
	if out == nil {
		return refusal(req, result)
	}
	members, err := answer(req, result)
	if err != nil {
		return err
	}
	return member(req, members, key, out)
}

func (c *Client) request(method string, service Service, path string, query url.Values, body []byte) (*abi.HttpRequest, error) {
	// Without an ID the path is that of the list, and the answer would not be
	// about an object.
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return nil, sdk.Invalidf("%s %s%s: an ID is empty", method, service, rest.Brief(path, 200))
	}
	endpoint, err := c.endpoint(service)
	if err != nil {
		return nil, err
	}
	req := c.plain(method, endpoint+path, body)
	if len(query) > 0 {
		req.Url += "?" + query.Encode()
	}
	if service == Compute {
		setVersion(req, computeVersion)
	}
	return req, nil
}

func setVersion(req *abi.HttpRequest, version string) {
	req.Headers = slices.DeleteFunc(req.Headers, func(h *abi.HttpHeader) bool { return strings.HasSuffix(h.Name, "API-Version") })
	req.Headers = append(req.Headers, &abi.HttpHeader{Name: "OpenStack-API-Version", Value: "compute " + version},
		&abi.HttpHeader{Name: "X-OpenStack-Nova-API-Version", Value: version})
}

// reserve is the time kept at the end of an op to report the unanswered
// request.
const reserve = 250 * time.Millisecond

func (c *Client) plain(method, address string, body []byte) *abi.HttpRequest {
	req := &abi.HttpRequest{
		Method: method, Url: address, Body: body, Credential: c.config.Credential,
		Headers: []*abi.HttpHeader{{Name: "Accept", Value: "application/json"}},
	}
	if body != nil {
		req.Headers = append(req.Headers, &abi.HttpHeader{Name: "Content-Type", Value: "application/json"})
	}
	if left := c.op.Left(); left > 2*reserve {
		req.TimeoutMs = (left - reserve).Milliseconds()
	}
	return req
}

// maxPages bounds a list.
const maxPages = 200

// List reads all pages of a list.
func List[T any](c *Client, service Service, path string, query url.Values, key string) ([]T, error) {
	all := []T{}
	seen := map[string]bool{}
	for {
		page, following, err := Page[T](c, service, path, query, key)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if following == nil {
			return all, nil
		}
		token := following.Encode()
		if seen[token] || len(seen) == maxPages {
			return nil, sdk.Error(abi.CodeInternal, "GET "+path+": the pages of the list do not end")
		}
		seen[token] = true
		query = following
	}
}

// Page reads one page; following is the query of the next, nil after the last.
func Page[T any](c *Client, service Service, path string, query url.Values, key string) (page []T, following url.Values, err error) {
	r := &Read{Service: service, Path: path, Query: query, Key: key, Out: &page}
	err = c.Reads(r)[0]
	return page, r.Next, err
}

// next finds the query of the next page. It keeps our host and path: behind a
// proxy the cloud's own differ.
func next(links json.RawMessage) (url.Values, error) {
	if len(links) == 0 {
		return nil, nil
	}
	var all []struct{ Rel, Href string }
	if err := json.Unmarshal(links, &all); err != nil {
		return nil, fmt.Errorf("the links to other pages: %w", err)
	}
	for _, link := range all {
		if link.Rel != "next" {
			continue
		}
		_, query, _ := strings.Cut(link.Href, "?")
		values, err := url.ParseQuery(query)
		if err != nil || len(values) == 0 {
			return nil, fmt.Errorf("the link to the next page has no query")
		}
		return values, nil
	}
	return nil, nil
}

// Segment escapes one segment of a path: an ID from an annotation or a provider
// ID must not lead elsewhere.
func Segment(id string) string {
	if id == "." || id == ".." {
		return "%2E"
	}
	return url.PathEscape(id)
}

// Query makes a query from pairs.
func Query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}
