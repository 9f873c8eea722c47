// Command aws is the AWS cloud provider of Kubernetes, unmodified, as a guest. It
// imports the provider and guests/upstream, nothing else.
package main

import (
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1"

	"github.com/wasm-ccm/wasm-ccm/guests/upstream"
)

var version = "1.37.0"

//nolint:gochecknoinits // main of a reactor is never run
func init() {
	upstream.Serve("aws", version, upstream.Registered("aws"),
		upstream.ProbeInstance("aws:///i-00000000000000000"),
		upstream.Gone("InvalidInstanceID.NotFound", "terminated", "LoadBalancerNotFound", "AccessPointNotFound"))
}

func main() {}
