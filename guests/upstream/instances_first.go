package upstream

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

func nodeName(node *v1.Node) types.NodeName { return types.NodeName(node.Name) }

// InstanceExists is part of cloudprovider.InstancesV2.
func (f *firstInstances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	id, err := f.providerID(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return f.instances.InstanceExistsByProviderID(ctx, id)
}

// InstanceShutdown is part of cloudprovider.InstancesV2.
func (f *firstInstances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	id, err := f.providerID(ctx, node)
	if err != nil {
		return false, err
	}
	return f.instances.InstanceShutdownByProviderID(ctx, id)
}

// InstanceMetadata is part of cloudprovider.InstancesV2. It asks by name for an
// instance that is not found by ID.
func (f *firstInstances) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	id, err := f.providerID(ctx, node)
	if err != nil {
		return nil, err
	}
	metadata := &cloudprovider.InstanceMetadata{ProviderID: id}
	if metadata.NodeAddresses, err = f.addresses(ctx, id, node); err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	if metadata.InstanceType, err = f.kind(ctx, id, node); err != nil {
		return nil, fmt.Errorf("instance type: %w", err)
	}
	zones, ok := f.cloud.Zones()
	if !ok {
		return metadata, nil
	}
	zone, err := f.zone(ctx, zones, id, node)
	if err != nil {
		return nil, fmt.Errorf("zone: %w", err)
	}
	metadata.Zone, metadata.Region = zone.FailureDomain, zone.Region
	return metadata, nil
}

func (f *firstInstances) addresses(ctx context.Context, id string, node *v1.Node) ([]v1.NodeAddress, error) {
	addresses, byID := f.instances.NodeAddressesByProviderID(ctx, id)
	if byID == nil {
		return addresses, nil
	}
	addresses, err := f.instances.NodeAddresses(ctx, nodeName(node))
	return addresses, both(byID, err)
}

func (f *firstInstances) kind(ctx context.Context, id string, node *v1.Node) (string, error) {
	kind, byID := f.instances.InstanceTypeByProviderID(ctx, id)
	if byID == nil {
		return kind, nil
	}
	kind, err := f.instances.InstanceType(ctx, nodeName(node))
	return kind, both(byID, err)
}

func (f *firstInstances) zone(ctx context.Context, zones cloudprovider.Zones, id string, node *v1.Node) (cloudprovider.Zone, error) {
	zone, byID := zones.GetZoneByProviderID(ctx, id)
	if byID == nil {
		return zone, nil
	}
	zone, err := zones.GetZoneByNodeName(ctx, nodeName(node))
	return zone, both(byID, err)
}

// both joins the errors of the searches by ID and by name.
func both(byID, byName error) error {
	if byName == nil {
		return nil
	}
	return fmt.Errorf("by provider ID: %w; by name: %w", byID, byName)
}
