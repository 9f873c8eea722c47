package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"

	restclient "k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/check"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// manager reads the manager's own status.
func (b *bundle) manager(ctx context.Context, client *managerClient) {
	status, err := client.status(ctx)
	if err == nil {
		err = b.show("status.json", status)
		b.free(b.asked.messages, "status.txt", "what the manager says of itself and its providers (ccmctl status -o json)", b.indented(status))
	}
	b.missed("status.json, why.json", err)
	if status != nil {
		all := b.explanations(ctx, client, status)
		b.missed("why.json", b.show("why.json", all))
		b.free(b.asked.messages, "why.txt", "why each stuck object is stuck (ccmctl why)", explained(all))
	}
	var sent v1alpha1.Calls
	if err = client.get(ctx, v1alpha1.CallsPath, nil, &sent); err == nil {
		err = b.show("calls.json", &sent)
	}
	b.missed("calls.json", err)
	reachability, err := client.reachability(ctx)
	if err == nil {
		err = b.show("reachability.json", reachability)
		b.free(b.asked.messages, "reachability.txt", "which granted hosts the manager can connect to, and why not", b.indented(reachability))
	}
	b.missed("reachability.json", err)
	b.missed("metrics.txt", b.metrics(ctx, client))
}

// sample is a line of metrics with known harmless labels, whose values are
// words.
var sample = regexp.MustCompile(`(?m)^[a-zA-Z_:][a-zA-Z0-9_:]*(\{((by|code|condition|controller|digest|engine|host|kind|le|method|name|op|path|phase|` +
	`provider|quantile|reason|resource|result|status|verb|version|what)="[A-Za-z0-9._:/*+-]*",?)*\})? [0-9.eE+-]+$`)

func (b *bundle) metrics(ctx context.Context, client *managerClient) error {
	const maxMetrics = 8 << 20
	metrics, err := client.fetch(ctx, "/metrics", "", maxMetrics)
	if err == nil && metrics.code != http.StatusOK {
		err = refusal(metrics.code, metrics.body)
	}
	if err != nil {
		return err
	}
	if metrics.cut {
		b.miss("metrics.txt", own("what follows its first %d bytes", maxMetrics))
	}
	lines := bytes.Join(sample.FindAll(metrics.body, -1), []byte("\n"))
	return b.add("metrics.txt", "the metrics of the manager with labels that are known", lines)
}

// explanations are those of each provider, and of each stuck object in the
// status.
func (b *bundle) explanations(ctx context.Context, client *managerClient, status *v1alpha1.Status) []v1alpha1.Explanation {
	all := status.Nobodys
	for i := range status.Providers {
		p := &status.Providers[i]
		e, err := client.why(ctx, v1alpha1.Object{Kind: v1alpha1.KindProvider, Name: p.Name})
		if err != nil {
			b.miss("why of provider "+text.Name(p.Name), err)
		} else {
			all = append(all, *e)
		}
		all = append(all, p.Stuck...)
		if n, named := p.StuckObjects(), len(p.Stuck); n > named {
			b.miss("why.json", own("of %d stuck objects of provider %s the manager names %d", n, text.Name(p.Name), named))
		}
	}
	return all
}

func explained(all []v1alpha1.Explanation) []byte {
	var out bytes.Buffer
	for i := range all {
		_ = printExplanation(&out, outputs[0], &all[i]) // a Buffer returns no errors
		fmt.Fprintln(&out)
	}
	return out.Bytes()
}

// check adds the findings of ccmctl check.
func (b *bundle) check(ctx context.Context, config *restclient.Config, manager managerFlags) error {
	asks := checkFlags{managerFlags: manager}
	config = restclient.CopyConfig(config)
	config.WarningHandler = restclient.NoWarnings{}
	findings, err := check.Run(ctx, config, check.Options{
		Namespace: manager.managers, Version: version.Release(), Patience: report.WaitsAfter, Status: asks.status, Reachability: asks.reachability,
	})
	if err != nil {
		return err
	}
	if err := b.show("findings.json", findings); err != nil {
		return err
	}
	var out bytes.Buffer
	err = printFindings(&out, outputs[0], true, findings)
	b.free(b.asked.messages, "findings.txt", "what ccmctl check finds, in sentences", out.Bytes())
	return err
}
