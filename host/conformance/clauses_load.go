package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

func loadClauses() []clause {
	return []clause{
		{id: "load", text: "the module loads with these grants, and describe says what the manifest says", check: checkLoad},
		{id: "load-groups", text: "the ops of the manifest come in whole groups", check: checkGroups},
		{id: "config-invalid", text: "configure refuses rubbish with the code invalid and says what is wrong", check: checkRubbish},
		{id: "probe", text: "probe is ready, and again", check: checkProbe},
		{
			id: "probe-credentials", text: "probe fails with unauthenticated, and says so, when the cloud refuses the credentials",
			lacks: noCredentials, check: checkWrongCredentials,
		},
	}
}

func checkLoad(_ context.Context, c *check) {
	if c.loaded != nil {
		c.failf(outcome{}, "it does not load: %v", c.loaded)
	}
}

func checkGroups(_ context.Context, c *check) {
	has := func(op abi.Op) bool { return slices.Contains(c.manifest.Ops, op.String()) }
	for _, group := range abi.Groups() {
		if missing := group.Missing(has); len(missing) > 0 {
			there := slices.DeleteFunc(group.Ops(), func(op abi.Op) bool { return !has(op) })
			c.failf(outcome{}, "the manifest has %v without %v: the host turns them all off", there, missing)
		}
	}
}

// checkRubbish loads the guest with malformed configurations.
func checkRubbish(ctx context.Context, c *check) {
	rubbish := append([]string{"\x00\xff\xfe rubbish", "}{ this is : no [configuration\n\t\t- \"", "<html></html>"}, c.Cases.BadConfigs...)
	loader := c.loader(c.host, nil)
	for _, config := range rubbish {
		g, err := loader.Prepare(ctx, plugin.Bundle{Module: c.Module, Config: []byte(config)}, func(string) {})
		if err == nil {
			c.failf(outcome{}, "the configuration %s is accepted", text.Quote(config))
			_ = g.Close(ctx) // the error is irrelevant here
			continue
		}
		c.ear.hear("the error of configure", err.Error())
		var answer *abi.Error
		switch {
		case !errors.As(err, &answer):
			c.failf(outcome{}, "the configuration %s: no answer of the guest: %v", text.Quote(config), err)
		case answer.Code != abi.CodeInvalid:
			c.failf(outcome{}, "the configuration %s: code %s (%s), want invalid", text.Quote(config), answer.Code, text.Line(answer.Message, 200))
		case answer.Message == "":
			c.failf(outcome{}, "the configuration %s is refused without a message", text.Quote(config))
		}
	}
	c.notef("%d configurations", len(rubbish))
}

func checkProbe(ctx context.Context, c *check) {
	for range 2 {
		if o := c.probe(ctx, nil); o.err != nil {
			c.failf(o, "%s", o)
		}
	}
	c.notef("%s", text.Line(c.slot.Serving().Summary(), 100))
}

func noCredentials(k *kit) string {
	if len(k.Provider.Credentials) == 0 {
		return "no credential is configured"
	}
	return ""
}

// checkWrongCredentials loads the guest again, with Secrets that the cloud
// refuses.
func checkWrongCredentials(ctx context.Context, c *check) {
	network, err := newNetwork(ctx, &c.Options, c.WrongSecrets)
	if err != nil {
		c.failf(outcome{}, "the network with wrong credentials: %v", err)
		return
	}
	defer network.close(ctx)
	host := c.newHost(network, network.scrub)
	g, err := c.loader(host, nil).Prepare(ctx, plugin.Bundle{Module: c.Module, Config: c.Config}, func(string) {})
	if err != nil {
		c.failf(outcome{}, "it does not load: %v", err)
		return
	}
	err = g.Probe(ctx)
	_ = g.Close(ctx) // the error is irrelevant here
	if err == nil {
		c.failf(outcome{}, "probe is ready although the credentials are wrong")
		return
	}
	c.ear.hear("the error of probe", err.Error())
	if code := codeOf(err); code != abi.CodeUnauthenticated || strings.TrimSpace(err.Error()) == "" {
		c.failf(outcome{}, "probe: %s: %v, want unauthenticated with a message", code, err)
	}
	c.notef("%s", text.Line(err.Error(), 200))
}
