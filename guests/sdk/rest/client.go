// Package rest calls a JSON API, as most clouds have, within one op: it encodes and
// decodes, maps each refusal of the cloud to a code for the manager, and follows the
// pages of lists.
//
//	api := rest.New(op, "https://api.example.com/v1", "api-token")
//	var s server
//	err := api.Get("/servers/"+rest.Segment(name), &s)
//	if rest.IsNotFound(err) { ... }
//
// An API that wraps its objects, {"server": {...}}, or whose DELETE has an answer:
//
//	err := api.Do(&rest.Call{Path: "/servers/" + rest.Segment(id), Item: "server", Out: &s})[0]
//	err := api.Do(&rest.Call{Method: "DELETE", Path: path, Item: "operation.id", Out: &id})[0]
//
// A refusal is a StatusError with one of these codes:
//
//	400, 405, 406, 422  CodeInvalid          404, 410       CodeNotFound
//	401                 CodeUnauthenticated  409, 412, 423  CodeConflict
//	429, 503            CodeThrottled        413            CodeTooLarge
//	502, 504            CodeUnavailable      all others     CodeInternal
//
// A 404 with a page of HTML is CodeUnavailable: a proxy sent it. CodeThrottled has
// the delay of Retry-After.
//
// The package never waits and never repeats a request: the manager does. An
// unreadable answer is an error, never an empty object or list.
package rest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Client calls one API within one op.
type Client struct {
	op               *sdk.Op
	base, credential string
	headers          []*abi.HttpHeader
}

// New returns a client of the API at that URL, such as
// https://api.example.com/v1. The credential is a name that the administrator
// granted; empty for none. New sends nothing.
func New(op *sdk.Op, base, credential string) *Client {
	return &Client{op: op, base: strings.TrimSuffix(base, "/"), credential: credential}
}

// WithHeader returns a client that also sends this header with each request.
// The header must not hold a secret: use the credential for that.
func (c *Client) WithHeader(name, value string) *Client {
	more := *c
	more.headers = append(append([]*abi.HttpHeader{}, c.headers...), &abi.HttpHeader{Name: name, Value: value})
	return &more
}

// Call is one request.
type Call struct {
	// Method is the HTTP method, GET if empty.
	Method string
	// Path follows the URL of the API and begins with "/": "/servers?limit=10".
	// Build it with Segment for IDs and Query for query values.
	Path string
	// In is the body, sent as JSON; nil for none.
	In any
	// Out receives the answer's JSON; nil drops it.
	Out any
	// Item is the path of the member of the answer for Out, with dots between
	// names: "server" of {"server": {...}}. An answer without it, or with null,
	// is an error. If it is empty, Out receives the whole answer.
	Item string
	// Header receives the headers of the answer: names in lower case, and the
	// first of several with one name. Nil before the call.
	Header map[string]string
}

// Get reads an object.
func (c *Client) Get(path string, out any) error {
	return c.Do(&Call{Path: path, Out: out})[0]
}

// Post sends in and reads the answer into out, which may be nil.
func (c *Client) Post(path string, in, out any) error {
	return c.Do(&Call{Method: "POST", Path: path, In: in, Out: out})[0]
}

// Put sends in and reads the answer into out, which may be nil.
func (c *Client) Put(path string, in, out any) error {
	return c.Do(&Call{Method: "PUT", Path: path, In: in, Out: out})[0]
}

// Patch sends in and reads the answer into out, which may be nil.
func (c *Client) Patch(path string, in, out any) error {
	return c.Do(&Call{Method: "PATCH", Path: path, In: in, Out: out})[0]
}

// Delete deletes an object. Wrap it in IgnoreNotFound for a repeatable
// deletion. If the cloud answers with an operation to wait for, read its ID by
// Do, and give it to op.Await.
func (c *Client) Delete(path string) error {
	return c.Do(&Call{Method: "DELETE", Path: path})[0]
}

// Do sends requests in parallel and returns one error for each, in their order.
func (c *Client) Do(calls ...*Call) []error {
	errs := make([]error, len(calls))
	requests := make([]*abi.HttpRequest, len(calls))
	for i, call := range calls {
		if requests[i], errs[i] = c.request(call); errs[i] != nil {
			return all(errs, errs[i])
		}
	}
	results, err := c.op.HTTP().DoAll(requests...)
	if err != nil {
		return all(errs, err)
	}
	for i, call := range calls {
		errs[i] = call.decode(requests[i], results[i])
	}
	return errs
}

func all(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// reserve is the op's time that remains after the last wait for the cloud:
// enough to report the request.
const reserve = 250 * time.Millisecond

func (c *Client) request(call *Call) (*abi.HttpRequest, error) {
	req := &abi.HttpRequest{
		Method: call.Method, Url: c.base + call.Path, Credential: c.credential,
		Headers: append([]*abi.HttpHeader{{Name: "Accept", Value: "application/json"}}, c.headers...),
	}
	if req.Method == "" {
		req.Method = "GET"
	}
	// An empty name gives the path of the list: its 404 says nothing about an object.
	path, _, _ := strings.Cut(call.Path, "?")
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return nil, sdk.Invalidf("%s %s: an ID is empty", req.Method, Brief(call.Path, maxPath))
	}
	if left := c.op.Left(); left > 2*reserve {
		req.TimeoutMs = (left - reserve).Milliseconds()
	}
	if call.In == nil {
		return req, nil
	}
	var err error
	if req.Body, err = json.Marshal(call.In); err != nil {
		return nil, sdk.Error(abi.CodeInternal, req.Method+" "+Brief(path, maxPath)+": encoding the request: "+err.Error())
	}
	req.Headers = append(req.Headers, &abi.HttpHeader{Name: "Content-Type", Value: "application/json"})
	return req, nil
}

func (call *Call) decode(req *abi.HttpRequest, result sdk.HTTPResult) error {
	if err := refusal(req, result); err != nil {
		return err
	}
	call.Header = headers(result.Response)
	if call.Out == nil {
		return nil
	}
	// A value that the manager has scrubbed as a possible secret may be half of
	// a name or of an ID.
	if strings.Contains(string(result.Response.Body), "[scrubbed:") {
		return broken(req, "the manager has replaced a value of the credential's Secret in it: choose a password that is no word of the cloud")
	}
	item, found := member(result.Response.Body, call.Item)
	if call.Item != "" && (!found || string(item) == "null") {
		return broken(req, "it has no member "+strconv.Quote(call.Item)+began(result.Response.Body))
	}
	if err := json.Unmarshal(item, call.Out); err != nil {
		return broken(req, err.Error()+began(result.Response.Body))
	}
	return nil
}

func began(body []byte) string { return "; it begins with \"" + Brief(string(body), 60) + "\"" }

func headers(resp *abi.HttpResponse) map[string]string {
	found := map[string]string{}
	for _, h := range resp.Headers {
		name := strings.ToLower(h.Name)
		if _, second := found[name]; !second {
			found[name] = h.Value
		}
	}
	return found
}

// broken is the error of an unreadable answer.
func broken(req *abi.HttpRequest, why string) error {
	return sdk.Error(abi.CodeInternal, describe(req)+": the cloud's answer cannot be used: "+why)
}
