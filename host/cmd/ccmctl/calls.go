package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// callsFlags are the flags of calls.
type callsFlags struct {
	managerFlags
	output, provider, host string
	counts, watch          bool
	interval               time.Duration
}

// minInterval limits the load on the manager, which answers few requests at once.
const minInterval = 100 * time.Millisecond

func newCalls() *cobra.Command {
	var f callsFlags
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Show the latest requests that the manager sent to the cloud",
		Long: "Show the latest requests that the manager sent to the cloud, the oldest first: for\n" +
			"which op, where to, with which result, and how long it took. Paths have * in place\n" +
			"of ids; queries, headers and bodies are not remembered. A manager remembers 256\n" +
			"requests of each provider, and forgets them when it ends.",
		Example: "  ccmctl calls\n" +
			"  ccmctl calls --provider static --host api.example.com\n" +
			"  ccmctl calls --counts\n" +
			"  ccmctl calls --watch -o wide\n" +
			"  ccmctl calls -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	addOutput(cmd, &f.output)
	cmd.Flags().StringVar(&f.provider, "provider", "", "the calls of this provider alone")
	cmd.Flags().StringVar(&f.host, "host", "", "the calls to this host alone, as HOST or HOST:PORT")
	cmd.Flags().BoolVar(&f.counts, "counts", false, "count the calls by op, host and path since the manager began")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show further calls as they end; with -o json one in a line")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "with --watch: the time between two questions")
	cmd.MarkFlagsMutuallyExclusive("counts", "watch")
	return cmd
}

func (f *callsFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.interval < minInterval {
		return fmt.Errorf("--interval %v: must be %v or more", f.interval, minInterval)
	}
	if f.watch {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return (&callsWatch{flags: f, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), seen: map[string]int64{}}).run(ctx)
	}
	client, err := f.connect(cmd.Context(), true)
	if err != nil {
		return err
	}
	defer client.close()
	calls, err := f.ask(cmd.Context(), client)
	if err != nil {
		return err
	}
	if !calls.Manager.Leads {
		fmt.Fprintf(cmd.ErrOrStderr(), "The manager %s is a standby: it sends what it needs to try its modules\n", calls.Manager.Host)
	}
	return f.print(cmd.OutOrStdout(), calls)
}

// ask requests the calls that the flags select.
func (f *callsFlags) ask(ctx context.Context, client *managerClient) (*v1alpha1.Calls, error) {
	var calls v1alpha1.Calls
	query := url.Values{}
	if f.provider != "" {
		query.Set("provider", f.provider)
	}
	if err := client.get(ctx, v1alpha1.CallsPath, query, &calls); err != nil {
		return nil, err
	}
	return &calls, nil
}

// only drops calls to other hosts than the requested one.
func (f *callsFlags) only(calls *v1alpha1.Calls) {
	others := func(k v1alpha1.CallKind) bool {
		name, _, err := net.SplitHostPort(k.Host)
		return f.host != k.Host && (err != nil || f.host != name)
	}
	if f.host != "" {
		calls.Latest = slices.DeleteFunc(calls.Latest, func(c v1alpha1.Call) bool { return others(c.CallKind) })
		calls.Counts = slices.DeleteFunc(calls.Counts, func(c v1alpha1.CallCount) bool { return others(c.CallKind) })
	}
}

func (f *callsFlags) print(w io.Writer, calls *v1alpha1.Calls) error {
	f.only(calls)
	if done, err := printObject(w, f.output, calls); done {
		return err
	}
	slices.Reverse(calls.Latest)
	rows := append([][]string{callHeader(f.output)}, callRows(f.output, calls.Latest)...)
	if f.counts {
		rows = countRows(calls)
	}
	if len(rows) == 1 {
		return f.none(w, &calls.Manager)
	}
	return new(columns).print(w, rows)
}

// none says which requests there were none of, and since when.
func (f *callsFlags) none(w io.Writer, m *v1alpha1.Manager) error {
	of := ""
	if f.provider != "" {
		of += " of provider " + f.provider
	}
	if f.host != "" {
		of += " to host " + f.host
	}
	_, err := fmt.Fprintf(w, "Manager %s remembers no request%s since its start at %s\n", m.Host, of, when(m.Started.Time))
	return err
}

func callHeader(output string) []string {
	header := []string{"TIME", "PROVIDER", "OP", "METHOD", "HOST", "PATH", "RESULT", "TOOK"}
	if output == "wide" {
		header = append(header, "OBJECT", "GENERATION", "SENT", "RECEIVED")
	}
	return header
}

func callRows(output string, all []v1alpha1.Call) (rows [][]string) {
	for i := range all {
		c := &all[i]
		row := []string{c.At.UTC().Format(time.RFC3339), c.Provider, c.Op, c.Method, c.Host, c.Path, callResult(c), took(c.Took.Duration)}
		if output == "wide" {
			row = append(row, dash(c.Object), fmt.Sprint(c.Generation), fmt.Sprint(c.SentBytes), fmt.Sprint(c.ReceivedBytes))
		}
		rows = append(rows, row)
	}
	return rows
}

// callResult is the status of the response, or the error without one.
func callResult(c *v1alpha1.Call) string {
	if c.Status != 0 {
		return fmt.Sprint(c.Status)
	}
	return c.Result
}

// took is a duration with its significant digits.
func took(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func countRows(calls *v1alpha1.Calls) [][]string {
	rows := [][]string{{"PROVIDER", "OP", "METHOD", "HOST", "PATH", "RESULT", "CALLS", "MEAN", "LONGEST", "LAST"}}
	for i := range calls.Counts {
		c := &calls.Counts[i]
		mean := c.Total.Duration / time.Duration(max(1, c.Calls))
		rows = append(rows, []string{c.Provider, c.Op, c.Method, c.Host, c.Path, c.Result, fmt.Sprint(c.Calls), took(mean), took(c.Longest.Duration),
			age(calls.Time.Time, c.Last.Time) + " ago"})
	}
	return rows
}

// columns prints rows below each other, with the widths of earlier rows.
type columns struct{ widths []int }

func (c *columns) print(w io.Writer, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s   ", c.widths[i], cell)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
