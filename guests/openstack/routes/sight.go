package routes

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
)

// sight is the last known state of a route.
type sight struct {
	state state
	node  string // of half and whole
}

type state string

const (
	unseen state = ""
	// making: Create is running, or was a moment ago.
	making state = "making"
	// removing: Delete is running, or was a moment ago. List treats it as
	// unseen.
	removing state = "removing"
	// half: the port does not allow the addresses.
	half  state = "half"
	whole state = "whole"
	// gone: no port of a server has the next hop.
	gone state = "gone"
)

// Sights are kept in the host's cache, so that a list is one call. A new
// manager has none: it looks at all routes and finds what a crash left.
// makingLife is longer than the ten seconds between two lists: a failed create
// is retried before its half is deleted.
const (
	sightKey   = "openstack/routes/"
	sightLife  = 5 * time.Minute
	makingLife = time.Minute
)

// The epoch is a part of each sight: those of another epoch are ignored. It
// outlives them.
const (
	epochKey  = "openstack/routes/epoch"
	epochLife = 2 * sightLife
)

// currentEpoch is the epoch at the begin of the op: forgetAll also covers what
// a running op has seen.
func (r *Routes) currentEpoch() string {
	if r.epoch == nil {
		value, _, err := r.c.Op().Cache().Get(epochKey)
		if err != nil {
			value = nil // as without one
		}
		epoch := string(value)
		r.epoch = &epoch
	}
	return *r.epoch
}

// forgetAll makes the next List look at all routes.
func (r *Routes) forgetAll() {
	r.currentEpoch()
	now := strconv.FormatInt(r.c.Op().Now().UnixNano(), 36)
	// Without the cache there are no sights either.
	_ = r.c.Op().Cache().Put(epochKey, []byte(now), epochLife)
}

func (r *Routes) remembered(route extraRoute) sight {
	value, found, err := r.c.Op().Cache().Get(sightKey + route.name())
	fields := strings.SplitN(string(value), " ", 3)
	if err != nil || !found || len(fields) != 3 {
		return sight{}
	}
	s := sight{state(fields[0]), fields[2]}
	if fields[1] != r.currentEpoch() && s.state != making && s.state != removing {
		return sight{}
	}
	return s
}

// remember never fails: what the cache loses is looked up again.
func (r *Routes) remember(route extraRoute, s sight) {
	life := sightLife
	if s.state == making || s.state == removing {
		life = makingLife
	}
	_ = r.c.Op().Cache().Put(sightKey+route.name(), []byte(string(s.state)+" "+r.currentEpoch()+" "+s.node), life)
}

// look reads the state of routes from the cloud: one sight for each.
func (r *Routes) look(routes []extraRoute) ([]sight, error) {
	if len(routes) == 0 {
		return nil, nil
	}
	addresses := make([]string, 0, len(routes))
	for _, route := range routes {
		addresses = append(addresses, route.NextHop)
	}
	ports, err := r.portsOf(unique(addresses))
	if err != nil {
		return nil, err
	}
	if err := r.ownSubports(ports); err != nil {
		return nil, fmt.Errorf("subports of a trunk: %w", err)
	}
	ids := make([]string, 0, len(ports))
	for _, p := range ports {
		if p.DeviceID != "" {
			ids = append(ids, p.DeviceID)
		}
	}
	nodes, err := r.nodesOf(unique(ids))
	if err != nil {
		return nil, err
	}
	sights := make([]sight, len(routes))
	for i, route := range routes {
		sights[i] = sightOf(route, ports[route.NextHop], nodes)
	}
	return sights, nil
}

func sightOf(route extraRoute, p *port, nodes map[string]string) sight {
	if p == nil || nodes[p.DeviceID] == "" {
		return sight{state: gone}
	}
	cidr, err := netip.ParsePrefix(route.Destination)
	if err == nil && !p.allows(cidr.Masked()) {
		return sight{half, nodes[p.DeviceID]}
	}
	return sight{whole, nodes[p.DeviceID]}
}

// maxSingle is the highest number of servers that are read one by one.
const maxSingle = 4

// nodesOf finds the names of Nodes by their servers' IDs. Only the cloud's 404
// for the server itself means that it does not exist: Nova's lists omit the
// servers of a broken cell.
func (r *Routes) nodesOf(ids []string) (map[string]string, error) {
	type server struct{ ID, Name string }
	nodes := map[string]string{}
	if len(ids) > maxSingle {
		servers, err := api.List[server](r.c, api.Compute, "/servers", api.Query("limit", "1000"), "servers")
		if err != nil {
			return nil, err
		}
		for _, s := range servers {
			nodes[s.ID] = nodeName(s.Name)
		}
	}
	var reads []*api.Read
	var asked []string
	for _, id := range ids {
		if _, known := nodes[id]; !known {
			asked = append(asked, id)
			reads = append(reads, &api.Read{Service: api.Compute, Path: "/servers/" + api.Segment(id), Key: "server", Out: &server{}})
		}
	}
	if len(reads) == 0 {
		return nodes, nil
	}
	for i, err := range r.c.Reads(reads...) {
		if err != nil && !api.IsNotFound(err) {
			return nil, err
		}
		if s := reads[i].Out.(*server); err == nil && s.ID != asked[i] {
			return nil, unusable("GET "+reads[i].Path, "it is about another server")
		} else if err == nil {
			nodes[s.ID] = nodeName(s.Name)
		}
	}
	return nodes, nil
}

// nodeName is the Node's name for a server: kubelet writes it in lower case.
// Empty for a text that cannot be a Node's name.
func nodeName(server string) string {
	name := strings.ToLower(server)
	valid := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' }
	if len(name) > maxNodeName || strings.ContainsFunc(name, func(c rune) bool { return !valid(c) }) {
		return ""
	}
	return name
}

const maxNodeName = 253

func unique(items []string) []string {
	seen := make(map[string]bool, len(items))
	kept := items[:0:0]
	for _, item := range items {
		if !seen[item] {
			seen[item] = true
			kept = append(kept, item)
		}
	}
	return kept
}
