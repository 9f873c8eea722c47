package instances

import (
	"fmt"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

func about(node *abi.Node, err error) error { return fmt.Errorf("node %.253s: %w", node.Name, err) }

// find looks by provider ID, or by name if the Node has none.
func (i *Instances) find(node *abi.Node) (*server, error) {
	if node.ProviderId == "" {
		return i.findByName(node)
	}
	return i.findByID(node)
}

func (i *Instances) findByID(node *abi.Node) (*server, error) {
	id, err := i.serverID(node)
	if err != nil {
		return nil, err
	}
	found := &server{}
	err = i.client.Reads(serverRead(id, found))[0]
	return found, checkFound(node, id, found, err)
}

// itemNotFound is Nova's fault for an unknown server.
const itemNotFound = "itemNotFound"

// checkFound judges the answer to a GET of one server. InstanceNotFound
// requires Nova's own fault for this server: a proxy's 404, a 404 for the path
// or another server's status do not count.
func checkFound(node *abi.Node, id string, s *server, err error) error {
	switch {
	case api.IsNotFound(err) && api.FaultOf(err) == itemNotFound:
		return sdk.InstanceNotFound(fmt.Sprintf("node %.253s: the cloud has no server %s: %v", node.Name, id, err))
	case api.IsNotFound(err):
		return sdk.Error(abi.CodeInternal, fmt.Sprintf("node %.253s: %v; this is not Nova's word on a server, so check the compute endpoint in Keystone's catalog", node.Name, err))
	case err != nil:
		return about(node, err)
	}
	if err := s.check(); err != nil {
		return about(node, err)
	}
	if s.ID != id {
		return about(node, sdk.Error(abi.CodeInternal, fmt.Sprintf("asked for the server %s, the cloud answers with the server %s", id, s.ID)))
	}
	if s.gone() {
		return sdk.InstanceNotFound(fmt.Sprintf("node %.253s: the server %s is %s", node.Name, id, s.Status))
	}
	return nil
}

// findByName wants the only server with the Node's name. Otherwise one that
// differs in case will do: names of Nodes are lower case.
func (i *Instances) findByName(node *abi.Node) (*server, error) {
	if node.Name == "" {
		return nil, sdk.Invalidf("the node has neither a name nor a provider ID")
	}
	servers, err := api.List[*server](i.client, api.Compute, "/servers/detail", api.Query("name", "^"+quoteMeta(node.Name)+"$"), "servers")
	if err != nil {
		return nil, about(node, err)
	}
	if err := checkAll(servers); err != nil {
		return nil, about(node, err)
	}
	found := named(servers, func(name string) bool { return name == node.Name })
	if len(found) == 0 {
		found = named(servers, func(name string) bool { return strings.EqualFold(name, node.Name) })
	}
	switch len(found) {
	case 0:
		return nil, sdk.InstanceNotFound(fmt.Sprintf("node %.253s has no provider ID, and the project has no server of that name; give both the same name, or the kubelet --provider-id=openstack:///ID", node.Name))
	case 1:
		return found[0], nil
	}
	return nil, sdk.Invalidf("node %.253s has no provider ID, and %d servers have that name (%s, %s); rename all but one, or give the kubelet --provider-id=openstack:///ID",
		node.Name, len(found), found[0].ID, found[1].ID)
}

func named(servers []*server, is func(name string) bool) (found []*server) {
	for _, s := range servers {
		if !s.gone() && is(s.Name) {
			found = append(found, s)
		}
	}
	return found
}

// quoteMeta makes a regular expression from a name, for any database of Nova:
// escapes differ, brackets do not.
func quoteMeta(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c == '\\' || c == '^':
			b.WriteString(".")
		case strings.IndexByte("$.[]|()?*+{}", c) >= 0:
			b.WriteString("[" + string(rune(c)) + "]")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
