package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// outputs are the values of -o.
var outputs = []string{"table", "wide", "json", "yaml"}

// statusFlags are the flags of status.
type statusFlags struct {
	managerFlags
	output  string
	wait    bool
	timeout time.Duration
}

func newStatus() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the manager, its providers, and what is stuck",
		Long: "Show the manager that leads, which module of each provider serves, where its\n" +
			"rollout stands, and the Services and Nodes that are stuck.",
		Example: "  ccmctl status\n" +
			"  ccmctl status --wait --timeout 2m\n" +
			"  ccmctl status -o wide\n" +
			"  ccmctl status -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	addOutput(cmd, &f.output)
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until a manager leads, each provider serves what is offered, and nothing is stuck")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long --wait waits")
	return cmd
}

func addOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", outputs[0], "one of "+strings.Join(outputs, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func checkOutput(output string) error {
	if !slices.Contains(outputs, output) {
		return fmt.Errorf("-o %s: must be one of %s", text.Quote(output), strings.Join(outputs, ", "))
	}
	return nil
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	status, err := f.ask(cmd.Context())
	if f.wait {
		status, err = f.await(cmd)
	}
	if status != nil {
		if err := printStatus(cmd.OutOrStdout(), f.output, status); err != nil {
			return err
		}
	}
	return err
}

func (f *statusFlags) ask(ctx context.Context) (*v1alpha1.Status, error) {
	client, err := f.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	defer client.close()
	status, err := client.status(ctx)
	if err != nil {
		return nil, err
	}
	return status, nil
}

// waitPeriod is the time between two requests of --wait.
const waitPeriod = time.Second

// await asks until every wait is over. With an error it returns the last
// status, if there was one.
func (f *statusFlags) await(cmd *cobra.Command) (*v1alpha1.Status, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.end()
	var last *v1alpha1.Status
	for {
		status, err := f.ask(ctx)
		waits := ""
		switch {
		case err != nil && !over(ctx):
			waits = err.Error()
		case err == nil:
			if last, waits = status, unready(status); waits == "" {
				return status, nil
			}
		}
		progress.say(waits)
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("after %v: %w", f.timeout, errors.New(cmpOr(waits, progress.last)))
		case <-time.After(waitPeriod):
		}
	}
}

// over reports whether a context's deadline has passed. client-go refuses a
// request then, a moment before the context ends.
func over(ctx context.Context) bool {
	deadline, set := ctx.Deadline()
	return ctx.Err() != nil || set && !time.Now().Before(deadline)
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// unready is the reason why --wait still waits, or "".
func unready(s *v1alpha1.Status) string {
	if !s.Manager.Leads {
		return "this manager does not lead; " + cmpOr(s.Manager.Holder, "nobody") + " does"
	}
	for _, p := range s.Providers {
		switch {
		case p.Serving == nil:
			return fmt.Sprintf("provider %s serves nothing: %s %s", p.Name, p.Phase, p.Message)
		case !p.ServesOffered():
			return fmt.Sprintf("provider %s does not serve what is offered: %s %s %s", p.Name, p.Phase, p.Reason, p.Message)
		case len(p.Stuck) > 0:
			return fmt.Sprintf("%s: %s", objectName(p.Stuck[0].Object), p.Stuck[0].Message)
		case meta.IsStatusConditionFalse(p.Conditions, v1alpha1.ConditionConfigured):
			return fmt.Sprintf("provider %s: a changed configuration is not in force: %s", p.Name, meta.FindStatusCondition(p.Conditions, v1alpha1.ConditionConfigured).Message)
		}
	}
	if len(s.Nobodys) > 0 {
		return fmt.Sprintf("%s: %s", objectName(s.Nobodys[0].Object), s.Nobodys[0].Message)
	}
	return ""
}

// objectName is kind/name, with the namespace if there is one.
func objectName(o v1alpha1.Object) string {
	name := strings.ToLower(o.Kind) + " " + o.Name
	if o.Namespace != "" {
		name = strings.ToLower(o.Kind) + " " + o.Namespace + "/" + o.Name
	}
	return name
}

// printObject writes an answer as JSON or YAML; it returns false for other formats.
func printObject(w io.Writer, output string, object any) (bool, error) {
	switch output {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return true, encoder.Encode(object)
	case "yaml":
		data, err := yaml.Marshal(object)
		if err == nil {
			_, err = w.Write(data)
		}
		return true, err
	}
	return false, nil
}

func printStatus(w io.Writer, output string, s *v1alpha1.Status) error {
	if done, err := printObject(w, output, s); done {
		return err
	}
	role := "leads"
	if !s.Manager.Leads {
		role = "is a standby; the leader is " + cmpOr(s.Manager.Holder, "unknown")
	}
	fmt.Fprintf(w, "Manager %s %s, up %s, and %s\n\n", s.Manager.Version, s.Manager.Host, age(s.Time.Time, s.Manager.Started.Time), role)
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	row(table, output == "wide", []string{"PROVIDER", "SERVING", "PHASE", "REASON", "SINCE", "SERVICES", "NODES", "STUCK", "SOURCE"},
		[]string{"DIGEST", "CONFIG", "GENERATION", "OPS", "HOSTS"})
	for i := range s.Providers {
		p := &s.Providers[i]
		row(table, output == "wide", []string{p.Name, moduleName(p.Serving), p.Phase, dash(p.Reason), age(s.Time.Time, p.Since.Time), total(p.Services), total(p.Nodes), fmt.Sprint(p.StuckObjects()), sourceOf(p)},
			[]string{digestOf(p.Serving), configOf(p.Serving), fmt.Sprint(p.Generation), fmt.Sprintf("%d running, %d backed off", p.Ops.Running, p.Ops.BackedOff), hostStates(p.Hosts)})
	}
	if err := table.Flush(); err != nil {
		return err
	}
	most := shortStuck
	if output == "wide" {
		most = math.MaxInt
	}
	printStuck(w, s, most)
	return nil
}

func row(w io.Writer, wide bool, cells, more []string) {
	if wide {
		cells = append(cells, more...)
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// shortStuck bounds the named stuck objects, unless the output is wide.
const shortStuck = 10

// printStuck names the stuck objects, and the command for more.
func printStuck(w io.Writer, s *v1alpha1.Status, most int) {
	all, total := slices.Clone(s.Nobodys), len(s.Nobodys)
	for i := range s.Providers {
		p := &s.Providers[i]
		if p.Message != "" && p.Phase != v1alpha1.PhaseKept {
			fmt.Fprintf(w, "\nprovider %s: %s\n", p.Name, p.Message)
		}
		if p.Paused {
			fmt.Fprintf(w, "\nprovider %s is paused: nothing else serves until: %s\n", p.Name, report.Find(report.Paused).Next.Fill(report.Of{Manager: s.Manager.Namespace, Provider: p.Name}).Command)
		}
		for _, c := range p.Faults() {
			fmt.Fprintf(w, "\nprovider %s: %s is False (%s): %s\n", p.Name, c.Type, c.Reason, c.Message)
		}
		all = append(all, p.Stuck...)
		total += max(p.StuckObjects(), len(p.Stuck))
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.Explanation) int {
		return strings.Compare(objectName(a.Object), objectName(b.Object))
	})
	fmt.Fprintln(w, "\nStuck:")
	shown := all[:min(len(all), most)]
	for _, e := range shown {
		fmt.Fprintf(w, "  %s: %s: %s\n", objectName(e.Object), e.Cause, e.Message)
	}
	if more := total - len(shown); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	fmt.Fprintf(w, "\nMore: %s\n", report.ForManager(s.Manager.Namespace, "ccmctl why "+whyArguments(all[0].Object)))
}

// whyArguments are the arguments of why for an object.
func whyArguments(o v1alpha1.Object) string {
	arguments := strings.ToLower(o.Kind) + " " + o.Name
	if o.Namespace != "" {
		arguments += " -n " + o.Namespace
	}
	return arguments
}

func age(now, since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(since))
}

func moduleName(m *v1alpha1.Module) string {
	if m == nil {
		return "-"
	}
	return strings.TrimSpace(m.Name + " " + m.Version)
}

func digestOf(m *v1alpha1.Module) string {
	if m == nil {
		return "-"
	}
	return text.Digest(m.Digest)
}

func configOf(m *v1alpha1.Module) string {
	if m == nil {
		return "-"
	}
	return dash(text.Digest(m.ConfigDigest))
}

// sourceOf names the source of a provider and the digest of what it holds, and of its
// configuration if another one serves.
func sourceOf(p *v1alpha1.Provider) string {
	said := ""
	if p.Source != nil { // managers of earlier releases do not say it
		said = objectName(*p.Source)
	}
	if o := p.Offered; o != nil {
		said += " sha256:" + text.Digest(cmpOr(strings.TrimPrefix(o.ImageDigest, "sha256:"), o.Digest))
		if s := p.Serving; s != nil && s.ConfigDigest != o.ConfigDigest {
			said += cmpOr(text.Config(o.ConfigDigest), ", a private configuration") + " (" + cmpOr(text.Digest(s.ConfigDigest), "a private one") + " serves)"
		}
	}
	return dash(strings.TrimSpace(said))
}

func dash(s string) string { return cmpOr(s, "-") }

func total(o *v1alpha1.Objects) string {
	if o == nil {
		return "-"
	}
	return fmt.Sprint(o.Total)
}

// hostStates counts hosts, and names those whose breaker is not closed.
func hostStates(hosts []v1alpha1.Host) string {
	said := fmt.Sprint(len(hosts))
	for _, h := range hosts {
		if h.Breaker != "closed" {
			said += fmt.Sprintf(" (%s is %s)", h.Host, h.Breaker)
		}
	}
	return said
}
