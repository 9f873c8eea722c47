package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/egress"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/writegate"
)

const form = "application/x-www-form-urlencoded; charset=utf-8"

// asked is one request of a hostile guest: method, URL, body and pairs of headers.
func asked(method, url, body string, headers ...string) *abi.HttpRequest {
	r := &abi.HttpRequest{Method: method, Url: url, Body: []byte(body), FollowRedirects: 3}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, &abi.HttpHeader{Name: headers[i], Value: headers[i+1]})
	}
	return r
}

// TestOnlyReadsPassTheGate: of what a guest sends while it is only compared, the cloud
// sees what changes nothing by the method, or by what the grant says, and nothing else.
func TestOnlyReadsPassTheGate(t *testing.T) {
	const at = "http://cloud.example"
	const typed, target, soap = "Content-Type", "X-Amz-Target", "SOAPAction"
	passes := map[string]*abi.HttpRequest{
		"get": asked("GET", at+"/v1/servers?name=a", ""), "head": asked("HEAD", at+"/", ""), "options": asked("OPTIONS", at+"/", ""),
		"a search":      asked("POST", at+"/v1/search/x", `{"action":"x"}`, typed, "application/json"),
		"a form":        asked("POST", at+"/", "Action=DescribeInstances&Version=1", typed, form),
		"a whole name":  asked("POST", at+"/", "Action=GetOne", typed, form),
		"in the query":  asked("GET", at+"/?Action=DescribeInstances", ""),
		"a target":      asked("POST", at+"/", `{}`, typed, "application/x-amz-json-1.1", target, "Elb_v2.DescribeAll"),
		"soap":          asked("POST", at+"/", "<x/>", typed, "text/xml", soap, `"urn:cloud#DescribeAll"`),
		"to a read":     asked("GET", at+"/303?to=/v1/servers", ""),
		"login of ours": tokened(asked("GET", at+"/v1/servers", "")),
	}
	refused := map[string]*abi.HttpRequest{
		"post": asked("POST", at+"/", `{}`, typed, "application/json"), "put": asked("PUT", at+"/v1/search/x", ""),
		"patch": asked("PATCH", at+"/", ""), "delete": asked("DELETE", at+"/v1/search", ""), "made up": asked("PURGE", at+"/", ""),
		"beside the prefix": asked("POST", at+"/v1/searches", `{}`, typed, "application/json"),
		"another action":    asked("POST", at+"/", "Action=TerminateInstances", typed, form),
		"only alike":        asked("POST", at+"/", "Action=GetOneAndDelete", typed, form),
		"two actions":       asked("POST", at+"/", "Action=DescribeA&Action=DeleteB", typed, form),
		"another spelling":  asked("POST", at+"/", "Action=DescribeA&%20action%5B%5D=DeleteB", typed, form),
		"query and body":    asked("POST", at+"/?Action=DeleteB", "Action=DescribeA", typed, form),
		"target and body":   asked("POST", at+"/", "Action=DeleteB", typed, form, target, "X.DescribeA"),
		"a hidden form":     asked("POST", at+"/", "x=1&Action=DeleteB", typed, "text/plain", target, "X.DescribeA"),
		"two targets":       asked("POST", at+"/", `{}`, typed, "application/json", target, "X.DescribeA", "X_Amz_Target", "X.DeleteB"),
		"get with action":   asked("GET", at+"/?Action=DeleteB", ""), "get with command": asked("GET", at+"/?command=destroy", ""),
		"get with a body": asked("GET", at+"/", "x"),
		"no type":         asked("POST", at+"/v1/search", "x"), "parts": asked("POST", at+"/v1/search", "x", typed, "multipart/form-data; boundary=x"),
		"compressed":        asked("POST", at+"/v1/search", "x", typed, form, "Content-Encoding", "gzip"),
		"another charset":   asked("POST", at+"/v1/search", "x", typed, "application/x-www-form-urlencoded; charset=utf-7"),
		"broken form":       asked("POST", at+"/", "Action=DescribeA;Action=DeleteB", typed, form),
		"method in a form":  asked("POST", at+"/v1/search", "_method=DELETE", typed, form),
		"method in a query": asked("POST", at+"/v1/search?_method=DELETE", "x=1", typed, form),
		"override":          asked("POST", at+"/v1/search", "x=1", typed, form, "X-HTTP-Method-Override", "DELETE"),
		"override, get":     asked("GET", at+"/", "", "X_Http_Method", "DELETE"),
	}
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen = append(seen, fmt.Sprintf("%s %s %s", r.Method, r.URL, body))
			redirector(w, r)
		})
		g := grant(t, at+"/")
		g.Methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PURGE"}
		g.Credentials = []string{"token"}
		g.Reads = []egress.Read{
			{Method: "POST", PathPrefix: "/v1/search"},
			{Method: "POST", PathPrefix: "/", Actions: []string{"Describe*", "GetOne"}}, {Method: "GET", Actions: []string{"Describe*"}},
		}
		client := newClient(t, egress.Options{Credentials: withToken()}, g)
		egress.ConnectBy(client, cloud.connect)
		send := func(r *abi.HttpRequest) (*abi.HttpResult, *writegate.Gate) {
			gate := &writegate.Gate{}
			results, err := client.Send(writegate.NewContext(t.Context(), gate), []*abi.HttpRequest{r})
			if err != nil {
				t.Fatal(err)
			}
			return results[0], gate
		}
		for name, r := range passes {
			seen = nil
			result, gate := send(r)
			if sent, kept := gate.Counts(); responseOf(result).Status != 200 || sent != len(seen) || sent == 0 || kept != 0 {
				t.Errorf("%s: %s, %d sent, %d refused, the cloud saw %q", name, show(result), sent, kept, seen)
			}
		}
		seen = nil
		for name, r := range refused {
			result, gate := send(r)
			if sent, _ := gate.Counts(); sent != 0 || abi.Code(result.Code) != abi.CodeDenied && abi.Code(result.Code) != abi.CodeInvalid {
				t.Errorf("%s: %s, %d sent", name, show(result), sent)
			}
		}
		if len(seen) > 0 {
			t.Errorf("the cloud saw %q", seen)
		}
	})
}

func tokened(r *abi.HttpRequest) *abi.HttpRequest {
	r.Credential = "token"
	return r
}

// A redirect that keeps the method leads to no write, and the refusal says what to add.
func TestARedirectIsNoWayAroundTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		cloud := newCloud(t, func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Method+" "+r.URL.Path)
			redirector(w, r)
		})
		g := grant(t, "http://cloud.example/")
		g.Reads = []egress.Read{{Method: "POST", PathPrefix: "/307"}}
		client := newClient(t, egress.Options{}, g)
		egress.ConnectBy(client, cloud.connect)
		gate := &writegate.Gate{}
		request := asked("POST", "http://cloud.example/307?to=/servers", "{}", "Content-Type", "application/json")
		results, err := client.Send(writegate.NewContext(t.Context(), gate), []*abi.HttpRequest{request})
		if err != nil || abi.Code(results[0].Code) != abi.CodeDenied || len(seen) != 1 || seen[0] != "POST /307" {
			t.Fatalf("%v %v, the cloud saw %q", results, err, seen)
		}
		if !strings.Contains(gate.Refused(), "POST http://cloud.example:80/servers ") || !strings.Contains(gate.Refused(), "providers[].grants[].reads") {
			t.Error(gate.Refused())
		}
	})
}

// What a credential makes of a request is what is looked at, and what the manager
// sends for a credential is not held back.
func TestTheGateLooksAtWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		cloud := newCloud(t, func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Method+" "+r.URL.String()) })
		g := grant(t, "http://cloud.example/")
		g.Credentials = []string{"token"}
		options := egress.Options{Credentials: credentials{apply: func(_, _ string, req *http.Request, _ []byte) error {
			if writegate.FromContext(req.Context()) == nil {
				t.Error("the request of the guest has lost its gate")
			}
			req.URL.RawQuery = "Action=DeleteB"
			return nil
		}}}
		client := newClient(t, options, g)
		egress.ConnectBy(client, cloud.connect)
		results, err := client.Send(writegate.NewContext(t.Context(), &writegate.Gate{}), []*abi.HttpRequest{tokened(asked("GET", "http://cloud.example/", ""))})
		if err != nil || abi.Code(results[0].Code) != abi.CodeDenied || len(seen) > 0 {
			t.Errorf("%v %v, the cloud saw %q", results, err, seen)
		}
	})
}

// The token of OAuth2 is fetched by a POST of the manager's own.
func TestTheManagersOwnLoginIsNotHeldBack(t *testing.T) {
	gate := &writegate.Gate{}
	ctx := writegate.NewContext(t.Context(), gate)
	if own := writegate.NewContext(ctx, nil); writegate.FromContext(own) != nil || writegate.FromContext(ctx) != gate {
		t.Error("the gate is closed for the manager, or open for the guest")
	}
}
