package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodehelpers "k8s.io/cloud-provider/node/helpers"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
)

const (
	// tellAfter is how long a Node fails before that is reported: a machine may join some
	// seconds before its cloud shows it everywhere.
	tellAfter = 5 * time.Second
	// tellPeriod is the least time between two reports about a Node.
	tellPeriod = time.Minute
	// maxUninitialised bounds the Nodes in memory.
	maxUninitialised = 4096
)

// uninitialised reports why Nodes are not initialised, once for each cause. Upstream only
// logs it, and retries for ever.
type uninitialised struct {
	tell func(*corev1.Node, error)
	// surely selects the Nodes that cannot be another provider's; nil: all.
	surely func(*corev1.Node) bool

	mu    sync.Mutex
	nodes map[types.UID]*failing
}

// failing is a Node that fails.
type failing struct {
	since, told time.Time
	cause       string // the reported cause
}

func newUninitialised(p Provider) *uninitialised {
	return &uninitialised{tell: p.Uninitialised, surely: p.OwnedNodes, nodes: map[types.UID]*failing{}}
}

// heard is told the answer about a Node, and returns why that does not initialise it, or
// nil.
func (u *uninitialised) heard(node *corev1.Node, metadata *cloudprovider.InstanceMetadata, err error) error {
	if err == nil && isUninitialised(node) {
		err = unusable(node, metadata)
	}
	if u.tell != nil && u.due(node, err, time.Now()) {
		u.tell(node, err)
	}
	return err
}

// unusable returns why upstream does not initialise a Node with this metadata. Upstream
// checks after the provider has answered.
func unusable(node *corev1.Node, metadata *cloudprovider.InstanceMetadata) error {
	if metadata == nil {
		return nil // the provider disowns the Node
	}
	if metadata.ProviderID == "" && node.Spec.ProviderID == "" {
		return errors.New("the provider gives it no provider ID")
	}
	wanted, ok := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if !ok {
		return nil
	}
	if _, err := nodehelpers.GetNodeAddressesFromNodeIP(wanted, metadata.NodeAddresses); err != nil {
		return fmt.Errorf("the kubelet's --node-ip (%s) is not among the addresses that the provider has for it (%s): %w", wanted, addressList(metadata.NodeAddresses), err)
	}
	return nil
}

func addressList(addresses []corev1.NodeAddress) string {
	const most = 8
	var all []string
	for _, a := range addresses[:min(len(addresses), most)] {
		all = append(all, a.Address)
	}
	return strings.Join(all, ", ")
}

// due reports whether a cause must be reported now.
func (u *uninitialised) due(node *corev1.Node, err error, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil || !isUninitialised(node) {
		delete(u.nodes, node.UID)
		return false
	}
	f := u.nodes[node.UID]
	if f == nil {
		if len(u.nodes) >= maxUninitialised {
			clear(u.nodes)
		}
		f = &failing{since: now}
		u.nodes[node.UID] = f
	}
	cause := withoutDigits(err.Error())
	if errors.Is(err, context.Canceled) || now.Sub(f.since) < u.grace(node, err) || f.cause == cause || now.Sub(f.told) < tellPeriod {
		return false
	}
	f.cause, f.told = cause, now
	return true
}

// grace is how long a Node may fail before that is reported: longer if the provider said
// "later", or if another provider may know the Node.
func (u *uninitialised) grace(node *corev1.Node, err error) time.Duration {
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) || u.surely != nil && !u.surely(node) {
		return report.SlowAfter
	}
	return tellAfter
}

// withoutDigits returns an error's text without its digits, which change between repeats of
// one cause.
func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

func isUninitialised(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
}
