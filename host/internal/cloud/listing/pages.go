package listing

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
)

// bounds of one listing.
type bounds struct {
	pages, instances int
	// bytes is the approximate memory of the listing and its tokens.
	bytes int
}

func defaultBounds() bounds { return bounds{pages: 1000, instances: 20_000, bytes: 32 << 20} }

// Bounds in bytes where convert has none.
const (
	maxTokenBytes    = 4096
	maxNodeNameBytes = 253 // a Node's name is a DNS name
)

// The approximate memory of an instance, an address and a label beside their text, in bytes.
const (
	instanceOverhead = 512
	addressOverhead  = 64
	labelOverhead    = 128
)

// instance is a listed instance. It is immutable.
type instance struct {
	// metadata is nil if it is unusable.
	metadata *cloudprovider.InstanceMetadata
	state    abi.PowerState
	id       string
}

// snapshot is a complete listing. It is immutable.
type snapshot struct {
	at               time.Time     // when its first page was asked for
	took             time.Duration // until it was complete
	instances, pages int
	// A key shared by several instances maps to nil.
	byID, byName map[string]*instance
}

// within returns the snapshot if it is not older than age, else nil. s may be nil.
func (s *snapshot) within(age time.Duration) *snapshot {
	if s == nil || time.Since(s.at) > age {
		return nil
	}
	return s
}

// find returns the only instance of a node, or nil: by the provider ID, or by the name while
// the node has none, since names may be reused.
func (s *snapshot) find(node *corev1.Node) *instance {
	if s == nil {
		return nil
	}
	if id := node.Spec.ProviderID; id != "" {
		return s.byID[id]
	}
	i := s.byName[node.Name]
	if i == nil || i.id != "" && s.byID[i.id] == nil { // another instance has its ID, too
		return nil
	}
	return i
}

// assembly builds a snapshot from pages. It is useless after an error.
type assembly struct {
	bounds bounds
	policy *addresses.Policy
	bytes  int
	tokens map[string]struct{}
	snapshot
}

func newAssembly(b bounds, policy *addresses.Policy) *assembly {
	return &assembly{
		bounds: b, policy: policy, tokens: map[string]struct{}{},
		snapshot: snapshot{byID: map[string]*instance{}, byName: map[string]*instance{}},
	}
}

// Check returns why a listing with this page would be refused.
func Check(page *abi.ListInstancesResponse, policy *addresses.Policy) error {
	_, err := newAssembly(defaultBounds(), policy).add(page)
	return err
}

// add takes a page and returns the token of the next; "" for the last.
func (a *assembly) add(page *abi.ListInstancesResponse) (next string, err error) {
	a.pages++
	if !page.Done {
		return "", errors.New("it does not say done")
	}
	for n, i := range page.Instances {
		if err := a.addInstance(i); err != nil {
			return "", fmt.Errorf("instances[%d]: %w", n, err)
		}
	}
	return page.NextPageToken, a.turn(page.NextPageToken)
}

// turn checks that the pages end.
func (a *assembly) turn(token string) error {
	if token == "" {
		return nil
	}
	if _, seen := a.tokens[token]; seen {
		return errors.New("next_page_token repeats an earlier one, so the pages never end")
	}
	a.tokens[token] = struct{}{}
	switch {
	case len(token) > maxTokenBytes:
		return fmt.Errorf("next_page_token has %d bytes, at most %d are allowed", len(token), maxTokenBytes)
	case a.pages >= a.bounds.pages:
		return fmt.Errorf("there are more than %d pages", a.bounds.pages)
	}
	return a.grow(len(token))
}

func (a *assembly) addInstance(m *abi.Instance) error {
	switch {
	case m == nil || m.Metadata == nil:
		return errors.New("it has no metadata")
	case len(m.NodeName) > maxNodeNameBytes:
		return fmt.Errorf("node_name has %d bytes, at most %d are allowed", len(m.NodeName), maxNodeNameBytes)
	case len(m.Metadata.ProviderId) > convert.MaxProviderIDBytes:
		return fmt.Errorf("provider_id has %d bytes, at most %d are allowed", len(m.Metadata.ProviderId), convert.MaxProviderIDBytes)
	case a.instances >= a.bounds.instances:
		return fmt.Errorf("there are more than %d", a.bounds.instances)
	}
	a.instances++
	i := &instance{id: m.Metadata.ProviderId, state: m.State}
	size := instanceOverhead + len(i.id) + len(m.NodeName)
	// Unusable metadata is left out: the direct question about that instance says why.
	if metadata, err := convert.InstanceMetadata(m.Metadata, a.policy); err == nil {
		i.metadata = metadata
		size += m.Metadata.SizeVT() + addressOverhead*len(m.Metadata.Addresses) + labelOverhead*len(m.Metadata.AdditionalLabels)
	}
	index(a.byID, i.id, i)
	index(a.byName, m.NodeName, i)
	return a.grow(size)
}

func (a *assembly) grow(bytes int) error {
	if a.bytes += bytes; a.bytes > a.bounds.bytes {
		return fmt.Errorf("the listing takes more than %d bytes", a.bounds.bytes)
	}
	return nil
}

func index(by map[string]*instance, key string, i *instance) {
	if key == "" {
		return
	}
	if _, several := by[key]; several {
		i = nil
	}
	by[key] = i
}

// finish returns the snapshot of pages asked for since started.
func (a *assembly) finish(started time.Time) *snapshot {
	s := a.snapshot // a copy, so that the assembly is freed
	s.at, s.took = started, time.Since(started)
	return &s
}
