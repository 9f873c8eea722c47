package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wasm-ccm/wasm-ccm/host/conformance"
)

// conformanceFlags are the flags of ccmctl conformance.
type conformanceFlags struct {
	guestFlags
	wrongSecrets         string
	inspect              string
	ignoreIPs            bool
	ignore               string
	only, except, output string
	quiet, verbose       bool
	options              conformance.Options // times and bounds
}

func newConformance() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use:   "conformance --module FILE --cases FILE [--config FILE]",
		Short: "Walk a provider's module through the contract of the ABI, against a cloud for tests, and report each clause",
		Long: `Walk a provider's module through the contract of the ABI and report each clause.

It makes and deletes load balancers and routes: give it a cloud for tests. The
module runs as in the manager, with the grants, credentials and limits of a
HostConfiguration, the Secrets of a directory (files NAMESPACE/NAME/KEY) and a
store in memory. Between it and the cloud the kit ends ops and spoils answers.
The exit code is 1 when a clause does not hold.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd.Flags())
	requireGuest(cmd)
	return cmd
}

func (f *conformanceFlags) add(fs *pflag.FlagSet) {
	f.guestFlags.add(fs)
	fs.StringVar(&f.wrongSecrets, "wrong-secrets", "", "Directory with Secrets that the cloud refuses. None: passwords, keys and tokens of --secrets are spoiled.")
	fs.StringVar(&f.inspect, "inspect", "", "Shell command that prints, in lines, all that the cloud keeps for the cluster. With it the kit sees leftovers.")
	fs.BoolVar(&f.ignoreIPs, "inspect-ignore-ips", false, "Treat all addresses in the output of --inspect as equal, beside UUIDs, times and numbers of six digits and more.")
	fs.StringVar(&f.ignore, "inspect-ignore", "", "Regular expression: treat what it matches in the output of --inspect as equal, as IDs of fewer than six digits.")
	fs.StringVar(&f.only, "only", "", "Regular expression: run the clauses whose ID it matches.")
	fs.StringVar(&f.except, "except", "", "Regular expression: leave out the clauses whose ID it matches, and say so in the report.")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json.")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "Do not print the running clause to standard error.")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "Print each disturbance of an op to standard error, too.")
	fs.DurationVar(&f.options.MaxWait, "max-wait", 2*time.Second, "Longest wait before an op is asked again, whatever the provider asks for.")
	fs.DurationVar(&f.options.DriveTimeout, "drive-timeout", 5*time.Minute, "Time for an op with all its repetitions.")
	fs.DurationVar(&f.options.FaultTimeout, "fault-timeout", 3*time.Second, "Deadline of an op whose cloud hangs.")
	fs.DurationVar(&f.options.Settle, "settle", 5*time.Second, "How long the cloud may take to show by --inspect what an op has done.")
	fs.IntVar(&f.options.MaxPositions, "max-positions", 200, "Requests of one op at which it is ended, or its cloud fails, at most.")
	fs.BoolVar(&f.options.CrashAtWrites, "crash-at-writes", false, "End ops only at requests that change something, which is quicker.")
}

// errNotConformant is the end of a run in which a clause failed.
var errNotConformant = errors.New("the provider does not conform; see the report")

func (f *conformanceFlags) run(cmd *cobra.Command) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %q: must be text or json", f.output)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it without cleaning up
	options, err := f.read()
	if err != nil {
		return err
	}
	remove, err := f.compile(&options)
	if err != nil {
		return err
	}
	defer remove()
	options.Progress = f.progress(cmd)
	report, err := conformance.Run(ctx, options)
	if err != nil && len(report.Results) == 0 {
		return err
	}
	write := report.WriteSummary // the clauses are already printed
	if f.output == "json" {
		write = report.WriteJSON
	}
	if err := errors.Join(err, write(cmd.OutOrStdout())); err != nil {
		return err
	}
	if !report.Passed() {
		return errNotConformant
	}
	return nil
}

// silence is the longest time without output during a clause.
const silence = 10 * time.Second

// progress prints each clause at its end, so that an interrupted run loses
// nothing, and its current work on standard error.
func (f *conformanceFlags) progress(cmd *cobra.Command) func(conformance.Result) {
	out, w, said := cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now()
	if f.quiet {
		w = io.Discard
	}
	return func(r conformance.Result) {
		switch {
		case r.Verdict != "":
			fmt.Fprintf(w, "%-18s %s, %.1f s\n", r.ID, r.Verdict, r.Took.Seconds())
			if f.output == "text" {
				_ = r.WriteText(out) // the summary then fails as well
			}
		case r.Note == "":
			fmt.Fprintf(w, "%-18s ...\n", r.ID)
		case f.verbose || time.Since(said) >= silence:
			fmt.Fprintf(w, "%-18s   %s\n", r.ID, r.Note)
		default:
			return
		}
		said = time.Now()
	}
}

// read reads all files.
func (f *conformanceFlags) read() (o conformance.Options, err error) {
	o = f.options
	if err := f.guestFlags.read(&o); err != nil {
		return o, err
	}
	if o.WrongSecrets, err = readSecrets(f.wrongSecrets); err != nil {
		return o, err
	}
	if f.only != "" {
		if o.Only, err = regexp.Compile(f.only); err != nil {
			return o, fmt.Errorf("--only: %w", err)
		}
	}
	if f.except != "" {
		if o.Except, err = regexp.Compile(f.except); err != nil {
			return o, fmt.Errorf("--except: %w", err)
		}
	}
	if f.ignore != "" {
		if o.Ignore, err = regexp.Compile(f.ignore); err != nil {
			return o, fmt.Errorf("--inspect-ignore: %w", err)
		}
	}
	if f.inspect != "" {
		o.Inspect, o.IgnoreIPs = shell(f.inspect), f.ignoreIPs
	}
	return o, nil
}

// maxInspect bounds the output of an inspection, in bytes.
const maxInspect = 16 << 20

// shell returns a command's output. A failed command gives no description.
func shell(command string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("--inspect: %w: %s", err, strings.TrimSpace(stderr.String()[:min(stderr.Len(), 1000)]))
		}
		if stdout.Len() > maxInspect {
			return "", fmt.Errorf("--inspect: %d bytes, at most %d are read: print less", stdout.Len(), maxInspect)
		}
		return stdout.String(), nil
	}
}
