// Package rest calls an API that speaks JSON, as most clouds' do, within one
// op: it encodes and decodes, gives each refusal of the cloud the code that the
// manager acts on, and follows the pages of lists.
//
//	api := rest.New(op, "https://api.example.com/v1", "api-token")
//	var s server
//	err := api.Get("/servers/"+rest.Segment(name), &s)
//	if rest.IsNotFound(err) { ... }
//
// An API that wraps its objects, {"server": {...}}, or whose DELETE answers:
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
// A 404 that is a page of HTML is CodeUnavailable: a proxy sent it. Throttled
// comes again after the seconds of Retry-After.
//
// It never waits and never repeats a request: the manager does. What cannot be
// understood is an error, never an empty object or list.
package rest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// Client speaks to one API within one op.
type Client struct {
	op               *sdk.Op
	base, credential string
	headers          []*abi.HttpHeader
}

// New returns a client of the API at that URL, such as
// https://api.example.com/v1. The credential is the name under which the
// administrator granted it; empty for none. It sends nothing.
func New(op *sdk.Op, base, credential string) *Client {
	return &Client{op: op, base: strings.TrimSuffix(base, "/"), credential: credential}
}

// WithHeader returns a client that sends a header, too, with each request. It
// must be none of a secret: those are the credential's.
func (c *Client) WithHeader(name, value string) *Client {
	more := *c
	more.headers = append(append([]*abi.HttpHeader{}, c.headers...), &abi.HttpHeader{Name: name, Value: value})
	return &more
}

// Call is one request.
type Call struct {
	// Method is GET where it is empty.
	Method string
	// Path is behind the URL of the API and begins with "/": "/servers?limit=10".
	// IDs in it go through Segment, values of its query through Query.
	Path string
	// In is sent as JSON; nil for no body.
	In any
	// Out gets the answer's JSON; nil drops it.
	Out any
	// Item names the member of the answer that Out gets, with dots between
	// names: "server" of {"server": {...}}. An answer without it, or with null,
	// is an error. Empty: Out gets the whole answer.
	Item string
	// Header gets the headers of the answer: names in lower case, of several
	// with one name the first. Nil before the call.
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

// Delete deletes. IgnoreNotFound makes of its error that of a deletion that may
// be repeated. Where the cloud answers with an operation to wait for, read it by
// Do, and give its ID to op.Await.
func (c *Client) Delete(path string) error {
	return c.Do(&Call{Method: "DELETE", Path: path})[0]
}

// Do sends requests in parallel; each has its own error, in their order.
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

// reserve is what is left of an op when the cloud has not answered: enough to
// say which request it was.
const reserve = 250 * time.Millisecond

func (c *Client) request(call *Call) (*abi.HttpRequest, error) {
	req := &abi.HttpRequest{
		Method: call.Method, Url: c.base + call.Path, Credential: c.credential,
		Headers: append([]*abi.HttpHeader{{Name: "Accept", Value: "application/json"}}, c.headers...),
	}
	if req.Method == "" {
		req.Method = "GET"
	}
	// Behind "/" and nothing is the list: an answer about it is none about an object.
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
	// What the manager has replaced, since it looked like a secret, may be half
	// of a name or of an ID.
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

// broken is an answer that cannot be understood.
func broken(req *abi.HttpRequest, why string) error {
	return sdk.Error(abi.CodeInternal, describe(req)+": the cloud's answer cannot be used: "+why)
}
