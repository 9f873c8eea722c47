package deploy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// kubeReads is a provider with a grant of each kind, which chart/examples/kube.yaml
// has, too.
const kubeReads = `
providers:
- name: looking
  source: {configMap: {namespace: kube-system, name: cloud-provider-static}}
  kube:
    nodes: true
    services: ["*"]
    endpointSlices: [kube-system]
    configMaps: [{namespace: kube-system, name: example-settings}]
    secrets: [{namespace: kube-system, name: example-webhook}]
    annotations: [example.com/*]
    labels: [example.com/pool]
`

// The manager asks the API server for a provider's objects with the rights that
// the chart has made from its grants: for no other, and each of them is used. The
// guest asks for nothing itself.
func TestKubeRights(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	depend(t)
	testKubeRights(t, kubeReads, built(t, "onlooker.wasm"))
}

func testKubeRights(t *testing.T, with, module string) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := start(t, func(server *envtest.APIServer) {
		policy := filepath.Join(t.TempDir(), "policy.yaml")
		text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, userGroups: ['system:serviceaccounts']}]\n"
		if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", audit)
	})
	values := filepath.Join(t.TempDir(), "values.yaml")
	without, _, _ := strings.Cut(with, "  kube:")
	if err := os.WriteFile(values, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	c.install(t, values)
	before := granted(t, c, manager, namespace)
	if err := os.WriteFile(values, []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, configMapCommand(t, namespace, module)...)
	c.kubectl(t, "-n", namespace, "create", "configmap", "example-settings", "--from-literal=a=b")
	c.kubectl(t, "-n", namespace, "create", "secret", "generic", "example-webhook", "--from-literal=a=b")
	log := c.runManager(t, namespace, values)
	lookAround(t, c, log)

	seen := requestsIn(t, audit)
	for _, rule := range granted(t, c, manager, namespace) {
		if !slices.Contains(before, rule) {
			checkUsed(t, seen, rule)
		}
	}
	if !seen["service-controller services/status : patch"] {
		t.Error("nobody changed the Service as service-controller")
	}
	checkRights(t, log)
}

// checkUsed: each verb of a rule was used for each of its names.
func checkUsed(t *testing.T, seen map[string]bool, rule string) {
	t.Helper()
	what, verbs, _ := strings.Cut(rule, ": ")
	resource, names, _ := strings.Cut(what, " [")
	for _, name := range strings.Split(strings.TrimSuffix(names, "]"), " ") {
		for verb := range strings.FieldsSeq(verbs) {
			if !seen[manager+" "+resource+" "+name+": "+verb] {
				t.Errorf("granted to the manager and never used: %s of %s %s", verb, resource, name)
			}
		}
	}
	t.Logf("granted and used: %s", rule)
}

// lookAround has the provider read of each kind, and change its Service and its
// Node.
func lookAround(t *testing.T, c cluster, log string) {
	t.Helper()
	createNode(t, c)
	createService(t, c)
	for question, answer := range map[string]string{
		"read nodes": "m1", "read services": "default/web", "read endpointslices kube-system": "there are now",
		"read configmaps kube-system example-settings": "kube-system/example-settings", "read secrets kube-system example-webhook": "kube-system/example-webhook",
	} {
		ask(t, c, question)
		await(t, log, "the answer to "+question, func(ctx context.Context) (bool, error) {
			events, err := c.admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=Seen"})
			return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return strings.Contains(e.Message, " of "+strings.Fields(question)[1]) && strings.Contains(e.Message, answer)
			}), err
		})
	}
	ask(t, c, "annotate example.com/pool blue")
	await(t, log, "the Service is changed", func(ctx context.Context) (bool, error) {
		s, err := c.admin.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && s.Annotations["example.com/pool"] == "blue", err
	})
}

func ask(t *testing.T, c cluster, question string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"onlooker.example.com/ask": question}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.CoreV1().Services("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// requestsIn are the requests of ServiceAccounts in an audit log, in the words of
// rulesOf. One that was refused fails the test.
func requestsIn(t *testing.T, audit string) map[string]bool {
	t.Helper()
	f, err := os.Open(audit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			RequestURI     string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, Namespace, Name, APIGroup string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		account, ours := strings.CutPrefix(event.User.Username, "system:serviceaccount:"+namespace+":")
		if !ours {
			t.Errorf("a request of %s", event.User.Username)
		}
		// Whether there was a provider of the flags is asked without a right, on purpose (manager/removed.go).
		if event.ResponseStatus.Code == 403 && event.ObjectRef.Name != "wasm-ccm-provider-provider" {
			t.Errorf("refused: %s", lines.Bytes())
		}
		what := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		if event.ObjectRef.APIGroup != "" {
			what += "." + event.ObjectRef.APIGroup
		}
		for _, name := range []string{"", event.ObjectRef.Name} {
			seen[account+" "+what+" "+name+": "+event.Verb] = true
			if event.Verb == "watch" && strings.Contains(event.RequestURI, "sendInitialEvents=true") {
				seen[account+" "+what+" "+name+": list"] = true // which older API servers are asked for
			}
		}
	}
	if err := lines.Err(); err != nil || len(seen) == 0 {
		t.Fatalf("%d requests, %v", len(seen), err)
	}
	return seen
}
