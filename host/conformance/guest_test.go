package conformance_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

// guest is a correct provider of the cloud widgets, apart from its sabotage.
type guest struct {
	base     string
	sabotage string
	calls    int
}

func answered(code uint32, detail *abi.ErrorDetail) error {
	return &abi.Error{Code: abi.Code(code), Message: detail.Message, RetryAfter: time.Duration(detail.RetryAfterMs) * time.Millisecond}
}

// unexpected is the error for an unexpected status.
func (g *guest) unexpected(what string, status int) error {
	e := &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s: the cloud answered %d", what, status)}
	switch {
	case status == 401 && g.sabotage != "401 is internal":
		e.Code = abi.CodeUnauthenticated
	case status == 429 || status == 413:
		e.Code, e.RetryAfter = abi.CodeThrottled, 2*time.Minute
	}
	return e
}

func (g *guest) serve(c *callOf, op abi.Op, request []byte) (abi.Message, error) {
	g.calls++
	m, err := g.answer(c, op, request)
	if e, ok := err.(*abi.Error); ok && op != abi.OpConfigure { //nolint:errorlint // the guest's own
		switch {
		case g.sabotage == "errors say nothing":
			return nil, &abi.Error{Code: e.Code}
		case g.sabotage == "short delay" && e.Code == abi.CodeThrottled:
			e.RetryAfter = time.Second
		case g.sabotage == "hang is ok" && e.Code == abi.CodeDeadline && op == abi.OpLoadBalancerUpdate:
			return &abi.Done{Done: true}, nil
		}
	}
	return m, err
}

func (g *guest) answer(c *callOf, op abi.Op, request []byte) (abi.Message, error) {
	switch op {
	case abi.OpDescribe:
		if g.sabotage == "another name" {
			return &abi.DescribeResponse{Name: "other", Version: "0.1.0", ProviderName: "widgets"}, nil
		}
		return &abi.DescribeResponse{Name: "static", Version: "0.1.0", ProviderName: "widgets"}, nil
	case abi.OpConfigure:
		return g.configure(request)
	case abi.OpProbe:
		return g.probe(c)
	case abi.OpInstanceExists, abi.OpInstanceShutdown, abi.OpInstanceMetadata:
		req := &abi.InstanceRequest{}
		if err := wire.Unmarshal(request, req); err != nil {
			return nil, err
		}
		return g.instance(c, op, req.Node)
	case abi.OpListInstances:
		return g.list(c, request)
	case abi.OpRouteList, abi.OpRouteCreate, abi.OpRouteDelete:
		return g.route(c, op, request)
	case abi.OpVolumeLabels:
		return g.volume(c, request)
	case abi.OpTick:
		return &abi.Done{Done: g.sabotage != "a tick is never done"}, nil
	}
	req := &abi.LoadBalancerRequest{}
	if err := wire.Unmarshal(request, req); err != nil {
		return nil, err
	}
	return g.balancer(c, op, req)
}

func (g *guest) configure(request []byte) (abi.Message, error) {
	req := &abi.ConfigureRequest{}
	if err := wire.Unmarshal(request, req); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(req.Config), "http://") && g.sabotage != "any configuration" {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "line 1: the configuration is the URL of the cloud"}
	}
	return &abi.ConfigureResponse{Accepted: true, HasClusterId: true}, nil
}

func (g *guest) probe(c *callOf) (abi.Message, error) {
	var ok map[string]any
	status, err := c.http("GET", g.base+"/probe", nil, &ok)
	switch {
	case g.sabotage == "probe is always ready":
		return &abi.ProbeResponse{Ready: true}, nil
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /probe", status)
	case ok["ok"] != true, g.sabotage == "probe is never ready":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /probe: that is not the answer of the cloud"}
	}
	return &abi.ProbeResponse{Ready: true, Summary: "widgets"}, nil
}

type machine struct {
	Name string `json:"name"`
	IP   string `json:"ip"`
}

func (m machine) metadata(number int) *abi.InstanceMetadata {
	return &abi.InstanceMetadata{
		ProviderId: "widgets://" + m.Name, Zone: fmt.Sprintf("rack-%d", number),
		Addresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: m.IP}},
	}
}

// find returns nil when the cloud reported that there is no such server.
func (g *guest) find(c *callOf, name string) (*machine, error) {
	m := &machine{}
	status, err := c.http("GET", g.base+"/servers/"+url.PathEscape(name), nil, m)
	switch {
	case err == nil && status == 404, g.sabotage == "an error is no server" && (err != nil || status != 200):
		return nil, nil
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /servers/"+name, status)
	case m.Name != name && g.sabotage != "anything is a server":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /servers/" + name + ": the answer is no server"}
	}
	return m, nil
}

func (g *guest) instance(c *callOf, op abi.Op, node *abi.Node) (abi.Message, error) {
	name := node.Name
	if node.ProviderId != "" {
		var ours bool
		if name, ours = strings.CutPrefix(node.ProviderId, "widgets://"); !ours && g.sabotage != "a foreign node is unknown" {
			return nil, &abi.Error{Code: abi.CodeInvalid, Message: "the provider ID is of another cloud"}
		}
	}
	m, err := g.find(c, name)
	switch {
	case err != nil:
		return nil, err
	case op == abi.OpInstanceExists && (m == nil) == (g.sabotage == "existence is the wrong way round"):
		return &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_EXISTS}, nil
	case op == abi.OpInstanceExists:
		return &abi.InstanceExistsResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, nil
	case m == nil:
		return nil, &abi.Error{Code: abi.CodeInstanceNotFound, Message: "there is no such server"}
	case op == abi.OpInstanceShutdown && g.sabotage == "power changes":
		return &abi.InstanceShutdownResponse{State: abi.PowerState(1 + g.calls%2)}, nil
	case op == abi.OpInstanceShutdown:
		return &abi.InstanceShutdownResponse{State: abi.PowerState_POWER_STATE_ON}, nil
	}
	number := 0
	if g.sabotage == "metadata changes" {
		number = g.calls
	}
	return &abi.InstanceMetadataResponse{Metadata: m.metadata(number)}, nil
}

func (g *guest) list(c *callOf, request []byte) (abi.Message, error) {
	req := &abi.ListInstancesRequest{}
	if err := wire.Unmarshal(request, req); err != nil {
		return nil, err
	}
	var page struct {
		Servers []machine `json:"servers"`
		More    bool      `json:"more"`
	}
	after := req.PageToken
	if g.sabotage == "any token" && !slices.Contains(serverNames, after) {
		after = ""
	}
	status, err := c.http("GET", fmt.Sprintf("%s/servers?limit=%d&after=%s", g.base, req.PageSize, url.QueryEscape(after)), nil, &page)
	switch {
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /servers", status)
	case page.Servers == nil && g.sabotage != "no list is an empty list":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /servers: the answer is no list"}
	}
	resp := &abi.ListInstancesResponse{Done: true}
	number := 0
	if g.sabotage == "the list has other zones" {
		number = 1
	}
	if g.sabotage == "only the first page" {
		page.More = false
	}
	for _, m := range page.Servers {
		resp.Instances = append(resp.Instances, &abi.Instance{NodeName: m.Name, Metadata: m.metadata(number), State: abi.PowerState_POWER_STATE_ON})
		if page.More {
			resp.NextPageToken = m.Name
		}
	}
	return resp, nil
}

func (g *guest) volume(c *callOf, request []byte) (abi.Message, error) {
	req := &abi.VolumeLabelsRequest{}
	if err := wire.Unmarshal(request, req); err != nil {
		return nil, err
	}
	if req.Volume.Driver != "csi.example.com" && g.sabotage != "every volume is ours" {
		return &abi.VolumeLabelsResponse{Done: true}, nil
	}
	var volume struct {
		Zone string `json:"zone"`
	}
	status, err := c.http("GET", g.base+"/volumes/"+url.PathEscape(req.Volume.VolumeId), nil, &volume)
	switch {
	case g.sabotage == "labels change":
		volume.Zone = fmt.Sprintf("rack-%d", g.calls)
	case g.sabotage == "an error is no label" && (err != nil || status != 200):
		return &abi.VolumeLabelsResponse{Done: true}, nil
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /volumes", status)
	case volume.Zone == "":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /volumes: the answer has no zone"}
	}
	return &abi.VolumeLabelsResponse{Done: true, Labels: map[string]string{"topology.kubernetes.io/zone": volume.Zone}}, nil
}
