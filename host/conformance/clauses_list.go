package conformance

import (
	"cmp"
	"context"
	"slices"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func listClauses() []clause {
	needs := append([]abi.Op{abi.OpListInstances}, abi.GroupInstances.Required()...)
	return []clause{
		{id: "list-pages", text: "list_instances ends, names each instance once, and says the same in pages of 1 and of 100", ops: needs, check: checkPages},
		{id: "list-same", text: "list_instances says of each known node what the single ops say", ops: needs, check: checkListed},
		{id: "list-token", text: "a page token that list_instances never gave out is an error", ops: needs, check: checkToken},
	}
}

// maxPages bounds one list.
const maxPages = 10_000

// listed requests all pages. The plan covers all of them.
func (k *kit) listed(ctx context.Context, p *plan, size uint32) (all []*abi.Instance, sum outcome) {
	sum.op = abi.OpListInstances
	for token := ""; sum.ops < maxPages; {
		page, o := k.list(ctx, p, token, size)
		sum.err, sum.trace, sum.ops, sum.took = o.err, append(sum.trace, o.trace...), sum.ops+1, sum.took+o.took
		all = append(all, page.Instances...)
		if token = page.NextPageToken; o.err != nil || token == "" {
			return all, sum
		}
	}
	sum.err = errEndless
	return all, sum
}

var errEndless = &abi.Error{Code: abi.CodeInternal, Message: "there are more than 10000 pages"}

// idOf is an instance's provider ID, "" without metadata.
func idOf(one *abi.Instance) string {
	return cmp.Or(one.Metadata, &abi.InstanceMetadata{}).ProviderId
}

// sorted are the instances as sorted lines.
func sorted(all []*abi.Instance) []string {
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = inJSON(one)
	}
	slices.Sort(lines)
	return lines
}

func checkPages(ctx context.Context, c *check) {
	var first []string
	for _, size := range []uint32{100, 1, 100} {
		all, o := c.listed(ctx, nil, size)
		if o.err != nil {
			c.failf(o, "pages of %d: %s", size, o)
			continue
		}
		lines := sorted(all)
		if first == nil {
			first = lines
		}
		if d := differ(first, lines); len(d) > 0 {
			c.failf(o, "pages of %d: not the same instances as in pages of 100: %v", size, d)
		}
		seen := map[string]bool{}
		for _, one := range all {
			if id := idOf(one); seen[id] {
				c.failf(o, "pages of %d: %q stands there twice", size, id)
			} else {
				seen[id] = true
			}
		}
		c.notef("%d instances, %d pages of %d", len(all), o.ops, size)
	}
}

func checkListed(ctx context.Context, c *check) {
	all, o := c.listed(ctx, nil, 100)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	byID := map[string]*abi.Instance{}
	for _, one := range all {
		byID[idOf(one)] = one
	}
	for _, node := range c.identified(ctx) {
		one := byID[node.Spec.ProviderID]
		if one == nil {
			c.failf(o, "node %s: no instance of the list has the provider ID %q", node.Name, node.Spec.ProviderID)
			continue
		}
		m, single := c.metadata(ctx, nil, node)
		if a, b := inJSON(one.Metadata), inJSON(m); a != b {
			c.failf(single, "node %s: the list says %s, instance_metadata %s", node.Name, a, b)
		}
		if one.NodeName != "" && one.NodeName != node.Name {
			c.failf(o, "node %s: the list calls it %q", node.Name, one.NodeName)
		}
		if power, single := c.shutdown(ctx, node); one.State != power {
			c.failf(single, "node %s: the list says %s, instance_shutdown %s", node.Name, one.State, power)
		}
	}
}

func checkToken(ctx context.Context, c *check) {
	for _, token := range []string{"no-such-token", "\x01\x02{}"} {
		if page, o := c.list(ctx, nil, token, 100); o.err == nil {
			c.failf(o, "the token %q: %d instances, want an error; where the cloud takes any, check the form of the token first", token, len(page.Instances))
		}
	}
}
