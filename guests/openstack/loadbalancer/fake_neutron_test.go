package loadbalancer_test

import (
	"fmt"
	"net/url"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func (c *cloud) neutron(method string, path []string, query url.Values, body object) *abi.HttpResponse {
	table := path[0]
	if method == "GET" && len(path) == 1 {
		return answer(200, object{table: c.query(table, query)})
	}
	given, _ := body["floatingip"].(object)
	if method == "POST" {
		return c.createFloatingIP(given)
	}
	r := c.find(table, path[1])
	switch {
	case r == nil:
		return answer(404, object{"NeutronError": object{"message": table + " " + path[1] + " could not be found", "type": "NotFound"}})
	case method == "DELETE":
		c.drop(table, r.id)
		return &abi.HttpResponse{Status: 204}
	case method == "PUT":
		r.values["port_id"] = given["port_id"]
	}
	return answer(200, object{singular(table): r.values})
}

func (c *cloud) createFloatingIP(given object) *abi.HttpResponse {
	port := str(given["port_id"])
	if c.find("ports", port) == nil || len(c.where("floatingips", "port_id", port)) > 0 {
		return answer(409, object{"NeutronError": object{"message": "Cannot associate floating IP with port " + port, "type": "Conflict"}})
	}
	if given["subnet_id"] == "full" {
		return answer(409, object{"NeutronError": object{"message": "No more IP addresses available on subnet full", "type": "IpAddressGenerationFailure"}})
	}
	c.serial++
	if str(given["floating_ip_address"]) == "" {
		given["floating_ip_address"] = fmt.Sprintf("203.0.113.%d", c.serial)
	}
	return answer(201, object{"floatingip": c.add("floatingips", given).values})
}
