// Command cloud-controller-manager runs Kubernetes' cloud control loops over a
// provider that is a WebAssembly module.
//
// It wires the packages of the host together, and may import all of them.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // for the metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // for the metric with the version
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/compile"
	"github.com/wasm-ccm/wasm-ccm/host/config"
)

// providerFlag is the default of --cloud-provider, which upstream requires.
// It selects nothing here: the module says which cloud it is.
const providerFlag = "wasm"

func main() {
	if len(os.Args) == 2 && os.Args[1] == compileCommand {
		os.Exit(compile.RunChild(context.Background(), os.Stdin, os.Stdout, newCompiler))
	}
	command, m, err := newCommand()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	end := context.Background()
	klog.OsExit = exitAfter(func() { m.end(end) }, leaveTimeout, os.Exit)
	code := cli.Run(command)
	exitAfter(func() { m.shutDown(end) }, shutdownTimeout, os.Exit)(code)
}

// exitAfter is how upstream ends the process when it has lost its lease or
// cannot start a controller. It says why and does not return from Run: without
// end, what was on trial, or served, would be blamed for it. End gets this long.
func exitAfter(end func(), limit time.Duration, exit func(code int)) func(code int) {
	return func(code int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			end()
		}()
		select {
		case <-done:
		case <-time.After(limit):
		}
		exit(code)
	}
}

// newCommand returns the command, and the manager that it runs.
func newCommand() (*cobra.Command, *manager, error) {
	upstream, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, nil, fmt.Errorf("options of cloud-provider: %w", err)
	}
	upstream.KubeCloudShared.CloudProvider.Name = providerFlag

	ours := config.NewOptions()
	flags := cliflag.NamedFlagSets{}
	ours.AddFlags(flags.FlagSet("provider"))

	ctx := genericapiserver.SetupSignalContext()
	m := newManager(ours)
	initCloud := func(c *ccmconfig.CompletedConfig) cloudprovider.Interface {
		if err := m.start(ctx, c); err != nil {
			klog.ErrorS(err, "The manager cannot start")
			startFailed(context.WithoutCancel(ctx), c, err)
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
		return m.cloud(ctx)
	}
	aliases := names.CCMControllerAliases()
	command := app.NewCloudControllerManagerCommand(upstream, initCloud,
		m.loopStopper.ConstructorsFor(m.loops), aliases, flags, ctx.Done())
	command.PreRunE = func(*cobra.Command, []string) error {
		verflag.PrintAndExitIfRequested() // before what is missing is asked for
		return ours.Validate()
	}
	command.SilenceUsage = true
	return command, m, nil
}
