package instances

import (
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

const scheme = "openstack://"

// maxProviderID bounds a provider ID, in bytes: a region has 255 at most.
const maxProviderID = 512

// ParseProviderID splits openstack:///ID and openstack://REGION/ID. Without a
// scheme it is the form of old kubelets: /ID or REGION/ID. The error has
// CodeInvalid: an unreadable ID proves nothing about a server.
func ParseProviderID(providerID string) (region, id string, err error) {
	rest, found := strings.CutPrefix(providerID, scheme)
	if !found && strings.Contains(providerID, "://") {
		return "", "", sdk.Invalidf("the provider ID %.200q is of another cloud: it does not begin with %s", providerID, scheme)
	}
	region, id, found = strings.Cut(rest, "/")
	if !found || id == "" || strings.Contains(id, "/") || len(providerID) > maxProviderID {
		return "", "", sdk.Invalidf("the provider ID %.200q is none of openstack:///ID and openstack://REGION/ID", providerID)
	}
	return region, id, nil
}

// providerID is the form for this configuration.
func (i *Instances) providerID(id string) string {
	if i.config.Global.RegionalProviderID {
		return scheme + i.config.Global.Region + "/" + id
	}
	return scheme + "/" + id
}

// serverID returns the ID in a Node's provider ID, in Nova's spelling. For any
// other spelling Nova would answer that the server does not exist.
func (i *Instances) serverID(node *abi.Node) (string, error) {
	region, text, err := ParseProviderID(node.ProviderId)
	if err != nil {
		return "", about(node, err)
	}
	if region != "" && region != i.config.Global.Region {
		return "", about(node, sdk.Invalidf("the provider ID %.200q is of another region than [Global] region %q in cloud.conf: nothing is known about servers there",
			node.ProviderId, i.config.Global.Region))
	}
	id := canonical(text)
	if id == "" {
		return "", about(node, sdk.Invalidf("the provider ID %.200q has no UUID, so it is not of a server of Nova", node.ProviderId))
	}
	return id, nil
}

// canonical returns a UUID in lower case with hyphens; "" for other texts.
func canonical(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c >= 'A' && c <= 'F':
			c += 'a' - 'A'
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
		case c == '-' && b.Len() > 0:
			continue
		default:
			return ""
		}
		if n := b.Len(); n == 8 || n == 13 || n == 18 || n == 23 {
			b.WriteByte('-')
		}
		b.WriteByte(c)
	}
	if b.Len() != len("00000000-0000-0000-0000-000000000000") {
		return ""
	}
	return b.String()
}
