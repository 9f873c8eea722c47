package upstream

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// instances puts questions about a node in the form of
// cloudprovider.InstancesV2.
func (p *provider) instances(op *sdk.Op, node *abi.Node) (ctx context.Context, instances cloudprovider.InstancesV2, done func(), err error) {
	ctx, done, err = p.begin(op, "Node//"+node.Name)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := p.ours(node.ProviderId); err != nil {
		done()
		return nil, nil, nil, err
	}
	if instances, ok := p.anyInstances(); ok {
		return ctx, instances, done, nil
	}
	done()
	return nil, nil, nil, notImplemented("InstancesV2 and no Instances")
}

// ours refuses a node of another cloud: upstream's manager asks providers only
// about their own nodes, and some look only at the end of an ID.
func (p *provider) ours(providerID string) error {
	scheme, _, ok := strings.Cut(providerID, "://")
	if !ok || scheme == p.cloud.ProviderName() || slices.Contains(p.schemes, scheme) {
		return nil
	}
	return sdk.Invalidf("the provider ID %q is of another cloud than %s. If it is not, the guest must be built with the option upstream.Schemes(%q)", providerID, p.cloud.ProviderName(), scheme)
}

// InstanceExists is part of sdk.Instances.
func (p *provider) InstanceExists(op *sdk.Op, node *abi.Node) (sdk.Existence, error) {
	ctx, instances, done, err := p.instances(op, node)
	if err != nil {
		return 0, err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	exists, err := instances.InstanceExists(ctx, nodeFrom(node))
	if err != nil {
		return 0, p.failure(err)
	}
	if exists {
		p.known.add(node.ProviderId)
		p.known.learn(seen, node)
		return sdk.Exists, nil
	}
	p.bridge.witness(nil) // later requests do not count
	if p.settings.strict() {
		if err := p.instanceGone(seen, node); err != nil {
			return 0, err
		}
	}
	return sdk.DoesNotExist, nil
}

// InstanceShutdown is part of sdk.Instances.
func (p *provider) InstanceShutdown(op *sdk.Op, node *abi.Node) (sdk.PowerState, error) {
	ctx, instances, done, err := p.instances(op, node)
	if err != nil {
		return 0, err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	down, err := instances.InstanceShutdown(ctx, nodeFrom(node))
	if err != nil {
		return 0, p.instanceFailure(seen, node, err)
	}
	if down {
		return sdk.Shutdown, nil
	}
	return sdk.On, nil
}

// InstanceMetadata is part of sdk.Instances.
func (p *provider) InstanceMetadata(op *sdk.Op, node *abi.Node) (*abi.InstanceMetadata, error) {
	ctx, instances, done, err := p.instances(op, node)
	if err != nil {
		return nil, err
	}
	defer done()
	seen := &witness{}
	p.bridge.witness(seen)
	metadata, err := instances.InstanceMetadata(ctx, nodeFrom(node))
	if err != nil {
		return nil, p.instanceFailure(seen, node, err)
	}
	if metadata == nil {
		return nil, nil // which the SDK refuses
	}
	answer := metadataTo(metadata)
	if answer.ProviderId == "" { // as upstream's node controller does
		answer.ProviderId = node.ProviderId
	}
	if err := p.ours(answer.ProviderId); err != nil {
		return nil, err
	}
	p.known.add(answer.ProviderId)
	p.known.learn(seen, &abi.Node{Name: node.Name, ProviderId: answer.ProviderId, SystemUuid: node.SystemUuid})
	return answer, nil
}

// firstInstances makes InstancesV2 of the first Instances and Zones, as
// upstream's controllers do.
type firstInstances struct {
	cloud     cloudprovider.Interface
	instances cloudprovider.Instances
}

func (f *firstInstances) providerID(ctx context.Context, node *v1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	return cloudprovider.GetInstanceProviderID(ctx, f.cloud, nodeName(node))
}
