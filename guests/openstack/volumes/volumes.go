// Package volumes finds the zone and region of a Cinder volume.
package volumes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/api"
	"github.com/wasm-ccm/wasm-ccm/guests/openstack/cloudconf"
	"github.com/wasm-ccm/wasm-ccm/guests/sdk"
)

// The labels of a volume, and the values of its volume source.
const (
	labelZone   = "topology.kubernetes.io/zone"
	labelRegion = "topology.kubernetes.io/region"

	csiSource, csiDriver = "csi", "cinder.csi.openstack.org"
	inTreeSource         = "cinder"
)

// Labels returns the zone and region of a volume, spelled as on Nodes; nothing
// for other volumes than Cinder's. One call, and another every ten minutes;
// none with ignore-volume-az. A volume unknown to Cinder is CodeNotFound.
//
// A zone that Nova does not have is left out, with an Event: no Node could use
// the volume with it.
func Labels(c *api.Client, config *cloudconf.Config, v *abi.Volume) (map[string]string, error) {
	if v.Source != inTreeSource && (v.Source != csiSource || v.Driver != csiDriver) {
		return nil, nil
	}
	labels := map[string]string{}
	if region := label(config.Global.Region); region != "" {
		labels[labelRegion] = region
	}
	if config.BlockStorage.IgnoreVolumeAZ {
		return labels, nil
	}
	zone, err := zoneOf(c, v.VolumeId)
	if err != nil {
		return nil, fmt.Errorf("volume %.253s: %w", v.Name, err)
	}
	known, err := isNovas(c, zone)
	if err != nil {
		return nil, fmt.Errorf("volume %.253s: comparing its zone with Nova's: %w", v.Name, err)
	}
	if !known {
		// Without an object for the Event nobody misses it.
		_ = c.Op().Event(true, "ZoneUnknown", fmt.Sprintf("Cinder says the availability zone %s, which is none of Nova's: the volume gets no label %s; "+
			"set [BlockStorage] ignore-volume-az = true in cloud.conf where the zones of Cinder and Nova differ", zone, labelZone))
		return labels, nil
	}
	labels[labelZone] = zone
	return labels, nil
}

// The zones of Nova are kept in the cache of the host.
const (
	zonesKey  = "openstack/volumes/zones"
	zonesLife = 10 * time.Minute
)

// isNovas compares labels, as the scheduler does.
func isNovas(c *api.Client, zone string) (bool, error) {
	value, found, err := c.Op().Cache().Get(zonesKey)
	if err == nil && found {
		return slices.Contains(strings.Split(string(value), "\n"), zone), nil
	}
	var said []struct{ ZoneName string }
	if err := c.Get(api.Compute, "/os-availability-zone", nil, "availabilityZoneInfo", &said); err != nil {
		return false, err
	}
	zones := make([]string, 0, len(said))
	for _, z := range said {
		zones = append(zones, label(z.ZoneName))
	}
	// Without the cache they are read again.
	_ = c.Op().Cache().Put(zonesKey, []byte(strings.Join(zones, "\n")), zonesLife)
	return slices.Contains(zones, zone), nil
}

// maxID bounds an ID, which is a UUID in every known cloud.
const maxID = 128

func zoneOf(c *api.Client, id string) (string, error) {
	if id == "" || len(id) > maxID {
		return "", sdk.Invalidf("%.140q is not the ID of a volume of Cinder; see the volume handle of the PersistentVolume", id)
	}
	var volume struct {
		ID   string
		Zone string `json:"availability_zone"`
	}
	err := c.Get(api.BlockStorage, "/volumes/"+api.Segment(id), nil, "volume", &volume)
	if api.IsNotFound(err) {
		return "", sdk.NotFound("Cinder has no volume " + id + " in this project and region: " + err.Error())
	}
	if err != nil {
		return "", err
	}
	if volume.ID != id {
		return "", sdk.Error(abi.CodeInternal, fmt.Sprintf("Cinder was asked about the volume %s and answers about %.140q", id, volume.ID))
	}
	zone := label(volume.Zone)
	if zone == "" {
		return "", sdk.Error(abi.CodeUnavailable, fmt.Sprintf("Cinder says no availability zone of volume %s (%.140q); set [BlockStorage] ignore-volume-az = true in cloud.conf where it has none", id, volume.Zone))
	}
	return zone, nil
}

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 63

// label makes the value of a label as package instances does: the zones of
// volumes and Nodes have to be equal. A "-" replaces each run of other
// characters, and the value begins and ends with a letter or a digit.
func label(text string) string {
	var b strings.Builder
	replaced := false
	for _, c := range []byte(text) {
		ok := isLabelByte(c)
		if ok {
			b.WriteByte(c)
		} else if !replaced {
			b.WriteByte('-')
		}
		replaced = !ok
	}
	value := strings.Trim(b.String(), "-_.")
	return strings.TrimRight(value[:min(len(value), maxLabel)], "-_.")
}

func isLabelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
