// Command cloud-controller-manager runs Kubernetes' cloud control loops over a
// provider that is a WebAssembly module.
//
// It chooses the manager's available engines.
package main

import (
	"context"
	"os"

	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // for the metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // for the metric with the version

	"github.com/wasm-ccm/wasm-ccm/host/internal/manager"
)

func main() {
	os.Exit(manager.Main(context.Background(), newEngine, os.Args[1:], os.Exit))
}
