package loadbalancer

import (
	"net/url"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
)

// balancer is Octavia's load balancer.
type balancer struct {
	ID              string   `json:"id"`
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	Status          string   `json:"provisioning_status"`
	OperatingStatus string   `json:"operating_status"`
	Address         string   `json:"vip_address"`
	PortID          string   `json:"vip_port_id"`
	SubnetID        string   `json:"vip_subnet_id"`
	Provider        string   `json:"provider"`
	Tags            []string `json:"tags"`
	CreatedAt       string   `json:"created_at"`
	UpdatedAt       string   `json:"updated_at"`
}

type reference struct {
	ID string `json:"id"`
}

type listener struct {
	ID             string            `json:"id"`
	Status         string            `json:"provisioning_status"`
	Protocol       string            `json:"protocol"`
	Port           int64             `json:"protocol_port"`
	Limit          int64             `json:"connection_limit"`
	PoolID         string            `json:"default_pool_id"`
	TLS            string            `json:"default_tls_container_ref"`
	Headers        map[string]string `json:"insert_headers"`
	CIDRs          []string          `json:"allowed_cidrs"`
	ClientData     int64             `json:"timeout_client_data"`
	MemberConnect  int64             `json:"timeout_member_connect"`
	MemberData     int64             `json:"timeout_member_data"`
	TCPInspect     int64             `json:"timeout_tcp_inspect"`
	Tags           []string          `json:"tags"`
	LoadBalancers  []reference       `json:"loadbalancers"`
	pool           *pool
	timeoutsOfThis [4]int64
}

type pool struct {
	ID            string       `json:"id"`
	Status        string       `json:"provisioning_status"`
	Protocol      string       `json:"protocol"`
	MonitorID     string       `json:"healthmonitor_id"`
	Persistence   *persistence `json:"session_persistence"`
	Listeners     []reference  `json:"listeners"`
	LoadBalancers []reference  `json:"loadbalancers"`
	members       []member
	monitor       *monitor
}

type persistence struct {
	Type string `json:"type"`
}

type member struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        int64  `json:"protocol_port"`
	MonitorPort int64  `json:"monitor_port"`
}

type monitor struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Delay    int64  `json:"delay"`
	Timeout  int64  `json:"timeout"`
	Retries  int64  `json:"max_retries"`
	Downward int64  `json:"max_retries_down"`
}

type floatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	PortID      string `json:"port_id"`
	Description string `json:"description"`
}

// children are the parts of a load balancer.
type children struct {
	listeners []*listener
	pools     []*pool
	floating  *floatingIP
}

// children reads the listeners, the pools and, if wanted, the floating IP at
// the VIP: two or three calls in parallel.
func (k *call) children(lb *balancer, floating bool) (*children, error) {
	var found children
	var ips []floatingIP
	reads := []*reading{
		list("/lbaas/listeners", api.Query("loadbalancer_id", lb.ID), "listeners", &found.listeners),
		list("/lbaas/pools", api.Query("loadbalancer_id", lb.ID), "pools", &found.pools),
	}
	if floating && lb.PortID != "" {
		reads = append(reads, floatingIPs(api.Query("port_id", lb.PortID), &ips))
	}
	if err := readAll(k.c, reads...); err != nil {
		return nil, err
	}
	// A cloud may ignore an unknown filter, which must not bring in parts of
	// others.
	found.listeners = slices.DeleteFunc(found.listeners, func(l *listener) bool { return !refers(l.LoadBalancers, lb.ID) })
	found.pools = slices.DeleteFunc(found.pools, func(p *pool) bool { return !refers(p.LoadBalancers, lb.ID) })
	for i := range ips {
		if lb.PortID != "" && ips[i].PortID == lb.PortID {
			found.floating = &ips[i]
		}
	}
	found.connect()
	return &found, nil
}

func (c *children) connect() {
	for _, l := range c.listeners {
		l.timeoutsOfThis = [4]int64{l.ClientData, l.MemberConnect, l.MemberData, l.TCPInspect}
		for _, p := range c.pools {
			if p.ID == l.PoolID || refers(p.Listeners, l.ID) {
				l.pool = p
			}
		}
	}
}

func refers(references []reference, id string) bool {
	return slices.ContainsFunc(references, func(r reference) bool { return r.ID == id })
}

// fill reads the members and monitors of pools: one call each, in parallel.
func (k *call) fill(pools []*pool) error {
	var reads []*reading
	for _, p := range pools {
		reads = append(reads, list("/lbaas/pools/"+api.Segment(p.ID)+"/members", nil, "members", &p.members))
		if p.MonitorID != "" {
			p.monitor = &monitor{}
			reads = append(reads, one("/lbaas/healthmonitors/"+api.Segment(p.MonitorID), "healthmonitor", p.monitor))
		}
	}
	return readAll(k.c, reads...)
}

// reading is a read of all pages.
type reading struct {
	read *api.Read
	// rest reads the further pages; nil if there are none.
	rest func(c *api.Client, query url.Values) error
	// absent, if set, is set by a 404 instead of an error.
	absent *bool
}

func one(path, key string, out any) *reading {
	return &reading{read: &api.Read{Service: api.LoadBalancer, Path: path, Key: key, Out: out}}
}

func list[T any](path string, query url.Values, key string, out *[]T) *reading {
	service := api.LoadBalancer
	if !strings.HasPrefix(path, "/lbaas/") {
		service = api.Network
	}
	return &reading{
		read: &api.Read{Service: service, Path: path, Query: query, Key: key, Out: out},
		rest: func(c *api.Client, query url.Values) error {
			more, err := api.List[T](c, service, path, query, key)
			*out = append(*out, more...)
			return err
		},
	}
}

func floatingIPs(query url.Values, out *[]floatingIP) *reading {
	for _, field := range []string{"id", "floating_ip_address", "port_id", "description"} {
		query.Add("fields", field)
	}
	return list("/floatingips", query, "floatingips", out)
}

// readAll sends the reads in parallel and then follows their pages.
func readAll(c *api.Client, readings ...*reading) error {
	reads := make([]*api.Read, len(readings))
	for i, r := range readings {
		reads[i] = r.read
	}
	for i, err := range c.Reads(reads...) {
		if absent := readings[i].absent; absent != nil && api.IsNotFound(err) {
			*absent = true
		} else if err != nil {
			return err
		}
	}
	for _, r := range readings {
		if r.rest == nil || r.read.Next == nil {
			continue
		}
		if err := r.rest(c, r.read.Next); err != nil {
			return err
		}
	}
	return nil
}
