package conformance_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/wire"
)

func (g *guest) name(s *abi.Service) string {
	if g.sabotage == "names change" {
		return fmt.Sprintf("lb-%d", g.calls)
	}
	return "lb-" + s.Uid
}

// lookup returns the load balancers with a name; only a sabotaged guest creates
// several.
func (g *guest) lookup(c *callOf, name string) ([]*widget, error) {
	var found struct {
		LBs []*widget `json:"lbs"`
	}
	status, err := c.http("GET", g.base+"/lbs?name="+url.QueryEscape(name), nil, &found)
	switch {
	case g.sabotage == "an error is no load balancer" && (err != nil || status != 200):
		return nil, nil
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /lbs", status)
	case found.LBs == nil && g.sabotage != "no list is no load balancer":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /lbs: the answer is no list"}
	}
	return found.LBs, nil
}

func (g *guest) balancer(c *callOf, op abi.Op, req *abi.LoadBalancerRequest) (abi.Message, error) {
	name := g.name(req.Service)
	if op == abi.OpLoadBalancerName {
		return &abi.LoadBalancerNameResponse{Name: name}, nil
	}
	if g.sabotage == "the secret is logged" {
		c.log("the token is " + token)
	}
	found, err := g.lookup(c, name)
	if err != nil {
		return nil, err
	}
	switch op {
	case abi.OpLoadBalancerGet:
		if len(found) == 0 && g.sabotage == "what is gone is elsewhere" {
			return nil, &abi.Error{Code: abi.CodeImplementedElsewhere, Message: "not here"}
		}
		if len(found) == 0 || found[0].Members == "" && g.sabotage == "half a load balancer is none" {
			return &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_DOES_NOT_EXIST}, nil
		}
		return &abi.LoadBalancerGetResponse{Existence: abi.Existence_EXISTENCE_EXISTS, Status: statusOf(found[0])}, nil
	case abi.OpLoadBalancerDelete:
		return g.remove(c, found)
	}
	lb, err := g.keep(c, req, name, found)
	if op == abi.OpLoadBalancerUpdate {
		return &abi.Done{Done: true}, err
	}
	if err != nil {
		return nil, err
	}
	return &abi.LoadBalancerEnsureResponse{Status: statusOf(lb)}, nil
}

func statusOf(lb *widget) *abi.LoadBalancerStatus {
	return &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{{Ip: lb.IP, IpMode: "VIP"}}}
}

// keep makes the load balancer match the Service.
func (g *guest) keep(c *callOf, req *abi.LoadBalancerRequest, name string, found []*widget) (*widget, error) {
	members, err := g.members(c, req)
	if err != nil {
		return nil, err
	}
	lb := &widget{}
	if len(found) > 0 {
		lb = found[0]
	} else if err := g.create(c, name, lb); err != nil {
		return nil, err
	}
	if g.sabotage == "the mark comes first" {
		if lb.Mark == members {
			return lb, nil
		}
		if err := g.write(c, "PUT", "/lbs/"+lb.ID, map[string]string{"mark": members}, lb); err != nil {
			return nil, err
		}
	}
	if lb.Members == members && g.sabotage != "always writes" {
		return lb, nil
	}
	return lb, g.write(c, "PUT", "/lbs/"+lb.ID, map[string]string{"members": members}, lb)
}

func (g *guest) create(c *callOf, name string, lb *widget) error {
	if g.sabotage != "named later" {
		return g.write(c, "POST", "/lbs", map[string]string{"name": name}, lb)
	}
	if err := g.write(c, "POST", "/lbs", map[string]string{"name": "unnamed"}, lb); err != nil {
		return err
	}
	return g.write(c, "PUT", "/lbs/"+lb.ID, map[string]string{"name": name}, lb)
}

func (g *guest) members(c *callOf, req *abi.LoadBalancerRequest) (string, error) {
	names, bare, err := c.nodes()
	switch {
	case err != nil:
		return "", err
	case bare && g.sabotage == "each node has an address":
		return "", errors.New("index out of range")
	}
	if g.sabotage != "the order of the nodes counts" {
		slices.Sort(names)
	}
	members := strings.Join(names, ",")
	if g.sabotage == "nodes are forgotten" {
		members = ""
	}
	for _, p := range req.Service.Ports {
		members += fmt.Sprintf(" %s/%d:%d", p.Protocol, p.Port, p.NodePort)
	}
	return members, nil
}

func (g *guest) write(c *callOf, method, path string, body, into any) error {
	status, err := c.http(method, g.base+path, body, into)
	for range 50 {
		if g.sabotage != "impatient" || status != http.StatusTooManyRequests {
			break
		}
		status, err = c.http(method, g.base+path, body, into)
	}
	if err == nil && status/100 != 2 {
		err = g.unexpected(method+" "+path, status)
	}
	return err
}

func (g *guest) remove(c *callOf, found []*widget) (abi.Message, error) {
	if len(found) == 0 && g.sabotage == "nothing to delete is an error" {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: "there is no load balancer to delete"}
	}
	for _, lb := range found {
		if g.sabotage == "deletes nothing" {
			continue
		}
		if g.sabotage == "renamed before it is deleted" {
			if err := g.write(c, "PUT", "/lbs/"+lb.ID, map[string]string{"name": "doomed"}, lb); err != nil {
				return nil, err
			}
		}
		status, err := c.http("DELETE", g.base+"/lbs/"+lb.ID, nil, nil)
		if err == nil && status/100 != 2 && status != 404 {
			err = g.unexpected("DELETE /lbs", status)
		}
		if err != nil {
			return nil, err
		}
	}
	return &abi.Done{Done: true}, nil
}

func (g *guest) route(c *callOf, op abi.Op, request []byte) (abi.Message, error) {
	creation, deletion := &abi.RouteCreateRequest{}, &abi.RouteDeleteRequest{}
	var wanted abi.Message = creation
	if op == abi.OpRouteDelete {
		wanted = deletion
	}
	if err := wire.Unmarshal(request, wanted); err != nil && op != abi.OpRouteList {
		return nil, err
	}
	target := firstRoute(creation.Route, deletion.Route)
	var all struct {
		Routes map[string]string `json:"routes"`
	}
	status, err := c.http("GET", g.base+"/routes", nil, &all)
	switch {
	case err != nil:
		return nil, err
	case status != 200:
		return nil, g.unexpected("GET /routes", status)
	case all.Routes == nil && g.sabotage != "no list is no route":
		return nil, &abi.Error{Code: abi.CodeUnavailable, Message: "GET /routes: the answer is no list"}
	case op == abi.OpRouteList:
		resp := &abi.RouteListResponse{Done: true}
		for node, cidr := range all.Routes {
			resp.Routes = append(resp.Routes, &abi.Route{Name: node, TargetNode: node, DestinationCidr: cidr})
		}
		return resp, nil
	}
	return g.changeRoute(c, op, target, all.Routes)
}

func (g *guest) changeRoute(c *callOf, op abi.Op, r *abi.Route, now map[string]string) (abi.Message, error) {
	path := "/routes/" + url.PathEscape(r.TargetNode)
	same := now[r.TargetNode] == r.DestinationCidr
	switch {
	case op == abi.OpRouteDelete && now[r.TargetNode] == "":
	case op == abi.OpRouteDelete:
		return &abi.Done{Done: true}, g.write(c, "DELETE", path, nil, nil)
	case same && g.sabotage != "routes are written always":
	default:
		if m, err := g.find(c, r.TargetNode); err != nil || m == nil && g.sabotage != "routes to nowhere" {
			return nil, firstOf(err, &abi.Error{Code: abi.CodeInstanceNotFound, Message: "there is no such server"})
		}
		err := g.write(c, "PUT", path+"?cidr="+url.QueryEscape(r.DestinationCidr), nil, nil)
		if g.sabotage == "a route has a second part" && err == nil {
			if err = g.write(c, "PUT", "/routes/part?cidr=10.99.0.0/24", nil, nil); err == nil {
				err = g.write(c, "DELETE", "/routes/part", nil, nil)
			}
		}
		return &abi.Done{Done: true}, err
	}
	return &abi.Done{Done: true}, nil
}

func firstRoute(a, b *abi.Route) *abi.Route {
	if a != nil {
		return a
	}
	return b
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
