//go:build upstream

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpstreamAWS is the life of a cluster with AWS' own provider, unmodified,
// as a guest: its keys are the host's.
func TestUpstreamAWS(t *testing.T) {
	u := newUpstreamRig(t, "aws", 3)
	module := u.wasm(t, "aws.wasm")
	u.offer(t, module)
	m := u.startGuest(t, "a")

	t.Run("nodes are initialised", func(t *testing.T) {
		u.joinNodes(t)
		u.awaitInitialized(t.Context(), t, m)
		u.checkNodes(t, m)
	})
	t.Run("pod networks get routes", func(t *testing.T) { u.awaitRoutes(t, m, u.podNetworks()) })
	t.Run("services get a classic and a network load balancer", func(t *testing.T) {
		u.service(t, "classic", "")
		u.service(t, "network", "nlb")
		u.awaitBalancers(t, m, 1, 1)
		u.checkBackends(t)
	})
	t.Run("the guest has no secret", func(t *testing.T) { u.searchGuests(t, m, module) })
	t.Run("the provider is replaced", func(t *testing.T) {
		next := append(bytes.Clone(module), customSection("another-build", []byte("1"))...)
		u.offer(t, next)
		u.until(t.Context(), t, m, "the next build serves", func() (bool, string) {
			text, err := m.metrics(u.scrape)
			return err == nil && strings.Contains(grep(text, "wasm_ccm_provider_serving"), strings.TrimPrefix(digest(next), "sha256:")), fmt.Sprint(err)
		})
		u.service(t, "later", "")
		u.awaitBalancers(t, m, 2, 1)
	})
	t.Run("a key that AWS does not know never serves", func(t *testing.T) {
		u.key(t, awsWrongID)
		u.until(t.Context(), t, m, "the probe fails", func() (bool, string) {
			text, err := m.metrics(u.scrape)
			return err == nil && strings.Contains(text, `reason="ProbeFailed"`), fmt.Sprint(err)
		})
		u.service(t, "kept", "nlb") // by the key of before
		u.awaitBalancers(t, m, 2, 2)
		u.key(t, awsKeyID)
	})
	t.Run("a machine goes", func(t *testing.T) {
		gone := u.moto.privateDNS[0]
		u.moto.ask(t, "ec2", "TerminateInstances", "InstanceId.1", u.moto.instances[0])
		u.ready(t, gone, corev1.ConditionFalse)
		u.ready(t, u.moto.privateDNS[1], corev1.ConditionFalse) // its machine is there
		u.until(t.Context(), t, m, "the Node without a machine is deleted", func() (bool, string) {
			_, err := u.client.CoreV1().Nodes().Get(t.Context(), gone, metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		if _, err := u.client.CoreV1().Nodes().Get(t.Context(), u.moto.privateDNS[1], metav1.GetOptions{}); err != nil {
			t.Errorf("the Node whose machine is there: %v", err)
		}
	})
	t.Run("services are deleted", func(t *testing.T) {
		for _, s := range u.services(t) {
			if err := u.client.CoreV1().Services(u.namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		u.until(t.Context(), t, m, "nothing is left of them", func() (bool, string) {
			classic, network := u.moto.balancers(t)
			return len(classic)+len(network)+len(u.services(t)) == 0, fmt.Sprint(classic, network)
		})
		if groups := all(`<groupName>(k8s-[^<]*)<`, u.moto.ask(t, "ec2", "DescribeSecurityGroups")); len(groups) > 0 {
			t.Errorf("security groups are left: %q", groups)
		}
	})
	_, signers := u.proxy.seen()
	for signer, n := range signers {
		if strings.HasPrefix(signer, awsWrongID+" ") && n <= 10 {
			continue // of the step with that key
		}
		if signer != awsKeyID+" with a session/ec2" && signer != awsKeyID+" with a session/elasticloadbalancing" {
			t.Errorf("%d requests were signed by %s", n, signer)
		}
	}
}

// checkNodes compares the Nodes with the machines.
func (u *upstreamRig) checkNodes(t *testing.T, m *manager) {
	t.Helper()
	for i, name := range u.moto.privateDNS {
		var node *corev1.Node
		u.until(t.Context(), t, m, "the Node has its addresses", func() (bool, string) { // they come behind the rest
			var err error
			node, err = u.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && len(node.Status.Addresses) > 0, fmt.Sprint(err)
		})
		if want := "aws:///" + awsZone + "/" + u.moto.instances[i]; node.Spec.ProviderID != want {
			t.Errorf("node %s has the provider ID %s, want %s", name, node.Spec.ProviderID, want)
		}
		if l := node.Labels; l[corev1.LabelTopologyZone] != awsZone || l[corev1.LabelTopologyRegion] != awsRegion || l[corev1.LabelInstanceTypeStable] != "m5.large" {
			t.Errorf("node %s has the labels %v", name, l)
		}
		if a := node.Status.Addresses; len(a) == 0 || a[0].Address != u.moto.privIP[i] {
			t.Errorf("node %s has the addresses %v, want %s", name, a, u.moto.privIP[i])
		}
	}
}

// checkBackends: both load balancers lead to all machines.
func (u *upstreamRig) checkBackends(t *testing.T) {
	t.Helper()
	classic := u.moto.ask(t, "elasticloadbalancing", "DescribeLoadBalancers")
	targets := ""
	for _, arn := range all(`<TargetGroupArn>([^<]+)<`, u.moto.ask(t, "elasticloadbalancingv2", "DescribeTargetGroups")) {
		targets += u.moto.ask(t, "elasticloadbalancingv2", "DescribeTargetHealth", "TargetGroupArn", arn)
	}
	for _, id := range u.moto.instances {
		if !strings.Contains(classic, id) {
			t.Errorf("%s is no backend of the classic load balancer", id)
		}
		if strings.Count(targets, "<Id>"+id+"<") != 2 {
			t.Errorf("%s is not a target of both ports of the network load balancer: %s", id, targets)
		}
	}
}
