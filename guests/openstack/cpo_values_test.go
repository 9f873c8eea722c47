//go:build cpo

package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func canonicalAddress(text string) string {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.String()
	}
	return text
}

// valueAdapters are the tests of how annotations, classes and cloud.conf are
// chosen between.
func valueAdapters() []adapter {
	return []adapter{
		{
			test: "Test_getIntFromServiceAnnotation", table: "tests", run: runNumber,
			how: "their key is the annotation health-monitor-max-retries, their default monitor-max-retries of cloud.conf; the monitor that lb_ensure makes",
		},
		{
			test: "Test_getBoolFromServiceAnnotation", table: "tests", run: runSwitch,
			how: "their key is the annotation enable-health-monitor, their default create-monitor of cloud.conf; whether lb_ensure makes a monitor",
		},
		{
			test: "Test_getStringFromServiceAnnotation", table: "tests", run: runText,
			how: "their key is the annotation flavor-id, their default flavor-id of cloud.conf; the flavor that lb_ensure asks for",
		},
		{
			test: "TestLbaasV2_getMemberSubnetID", table: "tests", run: runSubnet("opts", "service", "members"), how: "the subnet of the member that lb_ensure makes",
			meant: map[string]string{
				"get member subnet id from service annotation": "A class that cloud.conf does not have is refused for each Service; theirs refuses it for external ones, for others only where it needs the class.",
			},
		},
		{test: "Test_getSubnetID", table: "tests", run: runSubnet("args lbaasV2 0 opts", "args service", "vip_subnet_id"), how: "vip_subnet_id of the internal load balancer that lb_ensure makes"},
		{test: "TestLbaasV2_getNetworkID", table: "tests", run: runSubnet("lbaas LoadBalancer opts", "arg service", "vip_network_id"), how: "vip_network_id of the internal load balancer that lb_ensure makes"},
	}
}

// lookedUp makes their annotation ours, and any other one nobody's.
func lookedUp(args any, name string) *abi.Service {
	s := service(At(args, "service"))
	key := Text(args, "annotationKey")
	annotations := map[string]string{}
	for k, v := range s.Annotations {
		if k == key {
			annotations[annotation+name] = v
		} else {
			annotations["example.com/"+k] = v
		}
	}
	s.Annotations = annotations
	return s
}

func runNumber(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "create-monitor", true)
	r.set("LoadBalancer", "monitor-max-retries", Int(c.Value, "args", "defaultSetting"))
	_, err := r.ensure(lookedUp(At(c.Value, "args"), "health-monitor-max-retries"), r.node("node", "10.10.0.9"))
	return orError(r.the("healthmonitors")["max_retries"], err, Int(c.Value, "want"))
}

func runSwitch(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "create-monitor", Bool(c.Value, "testargs", "defaultSetting"))
	_, err := r.ensure(lookedUp(At(c.Value, "testargs"), "enable-health-monitor"), r.node("node", "10.10.0.9"))
	return orError(len(r.cloud.objects["healthmonitors"]) == 1, err, Bool(c.Value, "want"))
}

func runText(t *testing.T, c Case) result {
	r := newRun(t)
	r.set("LoadBalancer", "flavor-id", Text(c.Value, "testArgs", "defaultSetting"))
	_, err := r.ensure(lookedUp(At(c.Value, "testArgs"), "flavor-id"), r.node("node", "10.10.0.9"))
	flavor, _ := r.the("loadbalancers")["flavor_id"].(string)
	return orError(flavor, err, Text(c.Value, "expected"))
}

// runSubnet reads the options and the Service at those paths.
func runSubnet(opts, of, what string) func(t *testing.T, c Case) result {
	return func(t *testing.T, c Case) result {
		r := newRun(t)
		r.options(At(c.Value, strings.Fields(opts)...))
		s := service(At(c.Value, strings.Fields(of)...))
		s.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
		_, err := r.ensure(s, r.node("node", "10.10.0.9"))
		wanted := Text(c.Value, "wantErr") + Text(c.Value, "expectedErr")
		if wanted != "" {
			return same(err != nil && strings.Contains(err.Error(), "class"), true)
		}
		o, key := r.the("loadbalancers"), what
		if what == "members" {
			list, _ := r.the("pools")["members"].([]object)
			if len(list) != 1 {
				return orError(list, err, Text(c.Value, "want"))
			}
			o, key = list[0], "subnet_id"
		}
		return orError(fmt.Sprint(o[key]), err, Text(c.Value, "want"))
	}
}
