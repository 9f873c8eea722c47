package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// runFlags are the flags of ccmctl run.
type runFlags struct {
	guestFlags
	wait    bool
	timeout time.Duration
	output  string
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run OP [OBJECT] --module FILE --cases FILE [--config FILE]",
		Short: "Run one op of a provider's module, and show its requests, log and answer",
		Long: `Run one op of a provider's module, without a cluster, and show what it sends to
its cloud, what it logs and what it answers. The op is real: lb_ensure makes a
load balancer.

The objects are those of the file that 'ccmctl conformance' reads: OBJECT is the
name of a Node, Service or PersistentVolume there, or the destination of a route;
without it the first one. The module runs as in the manager, with the grants,
credentials and limits of a HostConfiguration, the Secrets of a directory (files
NAMESPACE/NAME/KEY) and a store in memory, which is empty at each run.
The exit code is 1 when the op answers with an error.`,
		Example: "  ccmctl run instance_metadata worker-1 --module build/mycloud.wasm --cases cases.yaml\n" +
			"  ccmctl run lb_ensure web --wait --module build/mycloud.wasm --cases cases.yaml \\\n" +
			"    --provider-config config.yaml --config host.yaml --secrets secrets",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeOp,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&f.wait, "wait", false, "Repeat the op while it asks for that (retry_after), as the manager does.")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "With --wait: time for all tries.")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json.")
	requireGuest(cmd)
	return cmd
}

// askable are the ops that can run alone.
func askable() (names []string) {
	for _, op := range abi.Ops() {
		if op != abi.OpDescribe && op != abi.OpConfigure && op != abi.OpSign {
			names = append(names, op.String())
		}
	}
	return names
}

func completeOp(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return askable(), cobra.ShellCompDirectiveNoFileComp
}

// errOpFailed is the error of a run whose op failed.
var errOpFailed = errors.New("the op failed, see above")

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %q: must be text or json", f.output)
	}
	op, _ := abi.ParseOp(args[0])
	if !slices.Contains(askable(), args[0]) {
		return fmt.Errorf("%q is no op that runs by itself: give one of %s", args[0], strings.Join(askable(), ", "))
	}
	q := conformance.Question{Op: op, Wait: f.wait}
	if len(args) > 1 {
		q.Object = args[1]
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it without cleaning up
	options := conformance.Options{DriveTimeout: f.timeout}
	if err := f.read(&options); err != nil {
		return err
	}
	remove, err := f.compile(&options)
	if err != nil {
		return err
	}
	defer remove()
	answer, err := conformance.Ask(ctx, options, q)
	if err != nil {
		return err
	}
	if err := f.write(cmd.OutOrStdout(), answer); err != nil {
		return err
	}
	if answer.Code != abi.CodeOK.String() {
		return errOpFailed
	}
	return nil
}

func (f *runFlags) write(out io.Writer, a *conformance.Answer) error {
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	var b strings.Builder
	for _, request := range a.Requests {
		fmt.Fprintf(&b, "request  %s\n", asText(request))
	}
	for _, line := range a.Said {
		fmt.Fprintf(&b, "said     %s\n", asText(line))
	}
	fmt.Fprintf(&b, "%s: %s, %d ms", a.Op, a.Code, a.Milliseconds)
	if a.Tries > 1 {
		fmt.Fprintf(&b, " in %d tries", a.Tries)
	}
	b.WriteByte('\n')
	if a.Error != "" {
		fmt.Fprintf(&b, "error: %s\n", asText(a.Error))
	}
	for _, line := range a.Crash {
		fmt.Fprintf(&b, "  %s\n", asText(line))
	}
	if a.Response != nil {
		data, err := json.MarshalIndent(a.Response, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n", data)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// asText is a line without control characters: the guest and its cloud are untrusted.
func asText(line string) string { return text.Line(line, 4<<10) }
