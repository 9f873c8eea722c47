//go:build cpo

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func sharingAdapters() []adapter {
	return []adapter{
		{
			test: "TestLbaasV2_checkListenerPorts", table: "tests", run: runListenerPorts,
			how: "a load balancer with that listener and those tags; the Service owns it by name, or names it in load-balancer-id; its protocols, which no Service has, are TCP; their lbName is the Service's name",
		},
		{
			test: "TestMatchSubnet", cases: subnetCases, run: runSubnetMatch,
			how: "each match of their helpers runName and runTag is a case: whether lb_ensure makes the floating IP in that subnet for a Service with those annotations",
		},
	}
}

func sharedName(name string) string { return "kube_service_kubernetes_default_" + name }

func runListenerPorts(t *testing.T, c Case) result {
	r := newRun(t)
	s := service(At(c.Value, "args", "service"))
	s.Namespace, s.Name = "default", Text(c.Value, "args", "lbName")
	owner := Bool(c.Value, "args", "isLBOwner")
	lb := r.cloud.create("loadbalancers", object{"name": "another", "tags": []any{sharedName("another")}})
	if owner {
		lb["name"], lb["tags"] = sharedName(s.Name), []any{sharedName(s.Name)}
	} else {
		s.Annotations[annotation+"load-balancer-id"] = fmt.Sprint(lb["id"])
		r.cloud.create("floatingips", object{"port_id": "vip-port", "floating_network_id": "ext"})
	}
	mapping, _ := At(c.Value, "args", "curListenerMapping").(Map)
	for _, e := range mapping {
		tags := []any{}
		for _, tag := range List(e.Value, "Tags") {
			tags = append(tags, sharedName(fmt.Sprint(tag)))
		}
		r.cloud.create("listeners", object{"loadbalancer_id": lb["id"], "protocol": "TCP", "protocol_port": Int(e.Key, "Port"), "tags": tags})
	}
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	if err != nil && sdk.CodeOf(err) != abi.CodeConflict {
		return same(err, "")
	}
	return same(fmt.Sprint("conflict: ", err != nil), fmt.Sprint("conflict: ", Bool(c.Value, "wantErr")))
}

// subnetCases does what the test and its helpers do with a spec, and notes
// each match.
func subnetCases(f *Func) ([]Case, error) {
	subnet, err := f.Var("subnet")
	if err != nil {
		return nil, err
	}
	specs := map[string]string{} // "all.subnetTags"
	get := func(name, field string) (string, error) {
		if text, found := specs[name+"."+field]; found {
			return text, nil
		}
		value, err := f.Var(name)
		return Text(value, field), err
	}
	m := &matches{subnet: subnet}
	for _, step := range f.Steps() {
		m.pos = step.Pos
		if step.Set != "" {
			name, field, _ := strings.Cut(step.Set, ".")
			before, err := get(name, field)
			if err != nil {
				return nil, err
			}
			after, err := step.Value(before)
			if err != nil {
				return nil, err
			}
			specs[step.Set] = fmt.Sprint(after)
			continue
		}
		if len(step.Args) != 4 {
			return nil, fmt.Errorf("%s: the call %s is unknown", step.Pos, step.Call)
		}
		variable, _ := step.Args[2].(Symbol)
		name, err := get(string(variable), "subnet")
		if err != nil {
			return nil, err
		}
		tags, err := get(string(variable), "subnetTags")
		if err != nil {
			return nil, err
		}
		expected, _ := step.Args[3].(bool)
		if step.Call == "runName" {
			m.names(name, tags, expected)
		} else {
			m.tags(name, tags, expected)
		}
	}
	return m.cases, nil
}

// matches collects what their helpers check.
type matches struct {
	subnet any
	pos    string
	cases  []Case
}

func (m *matches) add(name, tags string, expected bool) {
	m.cases = append(m.cases, Case{
		Name: fmt.Sprintf("%s: subnet %q, tags %q", m.pos, name, tags), Pos: m.pos,
		Value: &Object{Fields: map[string]any{"subnet": m.subnet, "name": name, "tags": tags, "expected": expected}},
	})
}

// names is runName: the name, one that is another, and anything, each with its
// opposite.
func (m *matches) names(name, tags string, expected bool) {
	for _, one := range []struct {
		name     string
		expected bool
	}{{name, expected}, {"other*", !expected}, {"~other.*", !expected}, {"*", true}, {"~.*", true}} {
		m.add(one.name, tags, one.expected)
		m.add("!"+one.name, tags, !one.expected)
	}
}

// tags is runTag: the tags and their opposite, and for a single tag another
// one.
func (m *matches) tags(name, tags string, expected bool) {
	m.add(name, tags, expected)
	m.add(name, "!"+tags, !expected)
	if !strings.Contains(tags, ",") {
		m.add(name, "other", !expected)
		m.add(name, "!other", expected)
	}
}

func runSubnetMatch(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "floating-network-id", "ext")
	subnet := At(c.Value, "subnet")
	r.cloud.put("subnets", object{"id": "theirs", "name": Text(subnet, "Name"), "network_id": "ext", "ip_version": 4, "tags": plain(At(subnet, "Tags"))})
	s := service(nil)
	for key, field := range map[string]string{"floating-subnet": "name", "floating-subnet-tags": "tags"} {
		if text := Text(c.Value, field); text != "" {
			s.Annotations[annotation+key] = text
		}
	}
	_, err := r.ensure(s, r.node("node", "10.10.0.9"))
	if err != nil && !strings.Contains(err.Error(), "no subnet that matches") {
		return same(err, "")
	}
	return same(err == nil && r.the("floatingips")["subnet_id"] == "theirs", Bool(c.Value, "expected"))
}
