package conformance

import (
	"context"
	"maps"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

func volumeClauses() []clause {
	return []clause{
		{id: "volume-labels", text: "the labels of a volume are valid, the expected ones, and the same each time", ops: []abi.Op{abi.OpVolumeLabels}, lacks: noVolumes, check: checkVolumes},
		{id: "volume-foreign", text: "a volume of another cloud has no labels, and that is no error", ops: []abi.Op{abi.OpVolumeLabels}, check: checkForeignVolume},
		{id: "safe-volumes", text: "whatever the cloud answers, the labels are right or an error", ops: []abi.Op{abi.OpVolumeLabels}, lacks: noVolumes, check: checkSafeVolumes},
	}
}

func noVolumes(k *kit) string {
	if len(k.Cases.Volumes) == 0 {
		return "the cases have no volumes"
	}
	return ""
}

func checkVolumes(ctx context.Context, c *check) {
	for _, v := range c.Cases.Volumes {
		var first map[string]string
		for i := range 2 {
			labels, o := c.volumeLabels(ctx, nil, &v.PersistentVolume)
			switch {
			case o.err != nil:
				c.failf(o, "volume %s: %s", v.PersistentVolume.Name, o)
			case v.Labels != nil && !maps.Equal(labels, v.Labels):
				c.failf(o, "volume %s: %v, want %v", v.PersistentVolume.Name, labels, v.Labels)
			case i > 0 && !maps.Equal(labels, first):
				c.failf(o, "volume %s: %v, and before %v", v.PersistentVolume.Name, labels, first)
			}
			first = labels
		}
	}
}

func checkForeignVolume(ctx context.Context, c *check) {
	labels, o := c.volumeLabels(ctx, nil, c.Cases.ForeignVolume)
	if o.err != nil || len(labels) > 0 {
		c.failf(o, "volume %s: %s, labels %v", c.Cases.ForeignVolume.Name, o, labels)
	}
}

func checkSafeVolumes(ctx context.Context, c *check) {
	pv := &c.Cases.Volumes[0].PersistentVolume
	right, o := c.volumeLabels(ctx, nil, pv)
	if o.err != nil {
		c.failf(o, "%s", o)
		return
	}
	c.eachFault(ctx, func(p *plan) (string, outcome) {
		labels, o := c.volumeLabels(ctx, p, pv)
		if o.err == nil && !maps.Equal(labels, right) {
			return "other labels than without the fault: " + inJSON(labels), o
		}
		return "", o
	})
}

func secretClauses() []clause {
	return []clause{{
		id: "secrets", text: "no error, log line, Event or warning of this run holds a secret", lacks: noSecrets,
		check: func(_ context.Context, c *check) {
			said, hits := c.ear.heard()
			for _, hit := range hits {
				c.failf(outcome{}, "%s", hit)
			}
			c.notef("%d messages", said)
		},
	}}
}

func noSecrets(k *kit) string {
	if len(k.ear.secrets) == 0 {
		return "there is no Secret"
	}
	return ""
}
