package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The cloud of count=URL keeps plain text and needs no more of HTTP than that:
//
//	GET URL/probe         200 when it is well
//	GET URL/server/NAME   200 or 404
//	GET URL/lb/UID        200 with what is kept, or 404
//	PUT URL/lb/UID        keeps the body
//	DELETE URL/lb/UID     200 or 404
//	GET URL/route         a line for each route: NAME NODE CIDR
//	PUT URL/route/NAME    keeps the body, NODE CIDR
//	DELETE URL/route/NAME 200 or 404
//
// A write is sent only where something differs, so that the writes it counts
// are those that something asked for. X-Op has the op of each request.

// get answers not found for 404.
func (p *provider) get(op *sdk.Op, path string) (body string, found bool, err error) {
	response, err := p.send(op, "GET", path, "")
	if err != nil || response.Status == 404 {
		return "", false, err
	}
	return string(response.Body), true, nil
}

// send returns an error for every status but 2xx and 404.
func (p *provider) send(op *sdk.Op, method, path, body string) (*abi.HttpResponse, error) {
	response, err := op.HTTP().Do(&abi.HttpRequest{
		Method: method, Url: p.count + path, Body: []byte(body), Credential: p.credential,
		Headers: []*abi.HttpHeader{{Name: "X-Op", Value: p.op.String()}},
	})
	if err != nil {
		return nil, err
	}
	switch status := response.Status; {
	case status/100 == 2, status == 404:
		return response, nil
	case status == 401:
		return nil, sdk.Unauthenticated(method + " " + path + ": the cloud answered 401")
	default:
		return nil, sdk.Error(abi.CodeUnavailable, method+" "+path+": the cloud answered "+strconv.Itoa(int(status)))
	}
}

// put writes unless the value is already there.
func (p *provider) put(op *sdk.Op, path, body string) error {
	old, found, err := p.get(op, path)
	if err != nil || found && old == body {
		return err
	}
	if !found && p.op == abi.OpLoadBalancerUpdate { // it may come after the deletion, and must not undo that
		return sdk.Error(abi.CodeNotFound, "there is no "+path)
	}
	response, err := p.send(op, "PUT", path, body)
	if err == nil && response.Status == 404 {
		err = sdk.Error(abi.CodeUnavailable, "PUT "+path+": the cloud answered 404")
	}
	return err
}

func (p *provider) remove(op *sdk.Op, path string) error {
	_, err := p.send(op, "DELETE", path, "")
	return err
}

// wanted is the cloud's record of a Service: a line for its name, its class,
// each port and each node, in a stable order.
func wanted(op *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	service := request.Service
	lines := []string{"service " + service.Namespace + "/" + service.Name}
	if service.LoadBalancerClass != "" {
		lines = append(lines, "class "+service.LoadBalancerClass)
	}
	for _, port := range service.Ports {
		lines = append(lines, "port "+strconv.Itoa(int(port.Port))+"/"+port.Protocol)
	}
	var nodes []string
	for node, err := range op.Nodes(request.Nodes, sdk.NodeName) {
		if err != nil {
			return "", err
		}
		nodes = append(nodes, "node "+node.Name)
	}
	slices.Sort(nodes)
	return strings.Join(append(lines, nodes...), "\n") + "\n", nil
}
