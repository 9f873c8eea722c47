package deploy_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testCloudProviders runs the manager with a provider that is an object of
// another release, and no more rights than the chart gives. Helm waits for the
// object as Flux does, by kstatus.
func testCloudProviders(t *testing.T, c cluster) {
	values := valuesFile(t, "{providers: [], cloudProviders: {enabled: true, rights: [{name: static}]}}")
	c.install(t, values) // what the values had before goes
	c.kubectl(t, "delete", "node", "m1", "--ignore-not-found")
	c.kubectl(t, "-n", namespace, "delete", "configmap", "-l", "app.kubernetes.io/managed-by=wasm-ccm", "--ignore-not-found")
	c.kubectl(t, "-n", namespace, "delete", "configmap", "cloud-provider-static", "--ignore-not-found")
	c.kubectl(t, configMapCommand(t, namespace, built(t, "static.wasm"))...)
	c.kubectl(t, "-n", namespace, "create", "configmap", "cloud-provider-static-config", "--from-file=config.yaml")
	t.Run("it serves", func(t *testing.T) { testCloudProviderServes(t, c, values) })

	// It goes while there is no manager, and nothing is configured any more that
	// would name it.
	c.helm(t, "uninstall", "provider")
	log := c.runManager(t, namespace, values)
	await(t, log, "the provider is removed", func(ctx context.Context) (bool, error) {
		status, err := c.admin.CoreV1().ConfigMaps(namespace).Get(ctx, "wasm-ccm-provider-static", metav1.GetOptions{})
		return err == nil && status.Labels["wasm-ccm.dev/phase"] == "Removed", err
	})
	checkRights(t, log)
}

func testCloudProviderServes(t *testing.T, c cluster, values string) {
	log := c.runManager(t, namespace, values)

	wait := func(more string) error {
		_, err := c.tryHelm(t, "upgrade", "--install", "--wait", "--timeout=1m", "provider", chartOf(t, more))
		return err
	}
	if err := wait("  rollout: {observePeriod: 1s}\n"); err != nil {
		t.Fatalf("%v\n%s\n%s", err, c.kubectl(t, "get", "cloudprovider", "static", "-o", "yaml"), readLog(log))
	}
	if got := string(c.kubectl(t, "get", "cloudproviders")); !strings.Contains(got, " Kept ") {
		t.Errorf("Helm did not wait for the end:\n%s", got)
	}
	createNode(t, c)
	await(t, log, "the node is initialised", func(ctx context.Context) (bool, error) {
		node, err := c.admin.CoreV1().Nodes().Get(ctx, "m1", metav1.GetOptions{})
		return err == nil && initialised(node), err
	})
	// Who misspells what restricts a provider hears of it, and not after a minute.
	if err := wait("  provenanse: {}\n"); err == nil || !strings.Contains(err.Error(), "status: Failed") || !strings.Contains(err.Error(), "provenanse") {
		t.Errorf("a field that does not exist: %v", err)
	}
	c.kubectl(t, "wait", "--for=condition=Ready", "cloudprovider/static", "--timeout=1s")
	checkRights(t, log)
}

// chartOf is a chart with the CloudProvider of the README, which says more.
func chartOf(t *testing.T, more string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	object, err := os.ReadFile("cloudprovider.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"Chart.yaml":                   "{apiVersion: v2, name: provider, version: 0.1.0}",
		"templates/cloudprovider.yaml": string(object) + more,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
