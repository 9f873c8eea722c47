package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const get = "GET nova:8774/v2.1/servers/one: "

// TestRefusals pairs the answers of OpenStack's services with the message that
// a user sees.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		cloud *cloud
		code  abi.Code
		after time.Duration
		want  string
	}{
		"400": {answering(400, `{"badRequest": {"code": 400, "message": "marker [x] not found"}}`), abi.CodeInvalid, 0,
			get + "the cloud answers 400 Bad Request: marker [x] not found"},
		"401": {answering(401, `{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}`), abi.CodeUnauthenticated, 0,
			get + "the cloud answers 401 Unauthorized: The request you have made requires authentication.; check the Secret of the credential, and the signer's auth_url and project"},
		"403, Octavia": {answering(403, `{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed.", "debuginfo": null}`), abi.CodeInternal, 0,
			get + "the cloud answers 403 Forbidden: Policy does not allow this request to be performed.; the user's roles in the project do not allow this, or a quota is used up"},
		"404, Nova, with its request": {answering(404, `{"itemNotFound": {"code": 404, "message": "Instance one could not be found."}}`, "x-openstack-request-id", "req-1"), abi.CodeNotFound, 0,
			get + "the cloud answers 404 Not Found: Instance one could not be found. (req-1)"},
		"404, Nova's, for a path": {answering(404, `{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}`), abi.CodeNotFound, 0,
			get + "the cloud answers 404 Not Found: The resource could not be found."},
		"404, a proxy's": {answering(404, "404 page not found\n"), abi.CodeNotFound, 0, get + "the cloud answers 404 Not Found: 404 page not found"},
		"406": {answering(406, `{"computeFault": {"message": "Version 2.47 is not supported"}}`), abi.CodeInvalid, 0,
			get + "the cloud answers 406: Version 2.47 is not supported; this provider needs Nova's microversion 2.47 (Pike)"},
		"409, Octavia": {answering(409, `{"faultstring": "Load Balancer x is immutable and cannot be updated."}`), abi.CodeConflict, 0,
			get + "the cloud answers 409 Conflict: Load Balancer x is immutable and cannot be updated."},
		"413": {answering(413, `{"overLimit": {"code": 413, "message": "This request was rate-limited.", "retryAfter": "9"}}`, "Retry-After", "9"), abi.CodeThrottled, 9 * time.Second,
			get + "the cloud answers 413 Too Large: This request was rate-limited."},
		"429":                 {answering(429, "", "retry-after", " 30 "), abi.CodeThrottled, 30 * time.Second, get + "the cloud answers 429"},
		"429, without a time": {answering(429, ""), abi.CodeThrottled, time.Second, get + "the cloud answers 429"},
		"429, of a day":       {answering(429, "", "Retry-After", "86400000"), abi.CodeThrottled, 5 * time.Minute, get + "the cloud answers 429"},
		"429, of the past":    {answering(429, "", "Retry-After", "-1"), abi.CodeThrottled, time.Second, get + "the cloud answers 429"},
		"429, with a date":    {answering(429, "", "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"), abi.CodeThrottled, time.Second, get + "the cloud answers 429"},
		"500, Neutron":        {answering(500, `{"NeutronError": {"type": "HTTPInternalServerError", "message": "Request Failed: internal server error", "detail": ""}}`), abi.CodeInternal, 0, get + "the cloud answers 500 Internal Server Error: Request Failed: internal server error"},
		"502, a page of HTML": {answering(502, "<html>\n<head><title>502 Bad\nGateway</title></head><body>secret internals</body></html>"), abi.CodeUnavailable, 0, get + "the cloud answers 502 Bad Gateway: a page of HTML: 502 Bad Gateway"},
		"503":                 {answering(503, `<!DOCTYPE html><p>no title`, "Retry-After", "2"), abi.CodeThrottled, 2 * time.Second, get + "the cloud answers 503 Service Unavailable: a page of HTML"},
		"504, empty":          {answering(504, ""), abi.CodeUnavailable, 0, get + "the cloud answers 504 Gateway Timeout"},
		"302":                 {answering(302, ""), abi.CodeInternal, 0, get + "the cloud answers 302"},
		"300, the versions":   {answering(300, `{"choices": []}`), abi.CodeInternal, 0, get + `the cloud answers 300: {"choices": []}`},
		"200, HTML":           {answering(200, "<html>log in</html>"), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it is not JSON (invalid character '<' looking for beginning of value); it begins with "<html>log in</html>"`},
		"200, truncated":      {answering(200, `{"server": {"id": "o`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it is not JSON (unexpected end of JSON input); it begins with "{\"server\": {\"id\": \"o"`},
		"200, empty":          {answering(200, ""), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it is not JSON (unexpected end of JSON input); it begins with ""`},
		"200, scrubbed": {answering(200, `{"server": {"id": "one", "name": "[scrubbed:openstack]-1"}}`), abi.CodeInternal, 0,
			get + "the cloud's answer cannot be used: the manager has replaced a value of the credential's Secret in it; a password must not be a word of the cluster"},
		"200, {}":               {answering(200, "{}"), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it has no "server"`},
		"200, null":             {answering(200, "null"), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it has no "server"`},
		"200, null inside":      {answering(200, `{"server": null}`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it has no "server"`},
		"200, another key":      {answering(200, `{"servers": []}`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it has no "server"`},
		"200, a list":           {answering(200, `[]`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it is not JSON (json: cannot unmarshal array`},
		"200, of another type":  {answering(200, `{"server": {"id": 7}}`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: server: json: cannot unmarshal number`},
		"200, two":              {answering(200, `{"server": {}}{"server": {}}`), abi.CodeInternal, 0, get + `the cloud's answer cannot be used: it is not JSON (invalid character '{' after top-level value)`},
		"no answer for a while": {failing(abi.CodeDeadline, "no answer within 29.75 s"), abi.CodeDeadline, 0, get + "http_send: no answer within 29.75 s"},
		"reset":                 {failing(abi.CodeUnavailable, "read: connection reset by peer"), abi.CodeUnavailable, 0, get + "http_send: read: connection reset by peer"},
		"not granted":           {failing(abi.CodeDenied, "no grant allows GET https://nova:8774"), abi.CodeDenied, 0, get + "http_send: no grant allows GET https://nova:8774"},
	}
	for name, test := range tests {
		c, _ := newClient(t, test.cloud)
		_, err := getServer(c)
		if sdk.CodeOf(err) != test.code || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: code %v, want %v\n%v\n%s", name, sdk.CodeOf(err), test.code, err, test.want)
		}
		var answered *abi.Error
		if !errors.As(err, &answered) || answered.RetryAfter != test.after {
			t.Errorf("%s: retry after %v, want %v", name, answered.RetryAfter, test.after)
		}
		if strings.HasPrefix(name, "4") && err.Error() != answered.Message {
			t.Errorf("%s: two messages: %v, %s", name, err, answered.Message)
		}
		if IsNotFound(err) != strings.HasPrefix(name, "404") || IsConflict(err) != strings.HasPrefix(name, "409") {
			t.Errorf("%s: not found %v, conflict %v", name, IsNotFound(err), IsConflict(err))
		}
		if len(test.cloud.urls()) != 1 {
			t.Errorf("%s: a request was repeated: %q", name, test.cloud.urls())
		}
	}
}

func failing(code abi.Code, message string) *cloud {
	return &cloud{respond: func(*abi.HttpRequest) (*abi.HttpResponse, error) { return nil, sdk.Error(code, message) }}
}

// Refused writes are handled like refused reads, and their answers may be
// ignored.
func TestRefusedWrites(t *testing.T) {
	c, _ := newClient(t, answering(409, `{"faultstring": "immutable"}`))
	for _, err := range []error{
		c.Post(LoadBalancer, "/lbaas/pools", "pool", 1, nil), c.Put(LoadBalancer, "/lbaas/pools", "pool", 1, &server{}), c.Delete(LoadBalancer, "/lbaas/pools/x", nil),
	} {
		if !IsConflict(err) || !strings.Contains(err.Error(), " octavia:9876/v2.0/lbaas/pools") {
			t.Error(err)
		}
	}
	c, _ = newClient(t, answering(204, ""))
	if err := c.Put(Network, "/ports/p", "port", 1, nil); err != nil {
		t.Error(err)
	}
	if err := c.Put(Network, "/ports/p", "port", 1, &server{}); sdk.CodeOf(err) != abi.CodeInternal {
		t.Errorf("an empty answer where one is needed: %v", err)
	}
	if err := c.Post(Network, "/ports", "port", func() {}, nil); err == nil || !strings.Contains(err.Error(), "encoding port of /ports") {
		t.Error(err)
	}
}

// A message is one line of bounded length, whatever the cloud sends.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("ü\n\t\x00", 5000)
	quoted, _ := json.Marshal(long)
	for _, fake := range []*cloud{
		answering(500, long), answering(500, `{"faultstring": `+string(quoted)+`}`), answering(500, "<title>"+long+"</title>"), answering(200, long),
		answering(500, "x", "X-Openstack-Request-Id", long), answering(500, "<TITLE>\u0130</title>"), answering(500, "\xff\xfe"),
	} {
		c, _ := newClient(t, fake)
		_, err := getServer(c)
		if err == nil || len(err.Error()) > 800 || strings.ContainsAny(err.Error(), "\n\t\x00") {
			t.Errorf("%d bytes: %q", len(err.Error()), err)
		}
	}
	c, _ := newClient(t, answering(404, ""))
	err := c.Get(Compute, "/servers/"+strings.Repeat("x", 100000), nil, "server", &server{})
	if len(err.Error()) > 400 || !strings.HasSuffix(err.Error(), "...: the cloud answers 404 Not Found") {
		t.Errorf("%d bytes of an error", len(err.Error()))
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, `{"server": {"id": "one"}, "server_links": [{"rel": "next", "href": "https://x/y?marker=a"}]}`, "1")
	f.Add(404, `{"itemNotFound": {"message": "x"}}`, "")
	f.Add(503, "<html><title>x</title>", "99999999999999999999")
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		req := &abi.HttpRequest{Method: "GET", Url: "https://nova/servers/one?x=y"}
		result := sdk.HTTPResult{Response: &abi.HttpResponse{
			Status: int32(status), Body: []byte(body), Headers: []*abi.HttpHeader{{Name: "Retry-After", Value: after}},
		}}
		r := &Read{Key: "server", Out: &server{}}
		err := r.decode(req, result)
		if err == nil {
			if int32(status) < 200 || int32(status) > 299 || !json.Valid([]byte(body)) {
				t.Fatalf("%d %q is taken for an answer", status, body)
			}
			return
		}
		var coded *abi.Error
		if !errors.As(err, &coded) || coded.Code == abi.CodeOK || coded.RetryAfter < 0 || coded.RetryAfter > maxRetryAfter {
			t.Fatalf("%+v: %v", coded, err)
		}
		if len(err.Error()) > 5000 || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "GET nova/servers/one: ") {
			t.Fatalf("%q", err)
		}
		if IsNotFound(err) != (int32(status) == 404) {
			t.Fatal(err)
		}
	})
}
