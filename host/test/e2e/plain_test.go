package e2e

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/fake"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"          // as k8s.io/cloud-provider/sample has it
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as k8s.io/cloud-provider/sample has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as k8s.io/cloud-provider/sample has it
)

// asPlainManager in the environment makes the test's binary a plain manager.
const asPlainManager = "E2E_PLAIN_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asPlainManager) != "" {
		os.Exit(plainManager())
	}
	os.Exit(m.Run())
}

// plainManager is upstream's sample: the command of the same library, with
// nothing of ours, over a cloud that is made up.
func plainManager() int {
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o.KubeCloudShared.CloudProvider.Name = "fake"
	cloud := func(*ccmconfig.CompletedConfig) cloudprovider.Interface {
		return &fake.Cloud{EnableInstancesV2: true, ExistsByProviderID: true}
	}
	return cli.Run(app.NewCloudControllerManagerCommand(o, cloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop))
}
