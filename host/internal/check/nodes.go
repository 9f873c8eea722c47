package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

// nodes looks for kubelets with wrong flags, and for taints that stay.
func (c *checker) nodes(context.Context) {
	waiting := 0
	for i := range c.seen.nodes {
		if waits(&c.seen.nodes[i]) {
			waiting++
		}
	}
	good := fmt.Sprintf("%d of %d Nodes wait for their cloud's data; each kubelet runs with --cloud-provider=external", waiting, len(c.seen.nodes))
	if len(c.seen.nodes) == 0 {
		good = "there is no Node"
	}
	c.section("Nodes", "cluster", good, func() {
		for i := range c.seen.nodes {
			c.node(&c.seen.nodes[i])
		}
	}, ofNodes)
}

// waits reports whether a Node lacks its cloud's data.
func waits(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
}

func (c *checker) node(node *corev1.Node) {
	where := "node " + node.Name
	age := c.dates.now().Sub(node.CreationTimestamp.Time)
	switch {
	case !waits(node) && node.Spec.ProviderID == "":
		c.tell(report.NotHandedOver, where, "it has neither a providerID nor the taint "+cloudproviderapi.TaintExternalCloudProvider)
	case waits(node) && c.installed() && age > c.Patience:
		c.tell(report.NodeNotInitialized, where, fmt.Sprintf("%s, %v after it has come", cloudproviderapi.TaintExternalCloudProvider, age.Round(time.Second)))
	}
	if strings.Contains(node.Spec.ProviderID, " ") || node.Spec.ProviderID != "" && !strings.Contains(node.Spec.ProviderID, "://") {
		c.tell(report.ProviderIDInvalid, where, fmt.Sprintf("%q; a kubelet with --provider-id has set it", node.Spec.ProviderID))
	}
}

// routes checks kube-controller-manager for the settings that the route controller needs.
func (c *checker) routes(context.Context) {
	w := c.target()
	if w == nil {
		return
	}
	// Kubernetes' default is true.
	if on, set := flag(w.container(), "configure-cloud-routes"); set && on == "false" {
		return
	}
	c.section("Routes", w.where(), "with cloud routes, each Node has a pod CIDR", func() {
		if cidr, _ := flag(w.container(), "cluster-cidr"); cidr == "" {
			c.tell(report.ClusterCIDRMissing, w.where(), "")
		}
		for i := range c.seen.nodes {
			if c.seen.nodes[i].Spec.PodCIDR == "" {
				c.tell(report.NoPodCIDR, "node "+c.seen.nodes[i].Name, "")
			}
		}
	}, ofNodes)
}
