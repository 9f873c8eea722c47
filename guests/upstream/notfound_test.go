package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// careless is a provider that sends requests, in order, and finds nothing,
// unless the node is m7. %s is the instance's name.
type careless struct {
	*servers
	requests []string
}

func (a *careless) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	for _, line := range a.requests {
		method, rest, _ := strings.Cut(line, " ")
		address, body, _ := strings.Cut(rest, " ")
		id := lastOf(node.Spec.ProviderID)
		request, err := http.NewRequestWithContext(ctx, method, strings.ReplaceAll(address, "%s", id), strings.NewReader(strings.ReplaceAll(body, "%s", id)))
		if err != nil {
			return false, err
		}
		response, err := a.client.Do(request)
		if err != nil {
			return false, err
		}
		if err := response.Body.Close(); err != nil {
			return false, err
		}
	}
	return node.Name == "m7", nil
}

// toldBy is an answer to requests with this part in their URL or body; "": to
// any.
type toldBy struct {
	part   string
	status int32
	body   string
	link   string
}

// existence asks for m7, which exists, with understood answers, then for m1.
func existence(t *testing.T, provider string, requests []string, understood, replies []toldBy, options ...Option) (sdk.Existence, error) {
	t.Helper()
	r := newRig(t, "", func(e *Environment) (cloudprovider.Interface, error) {
		return &cloud{v2: &careless{&servers{client: &http.Client{Transport: e.Transport}}, requests}}, nil
	}, options...)
	r.HTTP = answering(understood)
	if err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m7", fmt.Sprintf(provider, "7"))}, &abi.InstanceExistsResponse{}); err != nil {
		t.Fatal(err)
	}
	r.HTTP = answering(replies)
	var got abi.InstanceExistsResponse
	err := r.Call(abi.OpInstanceExists, &abi.InstanceRequest{Node: node("m1", fmt.Sprintf(provider, "101"))}, &got)
	return got.Existence, err
}

func answering(replies []toldBy) func(*abi.HttpRequest) (*abi.HttpResponse, error) {
	return func(request *abi.HttpRequest) (*abi.HttpResponse, error) {
		for _, told := range replies {
			if strings.Contains(request.Url+string(request.Body), told.part) {
				return &abi.HttpResponse{Status: told.status, Body: []byte(told.body), Headers: []*abi.HttpHeader{{Name: "link", Value: told.link}}}, nil
			}
		}
		return nil, sdk.Error(abi.CodeUnavailable, "no answer to "+request.Url)
	}
}

const apiHost = "https://api.example.com"

// TestAnswersThatNoCloudMeant: a careless provider took, or could take, each
// for "does not exist".
func TestAnswersThatNoCloudMeant(t *testing.T) {
	const one = `{"server": {"id": "7"}}`
	for name, body := range map[string]string{
		"plain": "404 page not found", "empty": "", "spaces": " \n", "null": "null", "a number": "404", "an array": "[]",
		"Kong": `{"message":"no Route matched with those values"}`, "AWS' gateway": `{"message":"Not Found"}`, "a word": `"not found"`,
		"Spring":  `{"timestamp":"2024-01-01T00:00:00Z","status":404,"error":"Not Found","path":"/servers/101"}`,
		"Express": `{"error":"Cannot GET /servers/101"}`, "a URL": `{"detail":"https://api.example.com/servers/101 was not found"}`,
		"a host": `{"detail":"no upstream for api.example.com/servers/101"}`, "a path in brackets": `{"m":"(path:/servers/101)"}`,
		"Kubernetes": `{"kind":"Status","status":"Failure","message":"the server could not find the requested resource","code":404}`,
		"Traefik":    "404 page not found\n", "Envoy": "no healthy upstream", "plain, with the name": "101 not found", "XML, with the name": `<Error><Key>101</Key></Error>`,
		"HTML": "<html><body>101</body></html>", "HTML behind a BOM": "\ufeff<html><body>101</body></html>",
		"HTML behind a comment": "<!-- nginx -->\n<html><body>101</body></html>", "HTML behind both": "\ufeff<?xml version=\"1.0\"?><!-- a --><!DOCTYPE html><html>101</html>",
		"a part of HTML": "<h1>Not Found</h1>", "a paragraph": "<p>101</p>", "another server": `{"itemNotFound": {"message": "Instance 1012 could not be found."}}`,
		"cut short": `{"itemNotFound": {"message": "Instance 101 could not be found."}`,
	} {
		for _, status := range []int32{404, 410} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				wantNotSaid(t, []string{"GET " + apiHost + "/servers/%s"}, said(one), []toldBy{{status: status, body: body}})
			})
		}
	}
	const gone, list, rest = `{"itemNotFound": {"message": "Instance 101 could not be found."}}`, `{"servers": [{"id": "7"}, {"id": "8"}]}`, `{"servers": [{"id": "9"}]}`
	t.Run("another prefix", func(t *testing.T) {
		wantNotSaid(t, []string{"GET " + apiHost + "/v2/servers/%s", "GET " + apiHost + "/v3/servers/%s"}, []toldBy{{"/v2/", 200, one, ""}, {status: 200, body: `{}`}}, []toldBy{{"/v2/", 404, ``, ""}, {status: 404, body: gone}})
	})
	t.Run("another server", func(t *testing.T) {
		wantNotSaid(t, []string{"GET " + apiHost + "/servers/%s", "GET https://other.example.com/servers/%s"}, []toldBy{{apiHost, 200, one, ""}, {status: 200, body: `{}`}}, []toldBy{{apiHost, 404, ``, ""}, {status: 404, body: gone}})
	})
	for name, test := range map[string]struct {
		request string
		replies []toldBy
	}{
		"206":                      {"GET " + apiHost + "/servers", []toldBy{{status: 206, body: list}}},
		"203":                      {"GET " + apiHost + "/servers", []toldBy{{status: 203, body: list}}},
		"a state of a part":        {"GET " + apiHost + "/servers/%s", []toldBy{{status: 206, body: `{"id": "101", "state": "terminated"}`}}},
		"filtered":                 {"GET " + apiHost + "/servers?status=ACTIVE", []toldBy{{status: 200, body: list}}},
		"filtered by Azure":        {"GET " + apiHost + "/servers?api-version=1&$filter=x", []toldBy{{status: 200, body: list}}},
		"filtered by a form":       {"POST " + apiHost + "/ Action=DescribeInstances&Filter.1.Name=x", []toldBy{{status: 200, body: list}}},
		"filtered by JSON":         {"POST " + apiHost + `/ {"filter":{"state":"on"}}`, []toldBy{{status: 200, body: list}}},
		"asked for in XML":         {"POST " + apiHost + "/ <list/>", []toldBy{{status: 200, body: list}}},
		"changed":                  {"PUT " + apiHost + "/servers", []toldBy{{status: 200, body: list}}},
		"as many as asked for":     {"GET " + apiHost + "/servers?limit=2", []toldBy{{status: 200, body: list}}},
		"a later page":             {"GET " + apiHost + "/servers?marker=6", []toldBy{{status: 200, body: list}}},
		"a second page":            {"GET " + apiHost + "/servers?page=2", []toldBy{{status: 200, body: list}}},
		"next":                     {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "next": "abc"}`}}},
		"next of GCE":              {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"items": [{"id": "7"}], "nextPageToken": "abc"}`}}},
		"next of Azure":            {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"value": [{"id": "7"}], "nextLink": "https://x/?$skiptoken=2"}`}}},
		"next of OpenStack":        {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "servers_links": [{"rel": "next", "href": "https://x/?marker=7"}]}`}}},
		"next of a number":         {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "meta": {"pagination": {"page": 1, "next_page": 2}}}`}}},
		"next of HAL":              {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "_links": {"next": {"href": "/servers?page=2"}}}`}}},
		"next of AWS":              {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `<R><item><id>7</id></item><nextToken>abc</nextToken></R>`}}},
		"next in a header":         {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: list, link: `<https://x/?page=1>; rel="prev", <https://x/?page=2>; rel="next"`}}},
		"truncated":                {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "isTruncated": true}`}}},
		"of more":                  {"GET " + apiHost + "/servers", []toldBy{{status: 200, body: `{"servers": [{"id": "7"}], "total_count": 2}`}}},
		"a next page that failed":  {"GET " + apiHost + "/servers?limit=1 GET " + apiHost + "/servers?marker=7", []toldBy{{"marker", 404, ``, ""}, {status: 200, body: `{"servers": [{"id": "7"}], "next": "7"}`}}},
		"a next page that goes on": {"GET " + apiHost + "/servers GET " + apiHost + "/servers?marker=7", []toldBy{{"marker", 200, `{"servers": [{"id": "9"}], "next": "9"}`, ""}, {status: 200, body: `{"servers": [{"id": "8"}], "next": "7"}`}}},
		"without the first page":   {"GET " + apiHost + "/servers?marker=7", []toldBy{{status: 200, body: rest}}},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []string
			for line := range strings.SplitSeq(strings.ReplaceAll(test.request, " GET ", "\nGET "), "\n") {
				requests = append(requests, line)
			}
			wantNotSaid(t, requests, said(list), test.replies, Gone("terminated"))
		})
	}
}

func said(body string) []toldBy { return []toldBy{{status: 200, body: body}} }

func wantNotSaid(t *testing.T, requests []string, understood, replies []toldBy, options ...Option) {
	t.Helper()
	if got, err := existence(t, "fake:///%s", requests, understood, replies, options...); err == nil || !strings.Contains(err.Error(), "strictExistence") {
		t.Errorf("%v, %v, want an error that names strictExistence", got, err)
	}
}

// TestAnswersOfClouds: real answers of clouds for a missing machine.
func TestAnswersOfClouds(t *testing.T) {
	const nova = apiHost + "/v2.1/p/servers"
	list := toldBy{status: 200, body: `{"servers": [{"id": "7"}, {"id": "8"}]}`}
	for name, test := range map[string]struct {
		provider, request, understood string
		replies                       []toldBy
	}{
		"Nova": {"openstack://r/%s", "GET " + nova + "/%s", `{"server": {"id": "7"}}`,
			[]toldBy{{status: 404, body: `{"itemNotFound": {"code": 404, "message": "Instance 101 could not be found."}}`}}},
		"GCE": {"gce://p/z/%s", "GET " + apiHost + "/compute/v1/projects/p/zones/z/instances/%s?alt=json", `{"name": "7"}`,
			[]toldBy{{status: 404, body: `{"error": {"code": 404, "message": "The resource 'projects/p/zones/z/instances/101' was not found", "errors": [{"reason": "notFound"}]}}`}}},
		"Azure": {"azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/%s",
			"GET " + apiHost + "/subscriptions/s/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/%s?api-version=1", `{"name": "7"}`,
			[]toldBy{{status: 404, body: `{"error": {"code": "ResourceNotFound", "message": "The Resource 'Microsoft.Compute/virtualMachines/101' under resource group 'g' was not found."}}`}}},
		"AWS": {"aws:///z/%s", "POST " + apiHost + "/ Action=DescribeInstances&Version=1&InstanceId.1=%s", `<R><id>7</id></R>`,
			[]toldBy{{status: 400, body: `<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>The instance ID '101' does not exist</Message></Error></Errors></Response>`}}},
		"a word without the name": {"do:///%s", "GET " + apiHost + "/droplets/%s", `{}`, []toldBy{{status: 404, body: `{"id": "not_found"}`}}},
		"vSphere":                 {"vsphere://%s", "POST " + apiHost + "/sdk <FindByUuid><uuid>%s</uuid></FindByUuid>", `{}`, []toldBy{{status: 200, body: soapOf(`<FindByUuidResponse/>`)}}},
		"a list":                  {"fake:///%s", "GET " + nova, list.body, []toldBy{list}},
		"a list with a page size": {"fake:///%s", "GET " + nova + "?limit=3&all_tenants=1", list.body, []toldBy{list}},
		"all pages": {"fake:///%s", "GET " + nova + " GET " + nova + "?marker=7 GET " + nova + "?marker=9", list.body,
			[]toldBy{{"marker=9", 200, `{"servers": []}`, ""}, {"marker=7", 200, `{"servers": [{"id": "9"}], "servers_links": [{"rel": "next", "href": "` + nova + `?marker=9"}]}`, ""}, {status: 200, body: `{"servers": [{"id": "7"}], "next": "7"}`}}},
		"pages of a header": {"fake:///%s", "GET " + nova + "?per_page=2 GET " + nova + "?per_page=2&page=2", list.body,
			[]toldBy{{"&page=2", 200, `{"servers": [{"id": "9"}], "total": 3}`, ""}, {"", 200, `{"servers": [{"id": "7"}, {"id": "8"}], "total": 3}`, "<" + nova + "?per_page=2&page=2>; rel=next"}}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := strings.Split(strings.ReplaceAll(test.request, " GET ", "\nGET "), "\n")
			r, err := existence(t, test.provider, requests, said(test.understood), test.replies, Schemes("openstack", "gce", "azure", "aws", "do", "vsphere"),
				Gone("InvalidInstanceID.NotFound", "not_found"), Empty("FindByUuidResponse"))
			if err != nil || r != sdk.DoesNotExist {
				t.Errorf("%v, %v, want that it does not exist", r, err)
			}
		})
	}
}

// A provider that looked machines up by name has learned their collection; its
// machines are behind it, and nowhere else.
func TestACollectionTellsWhereOneOfItIs(t *testing.T) {
	var k known
	seen := witness{answers: []answer{{line: "GET " + apiHost + "/machines", status: 200, answer: []byte(`{"items": [{"name": "n7", "id": "7"}]}`)}}}
	k.learn(&seen, &abi.Node{Name: "n7", ProviderId: "fake://7"})
	for path, want := range map[string]bool{"/machines/101": true, "/machines/101/disks": false, "/v2/machines/101": false, "/machines/102": false} {
		a := answer{line: "GET " + apiHost + path, status: 404, answer: []byte(`{"error": "machine 101 is not there"}`)}
		if got := k.understood(&a, &abi.Node{Name: "n101", ProviderId: "fake://101"}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
