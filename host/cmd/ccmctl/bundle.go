package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// bundleFlags are the flags of bundle.
type bundleFlags struct {
	managerFlags
	output  string
	lines   int64
	timeout time.Duration
	free    freeTexts
}

// freeTexts are the texts with unknown content, included on request.
type freeTexts struct{ logs, messages, configurations bool }

func (f freeTexts) any() bool { return f != freeTexts{} }

// Bounds of --log-lines.
const (
	usualLines = 2000
	mostLines  = 20_000
)

func newBundle() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive for support: states, objects, calls and findings, without free text",
		Long: "Write a tar.gz with the configuration, the status, why objects are stuck, Nodes,\n" +
			"Services, Events, the latest calls to the cloud, metrics and what check finds.\n" +
			"Only fields that are known to be harmless are in it: names, reasons, numbers,\n" +
			"times, addresses and versions. Messages, logs and configurations of modules are\n" +
			"free text, which may contain secrets. They are in it only with the flags below:\n" +
			"what looks like a secret, and the values of Secrets that the configuration names\n" +
			"and you may read, is removed then as well as it can be found. README.md in the\n" +
			"archive says what is in it, and what could not be read.\n" +
			"Look through the archive before you give it to somebody.",
		Example: "  ccmctl bundle\n" +
			"  ccmctl bundle -o /tmp/ccm.tar.gz\n" +
			"  ccmctl bundle --logs --log-lines 500 --messages\n" +
			"  ccmctl bundle -o -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the file to write, which must not exist yet; - is stdout (default ccm-bundle-TIME.tar.gz)")
	flags.BoolVar(&f.free.logs, "logs", false, "also the logs of the manager's containers, and of those before them: free text of modules, clouds and libraries")
	flags.BoolVar(&f.free.messages, "messages", false, "also the messages of Events, statuses and findings: free text, which may quote what clouds answer, annotations and configurations")
	flags.BoolVar(&f.free.configurations, "configurations", false, "also the HostConfiguration and the modules' configurations from ConfigMaps as they are written: free text, in which passwords may stand")
	flags.Int64Var(&f.lines, "log-lines", usualLines, "with --logs: how many of the last lines of each log")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long everything may take; what is missing then is left out")
	return cmd
}

func (f *bundleFlags) run(cmd *cobra.Command) error {
	if f.lines < 1 || f.lines > mostLines {
		return fmt.Errorf("--log-lines %d: must be from 1 to %d", f.lines, mostLines)
	}
	begun := time.Now().UTC().Truncate(time.Second)
	directory := "ccm-bundle-" + begun.Format("20060102T150405Z")
	if f.output == "" {
		f.output = directory + ".tar.gz"
	}
	if _, err := os.Lstat(f.output); err == nil {
		return fmt.Errorf("%s exists: remove it, or choose another name", f.output)
	}
	progress := newProgress(cmd.ErrOrStderr())
	b := &bundle{archive: archive{begun: begun}, redactor: &redactor{}, contents: map[string]any{}, asked: f.free, say: func(string) {}}
	if progress.terminal {
		b.say = func(what string) { progress.say("reading " + what) }
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	f.collect(ctx, b)
	progress.end()
	b.documents()
	if len(b.files) == 0 {
		return fmt.Errorf("nothing could be read: %w", errors.Join(b.errors()...))
	}
	var data bytes.Buffer
	if err := b.finish(&data, directory); err != nil {
		return err
	}
	if f.output == "-" {
		_, err := cmd.OutOrStdout().Write(data.Bytes())
		return err
	}
	if err := createFile(f.output, data.Bytes(), 0o600); err != nil {
		return err
	}
	b.summary(cmd.ErrOrStderr(), f.output, data.Len())
	return nil
}

// collect reads all parts. The cluster comes first: it names the Secrets whose
// values are removed from free texts.
func (f *bundleFlags) collect(ctx context.Context, b *bundle) {
	c := &bundleCluster{bundle: b, namespace: f.managers, lines: f.lines}
	config, client, err := f.client()
	if err == nil {
		c.config, c.client = config, client
		c.collect(ctx)
		b.part(ctx, checkTimeout, "findings.json", func(ctx context.Context) error { return b.check(ctx, config, f.managerFlags) })
	} else {
		b.miss("everything of the API server", err)
	}
	if f.server != "" && b.contents["configuration.json"] != nil {
		b.miss("the configuration that the manager of --server runs with", own("configuration.json is that of the ConfigMap %s/%s, and no manager tells its own", f.managers, managerName))
	}
	b.say("the manager")
	manager, err := f.connect(ctx, true)
	if err != nil {
		b.miss("everything of the manager's API: status.json, why.json, calls.json, reachability.json, metrics.txt", err)
		return
	}
	defer manager.close()
	b.manager(ctx, manager)
}
