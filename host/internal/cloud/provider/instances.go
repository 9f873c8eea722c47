package provider

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// Instances is cloudprovider.InstancesV2 with a second way to ask whether an
// instance exists, and with lists. It is safe for concurrent use.
type Instances interface {
	cloudprovider.InstancesV2
	// InstanceExistsFresh is InstanceExists in a fresh instance of the guest. It never returns
	// an earlier call's answer.
	InstanceExistsFresh(ctx context.Context, node *corev1.Node) (bool, error)
	// CanList reports whether the serving guest has list_instances.
	CanList() bool
	// ListInstances returns the page of a listing for the token; "" is the first. The answer is
	// done; nothing else of it is checked. An answer from the background goes only to the same
	// listing's question for the same page, so each listing needs its own number.
	ListInstances(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error)
}

// instances implements Instances.
type instances struct {
	invoker  opcontext.Invoker
	steering *steering
}

// InstanceExists returns false without an error only if the guest explicitly answered that
// the instance does not exist: the Node is deleted then.
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return exists(ctx, i.invoker.Invoke, node)
}

// InstanceExistsFresh asks a fresh instance of the guest: the same instance is no second
// opinion.
func (i *instances) InstanceExistsFresh(ctx context.Context, node *corev1.Node) (bool, error) {
	return exists(ctx, i.invoker.InvokeFresh, node)
}

func exists(ctx context.Context, run opcontext.InvokeFunc, node *corev1.Node) (bool, error) {
	var answer abi.InstanceExistsResponse
	if err := invokeNode(ctx, run, abi.OpInstanceExists, node, &answer); err != nil {
		return false, err
	}
	found, err := existence(answer.Existence)
	if err != nil {
		return false, invalidAnswer(abi.OpInstanceExists, node.Name, err)
	}
	return found, nil
}

// InstanceShutdown returns whether the instance is shut down.
func (i *instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	var answer abi.InstanceShutdownResponse
	if err := invokeNode(ctx, i.invoker.Invoke, abi.OpInstanceShutdown, node, &answer); err != nil {
		return false, err
	}
	switch answer.State {
	case abi.PowerState_POWER_STATE_ON:
		return false, nil
	case abi.PowerState_POWER_STATE_SHUTDOWN:
		return true, nil
	}
	return false, invalidAnswer(abi.OpInstanceShutdown, node.Name, fmt.Errorf("unknown power state %d", int32(answer.State)))
}

// InstanceMetadata returns metadata or an error, or neither for a Node that is not the
// provider's (upstream's convention). A refused address is an error: the Node keeps its
// metadata, its taint as well.
func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	var answer abi.InstanceMetadataResponse
	if err := invokeNode(ctx, i.invoker.Invoke, abi.OpInstanceMetadata, node, &answer); err != nil {
		return nil, err
	}
	metadata, err := convert.InstanceMetadataAnswer(&answer, i.steering.policy())
	if err != nil {
		err = invalidAnswer(abi.OpInstanceMetadata, node.Name, err)
		i.steering.refused(node, err)
		return nil, err
	}
	return metadata, nil
}

// CanList reports whether the serving guest has list_instances.
func (i *instances) CanList() bool { return i.invoker.Supports(abi.OpListInstances) }

// ListInstances returns a page that the guest marked as done.
func (i *instances) ListInstances(ctx context.Context, listing uint64, token string, size uint32) (*abi.ListInstancesResponse, error) {
	const op = abi.OpListInstances
	ctx = opcontext.NewContext(ctx, opcontext.Op{Serial: fmt.Sprintf("listing %d", listing)})
	var answer abi.ListInstancesResponse
	if err := invoke(ctx, i.invoker.Invoke, op, "", &abi.ListInstancesRequest{PageToken: token, PageSize: size}, &answer); err != nil {
		return nil, err
	}
	if !answer.Done {
		return nil, invalidAnswer(op, "", errors.New("the answer does not say done"))
	}
	return &answer, nil
}

func invokeNode(ctx context.Context, run opcontext.InvokeFunc, op abi.Op, node *corev1.Node, answer abi.Message) error {
	ctx = opcontext.NewContext(ctx, opcontext.Op{
		Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
	})
	return invoke(ctx, run, op, node.Name, &abi.InstanceRequest{Node: convert.Node(node)}, answer)
}

func existence(e abi.Existence) (bool, error) {
	// Invariant N1 (host/SECURITY.md): no value is a default: an unknown one is an error.
	switch e {
	case abi.Existence_EXISTENCE_EXISTS:
		return true, nil
	case abi.Existence_EXISTENCE_DOES_NOT_EXIST:
		return false, nil
	}
	return false, fmt.Errorf("unknown existence %d", int32(e))
}
