package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/wasm-ccm/wasm-ccm/testdata/objects"
)

// kubectl runs kubectl as the administrator in the script's namespace. Its
// output is that of the command (stdout, stderr, cmp stdout).
//
//	[!] kubectl ARG...
func (h *harness) kubectl(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(h.cluster.Kubectl(), append([]string{"--namespace=" + h.namespace}, args...)...)
	switch {
	case neg && err == nil:
		ts.Fatalf("kubectl succeeded")
	case !neg:
		ts.Check(err)
	}
}

// waitfor runs kubectl again and again until its whole output, trimmed,
// matches, or until it fails with an error that matches:
//
//	[!] waitfor [-t DURATION] REGEXP KUBECTL-ARG...
func (h *harness) waitfor(ts *testscript.TestScript, neg bool, args []string) {
	limit := patience
	if len(args) > 2 && args[0] == "-t" {
		var err error
		limit, err = time.ParseDuration(args[1])
		ts.Check(err)
		limit, args = slowly(limit), args[2:]
	}
	usage(ts, len(args) >= 2, "[!] waitfor [-t DURATION] REGEXP KUBECTL-ARG...")
	if neg {
		h.waitForError(ts, limit, args[0], args[1:])
		return
	}
	h.waitForOutput(ts, limit, args[0], args[1:])
}

func (h *harness) waitForOutput(ts *testscript.TestScript, limit time.Duration, pattern string, args []string) (out string) {
	re, err := regexp.Compile(`^(?s:` + pattern + `)$`)
	ts.Check(err)
	await(ts, limit, fmt.Sprintf("kubectl %q answers %q", args, pattern), func() (bool, string) {
		var err error
		out, err = h.query(ts, args)
		return err == nil && re.MatchString(out), fmt.Sprint(out, err)
	})
	return out
}

func (h *harness) waitForError(ts *testscript.TestScript, limit time.Duration, pattern string, args []string) {
	re := compile(ts, pattern)
	await(ts, limit, fmt.Sprintf("kubectl %q fails with %q", args, pattern), func() (bool, string) {
		out, err := h.query(ts, args)
		return err != nil && re.MatchString(err.Error()), fmt.Sprint(out, err)
	})
}

func (h *harness) query(ts *testscript.TestScript, args []string) (string, error) {
	cmd := exec.Command(h.cluster.Kubectl(), append([]string{"--namespace=" + h.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	cmd.Dir = ts.MkAbs(".")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// node plays the kubelet:
//
//	node create NAME PODCIDR   registers a Node that waits for its cloud provider
//	node ready NAME            reports that it is well
//	node notready NAME         reports that it is not
func (h *harness) node(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "node create NAME PODCIDR | node ready|notready NAME")
	switch args[0] {
	case "create":
		usage(ts, len(args) == 3, "node create NAME PODCIDR")
		h.createNode(ts, args[1], args[2])
		h.setReady(ts, args[1], corev1.ConditionTrue)
	case "ready":
		h.setReady(ts, args[1], corev1.ConditionTrue)
	case "notready":
		h.setReady(ts, args[1], corev1.ConditionFalse)
	default:
		ts.Fatalf("node %s: unknown", args[0])
	}
}

func (h *harness) createNode(ts *testscript.TestScript, name, podCIDR string) {
	node := joining(failing{ts: ts}, name)
	node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	_, err := h.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
	ts.Check(err)
}

// joining is a Node as kubeadm join registers it, with the taint, and without a
// pod network. Its addresses are up to the cloud.
func joining(t testing.TB, name string) *corev1.Node {
	node := objects.NewNode(objects.Nodes(t)["kubeadm-joining.yaml"])
	delete(node.Annotations, cloudproviderapi.AnnotationAlphaProvidedIPAddr)
	node.Name, node.Labels[corev1.LabelHostname] = name, name
	node.Spec.PodCIDR, node.Spec.PodCIDRs, node.Status.Addresses = "", nil, nil
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = "", "" // of one machine
	return node
}

func (h *harness) setReady(ts *testscript.TestScript, name string, status corev1.ConditionStatus) {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Script","message":"set by the script","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, status, now, now)
	_, err := h.client.CoreV1().Nodes().Patch(context.Background(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	ts.Check(err)
}

// event waits for an Event on the module's ConfigMap whose message matches; its
// count and message become the stdout:
//
//	event REASON REGEXP
func (h *harness) event(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "event REASON REGEXP")
	re := compile(ts, args[1])
	what := fmt.Sprintf("Event %s with %q", args[0], args[1])
	await(ts, patience, what, func() (bool, string) {
		events, err := h.client.CoreV1().Events(h.namespace).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ConfigMap"})
		if err != nil {
			return false, err.Error()
		}
		var seen strings.Builder
		for _, e := range events.Items {
			fmt.Fprintf(&seen, "%s %s %s\n", e.Type, e.Reason, e.Message)
			if e.Reason == args[0] && re.MatchString(e.Message) {
				fmt.Fprintf(ts.Stdout(), "%s %d %s\n", e.Type, max(e.Count, 1), e.Message)
				return true, ""
			}
		}
		return false, seen.String()
	})
}

// writes prints, by the audit log, what a manager asked to change of the given
// resources since it started, one request per line, or nothing:
//
//	writes NAME RESOURCE...
func (h *harness) writes(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "writes NAME RESOURCE...")
	writes, err := h.cluster.Writes(h.manager(ts, args[0]).user, args[1:]...)
	ts.Check(err)
	out := ts.Stdout() // also empties it
	for _, w := range writes {
		fmt.Fprintln(out, w)
	}
}
