package devcluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// assets is where make puts the binaries, unless KUBEBUILDER_ASSETS is set.
func assets(t *testing.T) string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	dir, err := filepath.Abs("../../../build/bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStartWithoutAssets(t *testing.T) {
	_, err := devcluster.Start(devcluster.Options{AssetsDir: t.TempDir(), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "run make control-plane") {
		t.Errorf("Start = %v, want an error that says how to get the assets", err)
	}
}

func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{AssetsDir: assets(t), Dir: t.TempDir(), Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := kubernetes.NewForConfigOrDie(cluster.Config())
	t.Run("users have the rights that RBAC gives", func(t *testing.T) { testUser(t, cluster) })
	t.Run("tokens of ServiceAccounts work", func(t *testing.T) { testServiceAccount(t, cluster, admin) })
	t.Run("Services are dual-stack", func(t *testing.T) { testDualStack(t, admin) })
	t.Run("writes are counted by user", func(t *testing.T) { testWrites(t, cluster) })
}

func testUser(t *testing.T, cluster *devcluster.Cluster) {
	nobody := client(t)(cluster.UserKubeconfig("nobody"))
	if _, err := nobody.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("nobody lists nodes: %v, want forbidden", err)
	}
	master := client(t)(cluster.UserKubeconfig("master", "system:masters"))
	if _, err := master.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a member of system:masters lists nodes: %v", err)
	}
}

func testServiceAccount(t *testing.T, cluster *devcluster.Cluster, admin kubernetes.Interface) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	robot := client(t)(cluster.ServiceAccountKubeconfig(t.Context(), "default", "robot"))
	_, err := robot.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:robot") {
		t.Errorf("the ServiceAccount lists nodes: %v, want forbidden under its name", err)
	}
}

func testDualStack(t *testing.T, admin kubernetes.Interface) {
	policy := corev1.IPFamilyPolicyRequireDualStack
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "dual"}, Spec: corev1.ServiceSpec{
		IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}}}}
	got, err := admin.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ips := got.Spec.ClusterIPs; len(ips) != 2 || !strings.HasPrefix(ips[0], "10.96.") || !strings.HasPrefix(ips[1], "fd00:96::") {
		t.Errorf("cluster IPs %q, want one of 10.96.0.0/16 and one of fd00:96::/112", ips)
	}
}

func testWrites(t *testing.T, cluster *devcluster.Cluster) {
	writer := client(t)(cluster.UserKubeconfig("writer", "system:masters"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "written"}}
	if _, err := writer.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := writer.CoreV1().Nodes().Delete(t.Context(), "written", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := cluster.Writes("writer", "nodes", "services")
	want := []devcluster.Write{
		{User: "writer", Verb: "create", Resource: "nodes", Name: "written"},
		{User: "writer", Verb: "delete", Resource: "nodes", Name: "written"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Writes = %v, %v, want %v", got, err, want)
	}
	if got, err := cluster.Writes("writer", "services"); err != nil || len(got) != 0 {
		t.Errorf("Writes to services = %v, %v, want none", got, err)
	}
}

// client makes a client of a kubeconfig, as client(t)(cluster.UserKubeconfig(...)).
func client(t *testing.T) func(kubeconfig string, err error) kubernetes.Interface {
	return func(kubeconfig string, err error) kubernetes.Interface {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return kubernetes.NewForConfigOrDie(config)
	}
}
