package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// callsWatch prints calls as they end.
type callsWatch struct {
	flags      *callsFlags
	out, notes io.Writer
	client     *managerClient // nil: not yet found
	table      columns
	manager    v1alpha1.Manager
	seen       map[string]int64 // the number of the last call, by provider
	noted      string
}

// run repeats its request until the context ends. The first one must be
// answered; later the manager may be away for a while.
func (w *callsWatch) run(ctx context.Context) error {
	defer w.leave()
	for first := true; ; first = false {
		calls, err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			w.leave()
			w.note(err.Error())
		default:
			if err := w.show(calls, first); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.flags.interval):
		}
	}
}

// ask sends the request to the leading manager. If the known Pod no longer
// leads, the next call looks for the leader.
func (w *callsWatch) ask(ctx context.Context) (*v1alpha1.Calls, error) {
	if w.client == nil {
		client, err := w.flags.connect(ctx, true)
		if err != nil {
			return nil, err
		}
		w.client = client
	}
	calls, err := w.flags.ask(ctx, w.client)
	if err == nil && !calls.Manager.Leads {
		w.leave()
	}
	return calls, err
}

func (w *callsWatch) leave() {
	if w.client != nil {
		w.client.close()
		w.client = nil
	}
}

// note prints a message once, beside the calls.
func (w *callsWatch) note(what string) {
	if what = text.Line(what, v1alpha1.MaxText); what != w.noted {
		w.noted = what
		fmt.Fprintln(w.notes, "# "+what)
	}
}

// show prints the new calls.
func (w *callsWatch) show(calls *v1alpha1.Calls, first bool) error {
	if m := calls.Manager; m.Host != w.manager.Host || !m.Started.Equal(&w.manager.Started) {
		if !first {
			w.note("another manager answers: " + m.Host)
		}
		w.manager, w.seen = m, map[string]int64{}
	}
	if first && !structured(w.flags.output) {
		if err := w.table.print(w.out, [][]string{callHeader(w.flags.output)}); err != nil {
			return err
		}
	}
	w.fresh(calls)
	w.flags.only(calls)
	return w.print(calls.Latest)
}

// fresh keeps the calls that were not yet shown, the oldest first.
func (w *callsWatch) fresh(calls *v1alpha1.Calls) {
	lowest, highest := map[string]int64{}, map[string]int64{}
	for i := range calls.Latest {
		c := &calls.Latest[i]
		highest[c.Provider] = max(highest[c.Provider], c.Number)
		if c.Number > w.seen[c.Provider] && (lowest[c.Provider] == 0 || c.Number < lowest[c.Provider]) {
			lowest[c.Provider] = c.Number
		}
	}
	calls.Latest = slices.DeleteFunc(calls.Latest, func(c v1alpha1.Call) bool {
		return c.Number <= w.seen[c.Provider] && highest[c.Provider] >= w.seen[c.Provider] // otherwise the provider was removed and is new
	})
	slices.Reverse(calls.Latest)
	for provider, n := range highest {
		if missed := lowest[provider] - w.seen[provider] - 1; missed > 0 && w.seen[provider] > 0 {
			w.note(fmt.Sprintf("%d calls of provider %s were not seen: there were too many", missed, provider))
		}
		w.seen[provider] = n
	}
}

func (w *callsWatch) print(latest []v1alpha1.Call) error {
	if !structured(w.flags.output) {
		return w.table.print(w.out, callRows(w.flags.output, latest))
	}
	for i := range latest {
		data, err := json.Marshal(&latest[i])
		if err == nil && w.flags.output == "yaml" {
			if data, err = yaml.JSONToYAML(data); err == nil {
				data = append([]byte("---\n"), data[:len(data)-1]...)
			}
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w.out, "%s\n", data); err != nil {
			return err
		}
	}
	return nil
}

// structured reports whether an output is for programs.
func structured(output string) bool { return output == "json" || output == "yaml" }
