package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// cleanUpLimit bounds the removal of what the show created.
const cleanUpLimit = 30 * time.Second

// stage is where the show takes place: a cluster, the names in it, and the
// manager.
type stage struct {
	options    options
	show       *show
	config     *rest.Config
	client     kubernetes.Interface
	cluster    *devcluster.Cluster // nil for an existing cluster
	kubeconfig string
	manager    *manager
	// prefix begins the names of cluster-wide objects. Empty in a new cluster.
	prefix string
	// system is the namespace of the manager's objects, namespace the user's.
	system, namespace string
	// before is what the replacement of the module must leave alone.
	before serviceState
}

func newStage(ctx context.Context, o options, s *show) (*stage, error) {
	st := &stage{options: o, show: s, system: "kube-system", namespace: "default",
		manager: newManager(filepath.Join(o.build, "cloud-controller-manager"), o.dir)}
	open := st.openNew
	if o.kubeconfig != "" {
		open = st.openExisting
	}
	if err := open(ctx); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// openNew starts a control plane.
func (st *stage) openNew(ctx context.Context) error {
	st.show.step("starting etcd and kube-apiserver on loopback")
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(st.options.build, "bin")
	}
	var err error
	if st.cluster, err = devcluster.Start(devcluster.Options{AssetsDir: assets, Dir: st.options.dir}); err != nil {
		return err
	}
	st.config = st.cluster.Config()
	st.kubeconfig = filepath.Join(st.options.dir, "kubeconfig")
	if err := st.cluster.AdminKubeconfig(st.kubeconfig); err != nil {
		return err
	}
	version, err := st.cluster.ServerVersion()
	if err != nil {
		return err
	}
	st.show.fact("kube-apiserver", version+" at "+st.config.Host)
	return st.connect()
}

// openExisting takes the cluster of the kubeconfig and a namespace of its own
// in it.
func (st *stage) openExisting(ctx context.Context) error {
	st.show.step("using the cluster of %s", st.options.kubeconfig)
	var err error
	if st.config, err = clientcmd.BuildConfigFromFlags("", st.options.kubeconfig); err != nil {
		return fmt.Errorf("KUBECONFIG: %w", err)
	}
	st.kubeconfig = st.options.kubeconfig
	if err := st.connect(); err != nil {
		return err
	}
	if err := st.refuseForeignServices(ctx); err != nil {
		return err
	}
	name := "wasm-ccm-demo-" + rand.String(5)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := st.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	st.prefix, st.system, st.namespace = name+"-", name, name
	st.show.fact("namespace", name+", and the prefix of all names; removed at the end")
	return nil
}

func (st *stage) connect() (err error) {
	st.client, err = kubernetes.NewForConfig(st.config)
	return err
}

// refuseForeignServices keeps the show from taking over load balancers: the
// service controller cares for every Service that has no class.
func (st *stage) refuseForeignServices(ctx context.Context) error {
	services, err := st.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil {
			return fmt.Errorf("the cluster has the Service %s/%s of type LoadBalancer without a loadBalancerClass, which the show's manager would take over: use a cluster without such Services, or none (unset KUBECONFIG)", s.Namespace, s.Name)
		}
	}
	return nil
}

// name gives the name of a cluster-wide object.
func (st *stage) name(base string) string { return st.prefix + base }

// close ends the manager, removes what the show created, and stops the control
// plane that it started.
func (st *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpLimit)
	defer cancel()
	if st.cluster != nil {
		return errors.Join(st.manager.stop(), st.cluster.Stop())
	}
	if st.prefix == "" {
		return st.manager.stop()
	}
	// The Service goes while the manager lives, who takes its finalizer away.
	err := errors.Join(st.deleteService(ctx), st.manager.stop())
	core, all := st.client.CoreV1(), metav1.DeleteOptions{}
	for _, n := range st.nodes() {
		err = errors.Join(err, ignoreNotFound(core.Nodes().Delete(ctx, n.name, all)))
	}
	err = errors.Join(err, ignoreNotFound(core.PersistentVolumes().Delete(ctx, st.name(volumeName), all)))
	return errors.Join(err, ignoreNotFound(core.Namespaces().Delete(ctx, st.system, all)))
}

func (st *stage) deleteService(ctx context.Context) error {
	services := st.client.CoreV1().Services(st.namespace)
	if err := services.Delete(ctx, serviceName, metav1.DeleteOptions{}); err != nil {
		return ignoreNotFound(err)
	}
	return st.show.expect(ctx, "clean up", cleanUpLimit, []expectation{{
		subject: "service " + serviceName, waiting: "its finalizer is taken away",
		look: func(ctx context.Context) (string, error) {
			if _, err := services.Get(ctx, serviceName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return "deleted", nil
			}
			return "", nil
		},
	}})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// invite says what to do with the cluster now.
func (st *stage) invite() {
	kubectl := filepath.Join(st.options.build, "bin", "kubectl") + " --kubeconfig " + st.kubeconfig
	st.show.step("it stays up until Ctrl-C; try")
	st.show.note("  %s get nodes,svc,pv -L topology.kubernetes.io/zone", kubectl)
	st.show.note("  %s -n %s get events --field-selector involvedObject.name=%s", kubectl, st.system, configMapName)
	st.show.note("  %s -n %s get configmap -l wasm-ccm.dev/provider -L wasm-ccm.dev/phase,wasm-ccm.dev/version,wasm-ccm.dev/since", kubectl, st.system)
	st.show.note("  %s -n %s create service loadbalancer another --tcp=80", kubectl, st.namespace)
	st.show.note("  %s -n %s edit configmap %s    # the inventory", kubectl, st.system, configMapName)
	st.show.note("  tail -f %s", st.manager.logPath())
}
