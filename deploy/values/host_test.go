package main

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/wasm-ccm/wasm-ccm/host/test/hostconfig"
)

// Of hosts the chart refuses what is a URL or has a port, and nothing that the manager takes.
func TestHosts(t *testing.T) {
	t.Chdir("../..")
	schema, err := schemaOf()
	if err != nil {
		t.Fatal(err)
	}
	property, _ := schema.Definitions["Grant"].Properties.Get("host")
	pattern := regexp.MustCompile(property.Pattern)
	for host, want := range map[string]bool{
		"api.example.com": true, "*.example.com": true, "192.0.2.1": true, "2001:db8::1": true,
		"https://api.example.com": false, "api.example.com/v1": false, "api.example.com:443": false,
	} {
		_, err := hostconfig.Decode(fmt.Appendf(nil, "apiVersion: config.wasm-ccm.dev/v1alpha1\nkind: HostConfiguration\nproviders: [{name: p, source: {directory: /m}, grants: [{host: %q}]}]\n", host))
		if got := pattern.MatchString(host); got != want || got != (err == nil) {
			t.Errorf("%s: the chart takes it: %v, the manager: %v", host, got, err)
		}
	}
}
