package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// objects makes what testdata/objects has, as new objects:
//
//	objects services   its Services, in the script's namespace
//	objects nodes      its Nodes, which become servers of the account a of the
//	                   cloud, if that is started
func (h *harness) objects(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "objects services|nodes")
	switch args[0] {
	case "services":
		for _, s := range objects.Services(failing{ts: ts}) {
			_, err := h.client.CoreV1().Services(h.namespace).Create(context.Background(), objects.NewService(s, h.namespace), metav1.CreateOptions{})
			ts.Check(err)
		}
	case "nodes":
		for _, n := range objects.Nodes(failing{ts: ts}) {
			if h.cloud != nil {
				h.cloud.account("a").addServer(n.Name)
			}
			node := objects.NewNode(n)
			delete(node.Annotations, cloudproviderapi.AnnotationAlphaProvidedIPAddr) // the servers have other addresses
			_, err := h.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
			ts.Check(err)
		}
	default:
		ts.Fatalf("objects %s: unknown", args[0])
	}
}

// failing fails a script.
type failing struct {
	testing.TB
	ts *testscript.TestScript
}

func (failing) Helper() {}

func (f failing) Fatal(args ...any) { f.ts.Fatalf("%s", fmt.Sprint(args...)) }

// addressesOfServices is the part of kube-apiserver that looks after the cluster
// IPs of Services, and warns when it finds one between two writes of its own.
const addressesOfServices = "ipallocator-repair-controller"

// warnings prints the Warning Events of the script's objects and of Nodes, one
// in a line, or nothing:
//
//	warnings
func (h *harness) warnings(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "warnings")
	out := ts.Stdout() // also empties it
	nodes, err := h.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	ts.Check(err)
	uids := map[types.UID]bool{} // those of other scripts had the same names
	for i := range nodes.Items {
		uids[nodes.Items[i].UID] = true
	}
	for _, namespace := range []string{h.namespace, metav1.NamespaceDefault} {
		events, err := h.client.CoreV1().Events(namespace).List(context.Background(), metav1.ListOptions{})
		ts.Check(err)
		for _, e := range events.Items {
			if e.ReportingController == addressesOfServices || e.Source.Component == addressesOfServices {
				continue
			}
			if e.Type == corev1.EventTypeWarning && (namespace == h.namespace || uids[e.InvolvedObject.UID]) {
				fmt.Fprintf(out, "%d %s %s %s: %s\n", max(e.Count, 1), e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
			}
		}
	}
}
