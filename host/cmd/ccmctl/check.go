package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/host/internal/check"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// checkFlags are the flags of check.
type checkFlags struct {
	managerFlags
	output, planned string
	all             bool
	patience        time.Duration
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for mistakes in the cluster and the configuration, before and after an installation",
		Long: "Look for mistakes: kubelets without --cloud-provider=external, Nodes that wait,\n" +
			"two managers at once, missing rights, Secrets, ConfigMaps and accounts, clocks,\n" +
			"ports, admission, versions, and granted hosts to which the manager\n" +
			"cannot connect; it tries each, and sends no request. Nothing is changed. What you\n" +
			"may not read is named as unknown. The exit code is 1 if there is an error.\n\n" +
			"With -f it checks what is to be installed: a HostConfiguration, or what\n" +
			"helm template prints (helm template ... | ccmctl check -f -). Without a cluster it\n" +
			"checks the configuration alone.",
		Example: "  ccmctl check\n" +
			"  ccmctl check --all\n" +
			"  ccmctl check -f hostconfiguration.yaml\n" +
			"  ccmctl check -f -\n" +
			"  ccmctl check -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	addOutput(cmd, &f.output)
	cmd.Flags().StringVarP(&f.planned, "filename", "f", "", "a HostConfiguration, or what helm template prints; - is the standard input")
	cmd.Flags().BoolVar(&f.all, "all", false, "also print what is as it should be")
	cmd.Flags().DurationVar(&f.patience, "patience", report.WaitsAfter, "how long a Node or a Pod may wait before it is an error")
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	options := check.Options{Namespace: f.managers, Version: version.Release(), Patience: f.patience}
	if options.PlannedIn = f.planned; f.planned == "-" {
		options.PlannedIn = "the standard input"
	}
	var err error
	if options.Planned, err = f.plan(cmd.InOrStdin()); err != nil {
		return err
	}
	config, _, err := f.client()
	switch {
	case err != nil && f.chosen():
		return fmt.Errorf("the cluster of --kubeconfig and --context cannot be checked: %w; correct them, or leave them out to check a configuration alone (-f)", err)
	case err != nil && options.Planned == nil:
		return err
	case err != nil:
		config, options.NoCluster = &rest.Config{}, err
	}
	if options.Planned == nil {
		options.Status, options.Reachability = f.status, f.reachability
	}
	// client-go would print the API server's warnings between the findings.
	config.WarningHandler = rest.NoWarnings{}
	findings, err := check.Run(cmd.Context(), config, options)
	if err != nil {
		return err
	}
	if err := printFindings(cmd.OutOrStdout(), f.output, f.all, findings); err != nil {
		return err
	}
	if n := check.Count(findings, check.Error); n > 0 {
		return fmt.Errorf("%d of the findings are errors", n)
	}
	return nil
}

func (f *checkFlags) status(ctx context.Context) (*v1alpha1.Status, error) {
	client, err := f.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	defer client.close()
	answer, err := client.status(ctx)
	if err != nil {
		return nil, err
	}
	return answer, client.silent
}

func (f *checkFlags) reachability(ctx context.Context) (*v1alpha1.Reachability, error) {
	client, err := f.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	defer client.close()
	return client.reachability(ctx)
}

// maxPlan is the size limit of a plan, in bytes.
const maxPlan = 8 << 20

func (f *checkFlags) plan(stdin io.Reader) ([]byte, error) {
	switch f.planned {
	case "":
		return nil, nil
	case "-":
		data, err := io.ReadAll(io.LimitReader(stdin, maxPlan+1))
		if err == nil && len(data) > maxPlan {
			err = errors.New("the standard input has more than 8 MiB")
		}
		return data, err
	}
	return readFile(f.planned, maxPlan)
}

// severityColours are for terminals.
var severityColours = map[check.Severity]string{check.Error: "31", check.Warning: "33", check.OK: "32"}

func printFindings(w io.Writer, output string, all bool, findings []check.Finding) error {
	shown := slices.DeleteFunc(slices.Clone(findings), func(f check.Finding) bool { return f.Severity == check.OK && !all })
	if done, err := printObject(w, output, shown); done {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, f := range shown {
		severity := string(f.Severity)
		if code := severityColours[f.Severity]; code != "" && isTerminal(w) {
			severity = "\x1b[" + code + "m" + severity + "\x1b[0m"
		}
		mend := ""
		if f.Mend != "" {
			mend = " -> " + f.Mend
		}
		fmt.Fprintf(table, "%s\t%s\t%s: %s%s\n", severity, f.Reason, f.Where, f.What, mend)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d errors, %d warnings, %d not checked, %d as they should be\n",
		check.Count(findings, check.Error), check.Count(findings, check.Warning), check.Count(findings, check.Unknown), check.Count(findings, check.OK))
	return err
}
