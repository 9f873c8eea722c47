// Command native is upstream's cloud-controller-manager, unmodified, with a provider
// that is compiled in: of the cloud that guests/faulty asks with count=URL
// (guests/faulty/cloud.go), with the same requests for each op. The end-to-end tests
// run it beside this project's manager.
//
//	native --cloud-provider=native --cloud-config=FILE [flag...]
//
// FILE has the line count=URL.
package main

import (
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

const name = "native"

func main() {
	cloudprovider.RegisterCloudProvider(name, func(config io.Reader) (cloudprovider.Interface, error) { return newCloud(config) })
	all, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(all, provider, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func provider(completed *config.CompletedConfig) cloudprovider.Interface {
	flags := completed.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(flags.Name, flags.CloudConfigFile)
	if err != nil || cloud == nil {
		klog.Fatalf("provider %q: %v", flags.Name, err)
	}
	return cloud
}
