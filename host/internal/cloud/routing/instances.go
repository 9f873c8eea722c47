package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// instances guard a provider's instances: they serve only its own Nodes.
type instances struct {
	inner cloudprovider.InstancesV2
	*guarded
}

// InstanceExists returns true for a Node that is not surely the provider's: upstream would
// delete it.
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	// Invariant P1 (host/SECURITY.md): a provider is never asked whether a Node that is not surely
	// its own may be deleted.
	if !i.owns(node) {
		return true, nil
	}
	return i.inner.InstanceExists(ctx, node)
}

// InstanceShutdown returns false for a Node that is not surely the provider's: upstream
// would taint it.
func (i *instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if !i.owns(node) {
		return false, nil
	}
	return i.inner.InstanceShutdown(ctx, node)
}

// InstanceMetadata returns the provider's metadata of its own Node, or of an unmarked Node
// that no other provider knows. Upstream writes it to the Node, which then is the provider's
// for good.
func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	owned := i.owns(node)
	if !owned && !unmarked(node) {
		return nil, fmt.Errorf("%s is not a node of provider %q: %s", about(node), i.provider, i.router.table().mark(node))
	}
	if !owned && !i.router.table().mayAsk(i.provider) {
		return nil, fmt.Errorf("%s has no ProviderID and no label %s, and provider %q may not be asked whether it knows it", about(node), NodeLabel, i.provider)
	}
	metadata, err := i.inner.InstanceMetadata(ctx, node)
	if err != nil || metadata == nil {
		return nil, err // unwrapped: upstream compares
	}
	if err := i.checkScheme(node, metadata.ProviderID); err != nil {
		return nil, err
	}
	if owned {
		return metadata, nil
	}
	if err := i.alone(ctx, node); err != nil {
		return nil, err
	}
	return metadata, nil
}

// checkScheme refuses a ProviderID that would give the Node to another provider or to none.
// Without a ProviderID upstream decides.
func (i *instances) checkScheme(node *corev1.Node, id string) error {
	scheme := schemeOf(id)
	if id == "" || i.router.table().schemes[scheme] == i.provider {
		return nil
	}
	return fmt.Errorf("provider %q gives %s a ProviderID with the scheme %s, which is not one of its own; add it to the provider's schemes, or mend the provider",
		i.provider, about(node), text.Quote(scheme))
}

// alone returns an error unless all other providers that may be asked answer that they do
// not know the Node.
func (i *instances) alone(ctx context.Context, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, i.options.AskTimeout)
	defer cancel()
	others := slices.DeleteFunc(slices.Clone(i.router.table().ask), func(name string) bool { return name == i.provider })
	known, errs := make([]bool, len(others)), make([]error, len(others))
	var group sync.WaitGroup
	for n, name := range others {
		group.Go(func() { known[n], errs[n] = i.router.peer(name).knows(ctx, node) })
	}
	group.Wait()
	claims := []string{i.provider}
	for n, name := range others {
		if known[n] {
			claims = append(claims, name)
		}
		if errs[n] != nil {
			errs[n] = fmt.Errorf("provider %q: %w", name, errs[n])
		}
	}
	if len(claims) > 1 {
		return fmt.Errorf("%s is known to the providers %s; set its label %s to the name of its provider", about(node), strings.Join(claims, ", "), NodeLabel)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the provider of %s is not known yet, so it waits (or set its label %s to %q): %w", about(node), NodeLabel, i.provider, err)
	}
	return nil
}

func (r *Router) peer(name string) *peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[name]
}

// peer is a provider's cloud as the other providers ask it.
type peer struct {
	cloud cloudprovider.Interface
	slots chan struct{}
}

// knows returns whether the provider knows the Node. It returns when the context is done,
// even if the provider does not.
func (p *peer) knows(ctx context.Context, node *corev1.Node) (bool, error) {
	if p == nil {
		return false, errors.New("it does not run yet")
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	type answer struct {
		known bool
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-p.slots }()
		known, err := knows(ctx, p.cloud, node.DeepCopy())
		answers <- answer{known, err}
	}()
	select {
	case a := <-answers:
		return a.known, a.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// knows asks for metadata, not for existence: deletion brakes count the answer "does not
// exist".
func knows(ctx context.Context, cloud cloudprovider.Interface, node *corev1.Node) (bool, error) {
	inner, ok := cloud.InstancesV2()
	if !ok || inner == nil {
		return false, errors.New("it has no instances now, although it may be asked for nodes")
	}
	metadata, err := inner.InstanceMetadata(ctx, node)
	switch {
	case errors.Is(err, cloudprovider.InstanceNotFound), errors.Is(err, cloudprovider.NotImplemented):
		return false, nil
	case err != nil:
		return false, err
	}
	return metadata != nil, nil
}

// mark says which field of a Node names its provider.
func (t *table) mark(node *corev1.Node) string {
	switch {
	case unmarked(node):
		return fmt.Sprintf("it has no ProviderID and no label %s", NodeLabel)
	case node.Spec.ProviderID != "":
		return fmt.Sprintf("its ProviderID has the scheme %s", text.Quote(schemeOf(node.Spec.ProviderID)))
	}
	return fmt.Sprintf("its label %s says %s", NodeLabel, text.Quote(node.Labels[NodeLabel]))
}

func about(node *corev1.Node) string { return "node " + node.Name }
