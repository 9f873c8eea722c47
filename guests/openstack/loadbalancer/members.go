package loadbalancer

import (
	"slices"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
)

// ensureMembers sets the members of a pool to the nodes: by one call, or one by
// one if the cloud.conf says so.
func (w *work) ensureMembers(p port, of *pool) error {
	wanted := w.members(p)
	if w.config.LoadBalancer.Serial {
		return w.membersOneByOne(wanted, of)
	}
	if sameMembers(wanted, of.members) {
		return nil
	}
	subnet, err := w.memberSubnet()
	if err != nil {
		return err
	}
	checked := slices.ContainsFunc(of.members, func(m member) bool { return m.MonitorPort != 0 })
	return w.write(func() error {
		return w.c.Put(api.LoadBalancer, membersPath(of), "members", bodies(wanted, subnet, checked), nil)
	})
}

// bodies are the members in Octavia's form. Octavia keeps omitted fields of
// existing members, so the removal of a check is explicit.
func bodies(members []member, subnet string, uncheck bool) []object {
	all := make([]object, len(members))
	for i, m := range members {
		body := object{"name": m.Name, "address": m.Address, "protocol_port": m.Port}
		if subnet != "" {
			body["subnet_id"] = subnet
		}
		if m.MonitorPort != 0 {
			body["monitor_port"] = m.MonitorPort
		} else if uncheck {
			body["monitor_port"] = nil
		}
		all[i] = body
	}
	return all
}

func membersPath(of *pool) string { return "/lbaas/pools/" + api.Segment(of.ID) + "/members" }

func sameMembers(a, b []member) bool {
	return len(a) == len(b) && len(without(a, b, member.key)) == 0
}

// membersOneByOne adds before it deletes, except for members that differ only
// in their check: Octavia takes an address and port once. Names are not
// compared, since they differ here.
func (w *work) membersOneByOne(wanted []member, of *pool) error {
	obsolete, missing := without(of.members, wanted, nameless), without(wanted, of.members, nameless)
	unique := without(obsolete, wanted, endpoint)
	if err := w.deleteMembers(of, without(obsolete, unique, nameless)); err != nil {
		return err
	}
	for _, m := range missing {
		subnet, err := w.memberSubnet()
		if err != nil {
			return err
		}
		m.Name = serialMemberName(m.Name, m.Address, m.Port)
		if err := w.write(func() error {
			return w.c.Post(api.LoadBalancer, membersPath(of), "member", bodies([]member{m}, subnet, false)[0], nil)
		}); err != nil {
			return err
		}
	}
	return w.deleteMembers(of, unique)
}

func (w *work) deleteMembers(of *pool, members []member) error {
	for _, m := range members {
		err := w.write(func() error { return gone(w.c.Delete(api.LoadBalancer, membersPath(of)+"/"+api.Segment(m.ID), nil)) })
		if err != nil {
			return err
		}
	}
	return nil
}

func nameless(m member) member {
	m = m.key()
	m.Name = ""
	return m
}

func endpoint(m member) member {
	m = nameless(m)
	m.MonitorPort = 0
	return m
}

// without returns the members of a that are not in b, compared by the key.
func without(a, b []member, key func(member) member) []member {
	there := make(map[member]bool, len(b))
	for _, m := range b {
		there[key(m)] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(m member) bool { return there[key(m)] })
}
