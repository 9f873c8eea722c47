package loadbalancer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
)

// The version of Octavia's API is kept in the host's cache.
const (
	versionKey  = "openstack/octavia/minor"
	versionLife = time.Hour
)

// version is the minor version of Octavia's API, 26 for v2.26.
type version int

// The first minor version with each feature.
const (
	withTimeouts    version = 1
	withTags        version = 5
	withFlavors     version = 6
	withACLs        version = 12
	withZones       version = 14
	withHTTPOverUDP version = 16
	// withWholeOVN is Zed: from it on the provider ovn takes a load balancer
	// with listeners, pools and members. Before, it left them in
	// PENDING_CREATE.
	withWholeOVN version = 26
)

const ovn = "ovn"

// has reports whether this version of Octavia has a feature with this provider.
// The provider ovn has tags only.
func (v version) has(feature version, provider string) bool {
	return v >= feature && (provider != ovn || feature == withTags)
}

// octaviaVersion costs one call per hour.
func octaviaVersion(c *api.Client) (version, error) {
	var kept version
	value, found, err := c.Op().Cache().Get(versionKey)
	if err == nil && found && json.Unmarshal(value, &kept) == nil {
		return kept, nil
	}
	versions, err := c.Versions(api.LoadBalancer)
	if err != nil {
		return 0, fmt.Errorf("the versions of Octavia: %w", err)
	}
	newest := newestOf(versions)
	// The cache is optional: without it the version is asked again.
	_ = c.Op().Cache().Put(versionKey, []byte(strconv.Itoa(int(newest))), versionLife)
	return newest, nil
}

func newestOf(versions []string) version {
	newest := version(0)
	for _, v := range versions {
		minor, found := strings.CutPrefix(v, "v2.")
		n, err := strconv.Atoi(minor)
		if found && err == nil {
			newest = max(newest, version(n))
		}
	}
	return newest
}
