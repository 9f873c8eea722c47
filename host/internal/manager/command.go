// Package manager is the cloud-controller-manager: upstream's command, with the
// providers of the HostConfiguration. It assembles each provider from the
// packages of the other wings.
package manager

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/config"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/tracing"
	"github.com/wasm-ccm/wasm-ccm/host/internal/manager/trials"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// Main runs the manager with the arguments of the command line until a signal
// ends it, and returns the exit code. With the hidden argument of
// compileCommand it compiles one module instead. Exit ends the process at once:
// upstream calls it after the loss of its lease.
func Main(ctx context.Context, newEngine NewEngine, args []string, exit func(code int)) int {
	if len(args) == 1 && args[0] == compileCommand {
		return compile.RunChild(ctx, os.Stdin, os.Stdout, func(name, cacheDir string) (engine.Engine, error) {
			return newEngine(name, cacheDir, false)
		})
	}
	work, cease := context.WithCancel(ctx)
	defer cease()
	command, m, err := newCommand(work, newEngine)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	command.SetArgs(args)
	// OpenTelemetry would print its own lines between those of the log.
	otel.SetErrorHandler(tracing.LogErrors(klog.Background().WithName("tracing")))
	atOnce := exitAfter(func() bool { return m.end(ctx) }, trials.LeaveTimeout, exit)
	klog.OsExit = atOnce
	defer onSignals(cease, func() { atOnce(1) })()
	code := cli.Run(command)
	exitAfter(func() bool { return m.shutDown(ctx) }, shutdownTimeout, exit)(code)
	return code
}

// exitAfter wraps the exit by which upstream ends the process after the loss of
// its lease or a controller's failure to start. That exit does not return from
// Run: without end, the modules on trial or serving would be blamed for it. End
// has a time limit, and reports whether the process ends in order.
func exitAfter(end func() bool, limit time.Duration, exit func(code int)) func(code int) {
	return func(code int) {
		done := make(chan bool, 1)
		go func() { done <- end() }()
		orderly := false
		select {
		case orderly = <-done:
		case <-time.After(limit):
		}
		if !orderly {
			// Invariant M43 (host/SECURITY.md): the kubelet tells the next
			// process of an exit with 0, and then nothing is blamed.
			code = max(code, 1)
		}
		exit(code)
	}
}

// newCommand returns the command, and the manager that it runs until the context
// ends.
func newCommand(ctx context.Context, newEngine NewEngine) (*cobra.Command, *controllerManager, error) {
	upstream, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, nil, fmt.Errorf("options of cloud-provider: %w", err)
	}
	upstream.KubeCloudShared.CloudProvider.Name = providerFlag
	// There are no webhooks. Upstream would still generate a key and a
	// certificate for them, a large part of the start time.
	upstream.WebhookServing.BindPort = 0

	ours := config.NewOptions()
	flags := cliflag.NamedFlagSets{}
	ours.AddFlags(flags.FlagSet("provider"))

	m := newManager(ctx, ours, newEngine)
	initCloud := func(c *ccmconfig.CompletedConfig) cloudprovider.Interface {
		if err := m.startServing(c); err != nil {
			klog.ErrorS(err, "The manager cannot start")
			startFailed(context.WithoutCancel(ctx), c, err)
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
		return m.cloud()
	}
	aliases := names.CCMControllerAliases()
	command := app.NewCloudControllerManagerCommand(upstream, initCloud,
		m.loops.Constructors(), aliases, flags, ctx.Done())
	command.PreRunE = func(*cobra.Command, []string) error {
		printVersion(command) // before required flags are checked
		return ours.Validate()
	}
	command.SilenceUsage = true
	return command, m, nil
}

// printVersion implements --version and ends the process. It prints this project's
// version; upstream would print its libraries', as --version=raw does.
func printVersion(command *cobra.Command) {
	if flag := command.Flags().Lookup("version"); flag != nil && flag.Value.String() == string(verflag.VersionTrue) {
		fmt.Println(version.Line(command.Name()))
		os.Exit(0)
	}
	verflag.PrintAndExitIfRequested()
}
