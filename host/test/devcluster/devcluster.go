// Package devcluster starts a real etcd and kube-apiserver on loopback, for the
// demonstration and for tests: with RBAC, signed service account tokens and
// dual-stack Services, but without kube-controller-manager, scheduler and
// kubelets. So only the caller and the manager under test write.
package devcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The Service networks of the cluster, IPv4 first.
const serviceCIDRs = "10.96.0.0/16,fd00:96::/112"

// startTimeout bounds the start of etcd and of kube-apiserver, each.
const startTimeout = 60 * time.Second

// Options say where things are.
type Options struct {
	// AssetsDir holds etcd, kube-apiserver and kubectl (make control-plane). Empty
	// takes $KUBEBUILDER_ASSETS.
	AssetsDir string
	// Dir takes kubeconfigs, logs and the audit log. It must exist and outlive
	// the cluster.
	Dir string
	// Audit keeps an audit log of every request that writes; see Writes.
	Audit bool
}

// Cluster is a running control plane. It is safe for concurrent use.
type Cluster struct {
	env        *envtest.Environment
	options    Options
	kubeconfig string
	existing   bool
	logs       []*os.File
}

// Existing is the cluster of a kubeconfig. It starts and stops nothing, makes no
// users and has no audit log.
func Existing(kubeconfig string, options Options) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	existing := true
	c := &Cluster{options: options, existing: existing, env: &envtest.Environment{UseExistingCluster: &existing, Config: config}}
	c.kubeconfig, err = filepath.Abs(kubeconfig)
	return c, err
}

// Start starts a control plane and waits until it serves. The caller stops it.
func Start(options Options) (*Cluster, error) {
	// controller-runtime complains, with a stack, about a program that sets no
	// logger; what it logs here is in the errors as well.
	logf.SetLogger(logr.Discard())
	if options.AssetsDir == "" {
		options.AssetsDir = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if err := checkAssets(options.AssetsDir); err != nil {
		return nil, err
	}
	c := &Cluster{options: options}
	if err := c.configure(); err != nil {
		return nil, errors.Join(err, c.closeLogs())
	}
	if _, err := c.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane (logs in %s): %w", options.Dir, err), c.Stop())
	}
	var err error
	if c.kubeconfig, err = c.write("admin", c.env.Config); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// checkAssets says how to mend missing binaries.
func checkAssets(dir string) error {
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if dir == "" || err != nil || info.Mode()&0o111 == 0 {
			return fmt.Errorf("no %s in the assets directory %q: run make control-plane, or set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver and kubectl", name, dir)
		}
	}
	return nil
}

func (c *Cluster) configure() error {
	external := false
	c.env = &envtest.Environment{
		UseExistingCluster:       &external,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	server := c.env.ControlPlane.GetAPIServer()
	c.env.ControlPlane.Etcd = &envtest.Etcd{}
	c.env.ControlPlane.Etcd.Path = c.asset("etcd")
	c.env.ControlPlane.KubectlPath = c.asset("kubectl")
	server.Path = c.asset("kube-apiserver")

	args := server.Configure()
	args.Set("service-cluster-ip-range", serviceCIDRs)
	// A machine without a default route has no address to advertise, and
	// loopback is not a valid endpoint: so there is no endpoint.
	args.Set("advertise-address", "127.0.0.1")
	args.Set("endpoint-reconciler-type", "none")
	// Both put on objects what only kube-controller-manager would take away or
	// create: the default ServiceAccounts and the protection finalizers.
	args.Set("disable-admission-plugins", "ServiceAccount", "StorageObjectInUseProtection")
	if c.options.Audit {
		if err := c.configureAudit(args); err != nil {
			return err
		}
	}
	var err error
	if server.Err, err = c.log("kube-apiserver.log"); err != nil {
		return err
	}
	c.env.ControlPlane.Etcd.Err, err = c.log("etcd.log")
	return err
}

func (c *Cluster) log(name string) (*os.File, error) {
	f, err := os.Create(filepath.Join(c.options.Dir, name))
	if err != nil {
		return nil, fmt.Errorf("create the log of the control plane: %w", err)
	}
	c.logs = append(c.logs, f)
	return f, nil
}

func (c *Cluster) closeLogs() error {
	var errs []error
	for _, f := range c.logs {
		errs = append(errs, f.Close())
	}
	c.logs = nil
	return errors.Join(errs...)
}

func (c *Cluster) asset(name string) string { return filepath.Join(c.options.AssetsDir, name) }

// Config returns the administrator's client configuration; a copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.env.Config) }

// Kubectl returns the path of a kubectl that fits the cluster.
func (c *Cluster) Kubectl() string { return c.asset("kubectl") }

// Stop ends both processes and removes their data.
func (c *Cluster) Stop() error {
	return errors.Join(c.env.Stop(), c.closeLogs())
}

// ServerVersion asks the kube-apiserver, e.g. "v1.37.1".
func (c *Cluster) ServerVersion() (string, error) {
	client, err := kubernetes.NewForConfig(c.env.Config)
	if err != nil {
		return "", err
	}
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the kube-apiserver for its version: %w", err)
	}
	return info.GitVersion, nil
}
