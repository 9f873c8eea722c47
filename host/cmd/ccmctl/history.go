package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	lifecycle "github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

func newHistory() *cobra.Command {
	var f rolloutFlags
	return f.add(&cobra.Command{
		Use:   "history PROVIDER",
		Short: "Show which modules served, how they did and why they ended, and what people asked for",
		Long: "Show the generations that served, the newest first and at most 32; then the Events\n" +
			"of the ConfigMap wasm-ccm-provider-PROVIDER, the oldest first: what people asked\n" +
			"for. An API server keeps them for an hour, unless it is set otherwise. Those of the\n" +
			"phases are on the module's ConfigMap, where there is one (deploy/EVENTS.md). Last is\n" +
			"the phase (deploy/docs/upgrade.md has them).\n\n" +
			"A generation is a module with its configuration. The columns, where - is none:\n\n" + columnsHelp(),
		Example: "  ccmctl rollout history static",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, client, err := f.client()
			if err != nil {
				return err
			}
			cm, err := f.object(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			events, err := f.events(cmd.Context(), client, cm)
			if err != nil {
				return err
			}
			return writeHistory(cmd.OutOrStdout(), cm, events)
		},
	})
}

// historyColumns are the columns of the table, and what they mean.
var historyColumns = [][2]string{
	{"GENERATION", "counted up at each takeover, also for other grants or Secrets"},
	{"MODULE", "name and version, as the module says"},
	{"DIGEST", "SHA-256 of the module, for rollout promote"},
	{"CONFIG", "SHA-256 of its configuration; none of a private one"},
	{"OFFERED", "when it was first seen in the source"},
	{"FROM", "when it began to serve"},
	{"UNTIL", "when another one took over; serves: none did"},
	{"KEPT", "when it had passed its observation"},
	{"CALLS", "requests of the control loops to it"},
	{"FAILED", "how many of CALLS failed"},
	{"ASKED", "questions of the manager's own, to prove it"},
	{"BY", "who asked for its end, and when"},
	{"ENDED", "why: Replaced by what was offered, or rolled back:\n" +
		"              ByOperator: somebody asked; ErrorBudgetExceeded: calls failed;\n" +
		"              ExaminationFailed: questions failed; ModuleSuspected: a manager ended"},
}

func columnsHelp() (help string) {
	for _, c := range historyColumns {
		help += fmt.Sprintf("  %-10s  %s\n", c[0], c[1])
	}
	return strings.TrimSuffix(help, "\n")
}

// writeHistory prints the generations of a provider's ConfigMap, its Events and
// its present state.
func writeHistory(w io.Writer, cm *corev1.ConfigMap, events []corev1.Event) error {
	var record lifecycle.Record
	if said := cm.Data["record"]; said != "" {
		if err := json.Unmarshal([]byte(said), &record); err != nil {
			return fmt.Errorf("the record in ConfigMap %s: %w", cm.Name, err)
		}
	}
	if len(record.History) > 0 {
		table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
		var header []string
		for _, c := range historyColumns {
			header = append(header, c[0])
		}
		fmt.Fprintln(table, strings.Join(header, "\t"))
		for i := range record.History {
			fmt.Fprintln(table, strings.Join(servedRow(&record.History[i]), "\t"))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for i := range events {
		fmt.Fprintf(w, "%s  %-24s %s\n", told(&events[i]).UTC().Format(time.RFC3339), text.Line(events[i].Reason, maxTold), text.Line(events[i].Message, maxTold))
	}
	now, config := cm.Labels[status.LabelPhase], ""
	var s status.Status
	if err := yaml.Unmarshal([]byte(cm.Data["status"]), &s); err == nil {
		if s.Message != "" {
			now += " (" + text.Line(s.Message, maxTold) + ")"
		}
		if s.Serving != nil {
			config = text.Line(text.Config(s.Serving.ConfigDigest), maxTold)
		}
	}
	_, err := fmt.Fprintf(w, "now: phase %s, serving %s%s\n", now, dash(cm.Labels[status.LabelServing]), config)
	return err
}

// servedRow is a row of the table. The ConfigMap's writers are untrusted.
func servedRow(s *lifecycle.Served) []string {
	// Invariant M26 (host/SECURITY.md): no foreign text is more than one line within a limit.
	line := func(s string) string { return dash(text.Line(s, maxTold)) }
	until := when(s.Until)
	if s.Until.IsZero() {
		until = "serves"
	}
	return []string{
		fmt.Sprint(s.Generation), line(s.Name + " " + s.Version), line(text.Digest(s.Digest)), line(text.Digest(s.ConfigDigest)), when(s.Offered), when(s.From), until, when(s.Kept),
		fmt.Sprint(s.Calls), fmt.Sprint(s.Failures), fmt.Sprint(s.Questions), line(s.By), line(s.Why),
	}
}

// when formats a time for a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
