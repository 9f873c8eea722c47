package main

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// balancerPrefix and a Service's UID are the key of its holding: a Service that
// is made again under the same name inherits nothing.
const balancerPrefix = "lb."

// holding is an entry of the store: "v1 NAMESPACE/NAME ADDRESS[,ADDRESS]".
type holding struct {
	owner     string
	addresses []netip.Addr
}

func (h holding) entry(uid string) *abi.StoreEntry {
	texts := make([]string, len(h.addresses))
	for i, a := range h.addresses {
		texts[i] = a.String()
	}
	return &abi.StoreEntry{Key: balancerPrefix + uid, Value: []byte("v1 " + h.owner + " " + strings.Join(texts, ","))}
}

// parseHolding refuses unknown forms: their addresses must not be given out
// again.
func parseHolding(e *abi.StoreEntry) (h holding, err error) {
	fields := strings.Split(string(e.Value), " ")
	if len(fields) != 3 || fields[0] != "v1" {
		return h, unknownEntry(e)
	}
	h.owner = fields[1]
	for text := range strings.SplitSeq(fields[2], ",") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return h, unknownEntry(e)
		}
		h.addresses = append(h.addresses, a)
	}
	return h, nil
}

func unknownEntry(e *abi.StoreEntry) error {
	return sdk.Error(abi.CodeInternal, "the store's entry "+e.Key+" is not one of version "+version+" of this provider; go back to the version that wrote it, or repair the entry")
}

// holdingOf returns a Service's holding, and whether there is one.
func holdingOf(op *sdk.Op, uid string) (h holding, found bool, err error) {
	entries, _, err := op.Store().Read(balancerPrefix + uid)
	if err != nil {
		return h, false, err
	}
	for _, e := range entries {
		if e.Key == balancerPrefix+uid {
			h, err = parseHolding(e)
			return h, true, err
		}
	}
	return h, false, nil
}

func uidOf(request *abi.LoadBalancerRequest) (string, error) {
	if uid := request.Service.Uid; uid != "" {
		return uid, nil
	}
	return "", sdk.Invalidf("the Service %s/%s has no UID", request.Service.Namespace, request.Service.Name)
}

func statusOf(addresses []netip.Addr) *abi.LoadBalancerStatus {
	status := &abi.LoadBalancerStatus{}
	for _, a := range addresses {
		status.Ingress = append(status.Ingress, &abi.LoadBalancerIngress{Ip: a.String(), IpMode: "VIP"})
	}
	return status
}

func (p *provider) GetLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (sdk.Existence, *abi.LoadBalancerStatus, error) {
	uid, err := uidOf(request)
	if err != nil {
		return 0, nil, err
	}
	h, found, err := holdingOf(op, uid)
	switch {
	case err != nil:
		return 0, nil, err
	case !found:
		return sdk.DoesNotExist, nil, nil
	}
	return sdk.Exists, statusOf(h.addresses), nil
}

// LoadBalancerName is the traditional name that cloud providers make of a UID.
func (p *provider) LoadBalancerName(_ *sdk.Op, request *abi.LoadBalancerRequest) (string, error) {
	uid, err := uidOf(request)
	if err != nil {
		return "", err
	}
	name := "a" + strings.ReplaceAll(uid, "-", "")
	return name[:min(len(name), 32)], nil
}

func (p *provider) EnsureLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) (*abi.LoadBalancerStatus, error) {
	uid, err := uidOf(request)
	if err != nil {
		return nil, err
	}
	w, err := p.inventory.wishOf(request.Service)
	if err != nil {
		return nil, err
	}
	// Usually a Service keeps what it holds, so that is read alone.
	held, found, err := holdingOf(op, uid)
	if err != nil {
		return nil, err
	}
	if found {
		got, err := p.inventory.allocate(w, held.addresses, nil)
		if err == nil && slices.Equal(got, held.addresses) {
			return statusOf(got), nil
		}
	}
	var got []netip.Addr
	err = op.Store().Update(balancerPrefix, func(entries []*abi.StoreEntry) (change sdk.Change, err error) {
		got, change, err = p.inventory.decide(w, uid, entries)
		return change, err
	})
	if err != nil {
		return nil, err
	}
	if found && !slices.Equal(got, held.addresses) {
		op.Warn("the addresses of a Service have changed", "service", w.service,
			"before", string(held.entry("").Value), "after", string(holding{w.service, got}.entry("").Value))
	}
	return statusOf(got), nil
}

// decide allocates with a view of the whole store.
func (inv *inventory) decide(w *wish, uid string, entries []*abi.StoreEntry) ([]netip.Addr, sdk.Change, error) {
	taken := make(map[netip.Addr]string, len(entries))
	var held holding
	for _, e := range entries {
		h, err := parseHolding(e)
		if err != nil {
			return nil, sdk.Change{}, err
		}
		if e.Key == balancerPrefix+uid {
			held = h
			continue
		}
		for _, a := range h.addresses {
			taken[a] = h.owner
		}
	}
	got, err := inv.allocate(w, held.addresses, taken)
	if err != nil || slices.Equal(got, held.addresses) {
		return got, sdk.Change{}, err
	}
	return got, sdk.Change{Put: []*abi.StoreEntry{holding{w.service, got}.entry(uid)}}, nil
}

// UpdateLoadBalancer has nothing to do: the announcer of the addresses (BGP,
// kube-vip, a router) itself follows the nodes.
func (p *provider) UpdateLoadBalancer(*sdk.Op, *abi.LoadBalancerRequest) error { return nil }

func (p *provider) DeleteLoadBalancer(op *sdk.Op, request *abi.LoadBalancerRequest) error {
	uid, err := uidOf(request)
	if err != nil {
		return err
	}
	key := balancerPrefix + uid
	return op.Store().Update(key, func(entries []*abi.StoreEntry) (sdk.Change, error) {
		for _, e := range entries {
			if e.Key == key {
				return sdk.Change{Delete: []string{key}}, nil
			}
		}
		return sdk.Change{}, nil
	})
}
