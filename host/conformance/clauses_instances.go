package conformance

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
)

func instanceClauses() []clause {
	return []clause{
		{id: "instance-exists", text: "instances that the cloud has exist, by name and by provider ID", ops: abi.GroupInstances.Required(), check: checkExists},
		{id: "instance-metadata", text: "metadata is valid, the same each time, and the same by name and by provider ID", ops: abi.GroupInstances.Required(), check: checkMetadata},
		{id: "instance-shutdown", text: "the power state is known, and the same each time", ops: abi.GroupInstances.Required(), check: checkShutdown},
		{id: "instance-unknown", text: "an instance that the cloud does not have does not exist, and has neither metadata nor power (instance_not_found)", ops: abi.GroupInstances.Required(), check: checkUnknown},
		{id: "instance-foreign", text: "a node with a provider ID of another cloud is an error, never an answer", ops: abi.GroupInstances.Required(), check: checkForeign},
	}
}

// identified are the nodes with the guest's own provider IDs, as the API server
// has them from the second round on.
func (c *check) identified(ctx context.Context) (nodes []*corev1.Node) {
	for _, n := range c.Cases.Nodes {
		node := n.object()
		node.Spec.ProviderID = ""
		m, o := c.metadata(ctx, nil, node)
		if o.err != nil {
			c.failf(o, "node %s: %s", n.Name, o)
			continue
		}
		node.Spec.ProviderID = m.ProviderId
		nodes = append(nodes, node)
	}
	return nodes
}

func checkExists(ctx context.Context, c *check) {
	nodes := c.identified(ctx)
	for _, node := range nodes {
		unidentified := node.DeepCopy()
		unidentified.Spec.ProviderID = ""
		for _, n := range []*corev1.Node{unidentified, node, node} {
			e, o := c.exists(ctx, nil, n)
			if o.err != nil || e != abi.Existence_EXISTENCE_EXISTS {
				c.failf(o, "node %s (provider ID %q): %s, %s, want EXISTS", n.Name, n.Spec.ProviderID, o, e)
			}
		}
	}
	c.notef("%d nodes", len(nodes))
}

func checkMetadata(ctx context.Context, c *check) {
	for i, node := range c.identified(ctx) {
		byName := node.DeepCopy()
		byName.Spec.ProviderID = ""
		var first *abi.InstanceMetadata
		for _, n := range []*corev1.Node{byName, byName, node, node} {
			m, o := c.metadata(ctx, nil, n)
			if o.err != nil {
				c.failf(o, "node %s (provider ID %q): %s", n.Name, n.Spec.ProviderID, o)
				continue
			}
			if first == nil {
				first = m
				c.checkFit(o, c.Cases.Nodes[i], m)
			}
			if a, b := inJSON(first), inJSON(m); a != b {
				c.failf(o, "node %s (provider ID %q): %s, and before: %s", n.Name, n.Spec.ProviderID, b, a)
			}
		}
	}
}

// checkFit checks metadata against the host's rules and the cases.
func (c *check) checkFit(o outcome, want Node, m *abi.InstanceMetadata) {
	converted, err := convert.InstanceMetadata(m, c.policy)
	switch {
	case err != nil:
		c.failf(o, "node %s: the host refuses the metadata: %v", want.Name, err)
		return
	case !strings.Contains(m.ProviderId, "://"):
		c.failf(o, "node %s: the provider ID %q is not SCHEME://...", want.Name, m.ProviderId)
	case want.ProviderID != "" && m.ProviderId != want.ProviderID:
		c.failf(o, "node %s: the provider ID is %q, want %q", want.Name, m.ProviderId, want.ProviderID)
	case len(converted.NodeAddresses) == 0:
		c.failf(o, "node %s has no address", want.Name)
	}
	if want.Addresses != nil && !slices.Equal(converted.NodeAddresses, want.Addresses) {
		c.failf(o, "node %s: the addresses are %v, want %v", want.Name, converted.NodeAddresses, want.Addresses)
	}
	for key := range m.AdditionalLabels {
		if reserved(key) {
			c.failf(o, "node %s: the label %s is Kubernetes' own", want.Name, key)
		}
	}
}

// reserved reports whether a label belongs to kubernetes.io or k8s.io.
func reserved(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && (domain == "kubernetes.io" || domain == "k8s.io" ||
		strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io"))
}

func checkShutdown(ctx context.Context, c *check) {
	for _, node := range c.identified(ctx) {
		first, o := c.shutdown(ctx, node)
		if o.err != nil || first != abi.PowerState_POWER_STATE_ON && first != abi.PowerState_POWER_STATE_SHUTDOWN {
			c.failf(o, "node %s: %s, %s", node.Name, o, first)
		}
		if again, o := c.shutdown(ctx, node); again != first {
			c.failf(o, "node %s: %s, and before %s", node.Name, again, first)
		}
	}
}

// unknown is the node that the cloud lacks: by name, and by a provider ID of
// this cloud.
func (c *check) unknown(ctx context.Context) []*corev1.Node {
	byName := c.Cases.UnknownNode.object()
	byName.Spec.ProviderID = ""
	byID := byName.DeepCopy()
	byID.Spec.ProviderID = c.Cases.UnknownNode.ProviderID
	if known := c.identified(ctx); byID.Spec.ProviderID == "" && len(known) > 0 {
		byID.Spec.ProviderID = unlike(known[0].Spec.ProviderID, byID.Name)
	}
	return []*corev1.Node{byName, byID}
}

func checkUnknown(ctx context.Context, c *check) {
	for _, node := range c.unknown(ctx) {
		for range 2 {
			e, o := c.exists(ctx, nil, node)
			// A cloud may only be able to say that no machine has the name: an empty
			// list is no answer (SPEC.md, the rule of explicit existence).
			if node.Spec.ProviderID == "" && o.code() == abi.CodeInvalid {
				continue
			}
			if o.err != nil || e != abi.Existence_EXISTENCE_DOES_NOT_EXIST {
				c.failf(o, "node %s (provider ID %q): %s, %s, want DOES_NOT_EXIST", node.Name, node.Spec.ProviderID, o, e)
			}
		}
		_, metadata := c.metadata(ctx, nil, node)
		_, shutdown := c.shutdown(ctx, node)
		for _, o := range []outcome{metadata, shutdown} {
			if o.code() != abi.CodeInstanceNotFound {
				c.failf(o, "node %s (provider ID %q): %s, want instance_not_found", node.Name, node.Spec.ProviderID, o)
			}
		}
	}
}

func checkForeign(ctx context.Context, c *check) {
	for _, name := range []string{c.Cases.Nodes[0].Name, c.Cases.UnknownNode.Name} {
		node := Node{Name: name, ProviderID: c.Cases.ForeignProviderID}.object()
		e, o := c.exists(ctx, nil, node)
		if o.err == nil {
			c.failf(o, "node %s with the provider ID %q: %s, want an error", name, node.Spec.ProviderID, e)
		}
		if m, o := c.metadata(ctx, nil, node); o.err == nil || o.code() == abi.CodeInstanceNotFound {
			c.failf(o, "node %s with the provider ID %q: %s, %s, want an error, and not that it is not found", name, node.Spec.ProviderID, o, inJSON(m))
		}
	}
}
