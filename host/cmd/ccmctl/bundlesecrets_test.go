package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	config "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/config/validation"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// plantedSecrets have the shapes of secrets that people put in the wrong place.
// Each contains one of plantedValues.
var plantedSecrets = []string{
	"q7Zk", "x9Qw!", "8471390", "[Global]\npassword = Tr0ub4dor\n", "a: 1\n---\npin: 5519277\n---\nnote: staple-horse\n",
	`{"password": "j5Nq2"}`, `{"auths":{"r.example.com":{"auth":"` + dockerAuth + `"}}}`, "https://me:h0p-userinfo@h.example.com/b8Kd-path?sig=c4Vr-query",
	"Authorization: Bearer m2Xs-bearer", "password=g6Tn-pair", "the code is w3Lf, thanks", "-----BEGIN PRIVATE KEY-----\ne1Yb\n-----END PRIVATE KEY-----",
}

var dockerAuth = base64.StdEncoding.EncodeToString([]byte("me:d0cker"))

var plantedValues = []string{
	"q7Zk", "x9Qw!", "8471390", "Tr0ub4dor", "5519277", "staple-horse", "j5Nq2", dockerAuth, "d0cker", "h0p-userinfo", "b8Kd", "c4Vr", "m2Xs", "g6Tn", "w3Lf", "e1Yb",
}

// everything is all of them in one text.
func everything() string { return strings.Join(plantedSecrets, "\n") }

// In a cluster with secrets of many shapes in every possible text, a bundle
// without free texts contains none.
func TestABundleHasNoPlantedSecret(t *testing.T) {
	files := bundled(t)
	for name, data := range files {
		for _, secret := range plantedValues {
			if strings.Contains(data, secret) {
				t.Errorf("%s has %s:\n%s", name, secret, data)
			}
		}
	}
	for name, want := range map[string]string{
		"configuration.json": `"host": "api.example.com"`, "cloudproviders.json": `"name": "second"`, "providers.json": `"phase": "Kept"`,
		"workloads.json": `"name": "--password"`, "pods.json": `"reason": "CrashLoopBackOff"`, "nodes.json": `"providerID": "mycloud:///a/i-1"`,
		"services.json": `"example.com/note"`, "events.json": `"reason": "SyncLoadBalancerFailed"`, "findings.json": `"reason": "`, "status.json": `"phase": "Kept"`,
		"why.json": `"cause": "Refused"`, "calls.json": `"path": "/v1/lb/*"`, "reachability.json": `"result": "NotConnected"`, "lease.json": `"holderIdentity": "manager-0_uid"`,
		"versions.json": `"kubernetes": "v1.35.0"`, "metrics.txt": `wasm_ccm_provider_generation{provider="a"} 7`, "README.md": "Messages, logs and configurations",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %s:\n%s", name, want, files[name])
		}
	}
	if strings.Contains(files["README.md"], "It has free text") {
		t.Error("the index says that there is free text")
	}
}

// With the flags a bundle has free texts, in a directory of their own, without
// detectable secrets, and its index says so.
func TestABundleSaysThatItHasFreeText(t *testing.T) {
	for flag, want := range map[string]string{
		"--log-lines=9":    "",
		"--logs":           "logs/manager-0_manager.log logs/manager-0_manager.previous.log",
		"--messages":       "events.txt findings.txt reachability.txt status.txt why.txt",
		"--configurations": "configurations/a_config.yaml.txt hostconfiguration.txt",
	} {
		var free []string
		for _, name := range slices.Sorted(maps.Keys(bundled(t, flag))) {
			if name, is := strings.CutPrefix(name, freeDirectory); is {
				free = append(free, name)
			}
		}
		if got := strings.Join(free, " "); got != want {
			t.Errorf("%s adds %s, want %s", flag, got, want)
		}
	}
	files := bundled(t, "--logs", "--messages", "--configurations")
	for name, data := range files {
		for _, secret := range []string{"q7Zk", "8471390", "Tr0ub4dor", "5519277", "j5Nq2", "d0cker", "h0p-userinfo", "e1Yb"} {
			if strings.Contains(data, secret) {
				t.Errorf("%s has %s:\n%s", name, secret, data)
			}
		}
		if free := strings.HasPrefix(name, freeDirectory); !free && strings.Contains(data, "thanks") {
			t.Errorf("%s has free text:\n%s", name, data)
		}
	}
	if want := "- the configuration that the manager of --server runs with: configuration.json is that of the ConfigMap kube-system/cloud-controller-manager"; !strings.Contains(files["README.md"], want) {
		t.Errorf("the index does not say whose configuration it is:\n%s", files["README.md"])
	}
	if !strings.Contains(files["README.md"], "## It has free text") {
		t.Errorf("the index does not say it:\n%s", files["README.md"])
	}
}

// bundled are the files of a bundle of the cluster with the secrets.
func bundled(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	b := bench{dir: t.TempDir()}
	cluster, manager := httptest.NewServer(leakyCluster(t)), httptest.NewTLSServer(leakyManager(t))
	t.Cleanup(cluster.Close)
	t.Cleanup(manager.Close)
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: cluster.URL}}, Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(kubeconfig, b.path("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	token := b.write(t, "token", []byte("m2Xs-bearer"))
	out, err := ccmctl(append([]string{"bundle", "-o", "-", "--kubeconfig", b.path("kubeconfig"), "--server", manager.URL, "--token-file", token, "--insecure-skip-tls-verify"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(filepath.ToSlash(h.Name), "/")
		files[name] = string(data)
	}
}

// answers serves each path's object as JSON, a string unchanged, and empty unknown lists.
func answers(t *testing.T, objects map[string]any) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, found := objects[r.URL.Path]
		if text, plain := object.(string); plain {
			_, _ = io.WriteString(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusForbidden)
			object = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: everything()}
		}
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	})
}

// leaky is an object's metadata with secrets.
func leaky(namespace, name string) metav1.ObjectMeta {
	notes := map[string]string{"example.com/note": everything(), "wasm-ccm.dev/pause": "w3Lf"}
	for i, secret := range plantedSecrets {
		notes["example.com/note-"+string(rune('a'+i))] = secret
	}
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: notes, Labels: map[string]string{"example.com/pin": "8471390", "app.kubernetes.io/name": managerName, "wasm-ccm.dev/phase": "Kept"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "q7Zk", FieldsV1: metav1.NewFieldsV1(`{"q7Zk":{}}`)}},
	}
}

func leakyPodSpec() corev1.PodSpec {
	arguments := []string{"--v=2", "--password=q7Zk", "--token", "x9Qw!", "8471390", "-pg6Tn"}
	environment := []corev1.EnvVar{}
	for _, secret := range plantedSecrets {
		arguments = append(arguments, "--value="+secret, secret)
		environment = append(environment, corev1.EnvVar{Name: "TOKEN", Value: secret})
	}
	return corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{
		Name: "manager", Image: "example.com/manager:v1", Command: arguments, Args: arguments, Env: environment,
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/b8Kd", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "m2Xs"}}}}},
	}}}
}

func leakyConditions() []metav1.Condition {
	return []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Refused", Message: everything()}}
}

// leakyConfiguration is a HostConfiguration with a secret in every possible text.
func leakyConfiguration(t *testing.T) string {
	t.Helper()
	secret := config.Reference{Namespace: "kube-system", Name: "cloud"}
	document := config.HostConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: config.APIVersion, Kind: config.Kind},
		Providers: []config.Provider{{
			Name: "a", Source: config.Source{ConfigMap: &config.Reference{Namespace: "kube-system", Name: "module"}},
			Grants: []config.Grant{{Host: "api.example.com", PathPrefix: "/b8Kd/8471390/", Credentials: []string{"header", "signed", "login", "oauth"}}},
			Credentials: []config.Credential{
				{Name: "header", Secret: secret, Header: &config.HeaderCredential{Header: "X-Key", Prefix: "m2Xs-bearer "}},
				{Name: "signed", Secret: secret, Signer: &config.SignerCredential{Source: config.Source{ConfigMap: &config.Reference{Namespace: "kube-system", Name: "signer"}}, Config: everything()}},
				{Name: "login", Secret: secret, BodyTemplate: &config.BodyTemplate{
					Placeholder: "placeholder-g6Tn", Path: "/b8Kd", ContentType: "application/json", Headers: map[string]string{"X-Pin": "8471390"}, Body: `{"password": "$(password)", "pin": "8471390", "note": "j5Nq2"}`,
				}},
				{Name: "oauth", Secret: secret, OAuth2ClientCredentials: &config.OAuth2Credential{Token: config.Endpoint{URL: "https://login.example.com/b8Kd/token"}, Scopes: []string{"w3Lf"}, Audience: "w3Lf"}},
			},
		}},
	}
	data, err := yaml.Marshal(document)
	if err == nil {
		_, err = validation.Decode(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func leakyCluster(t *testing.T) http.Handler {
	t.Helper()
	const own, core, apps = "/namespaces/kube-system/", "/api/v1", "/apis/apps/v1"
	written := leakyConfiguration(t)
	file := corev1.ConfigMap{ObjectMeta: leaky("kube-system", managerName), Data: map[string]string{"config.yaml": written, "other": everything()}}
	state := corev1.ConfigMap{ObjectMeta: leaky("kube-system", "wasm-ccm-provider-a"), Data: map[string]string{
		"status": "phase: Kept\nmessage: the code is w3Lf\nnew: w3Lf\n", "record": everything(),
	}}
	running := corev1.Pod{ObjectMeta: leaky("kube-system", "manager-0"), Spec: leakyPodSpec(), Status: corev1.PodStatus{
		Phase: corev1.PodRunning, Message: everything(), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", Reason: "ContainersNotReady", Message: everything()}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "manager", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: everything()}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: everything()}},
		}},
	}}
	machine := corev1.Node{ObjectMeta: leaky("", "node-1"), Spec: corev1.NodeSpec{
		ProviderID: "mycloud:///a/i-1", Taints: []corev1.Taint{{Key: "example.com/pin", Value: "8471390", Effect: corev1.TaintEffectNoSchedule}},
	}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "False", Reason: "KubeletNotReady", Message: everything()}}}}
	web := corev1.Service{
		ObjectMeta: leaky("default", "web"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"pin": "8471390"}, ExternalName: "w3Lf", LoadBalancerSourceRanges: []string{"w3Lf"}},
		Status: corev1.ServiceStatus{Conditions: leakyConditions()},
	}
	told := corev1.Event{
		ObjectMeta: leaky("default", "web.1"), Type: corev1.EventTypeWarning, Reason: "SyncLoadBalancerFailed", Message: everything(),
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
	}
	set := appsv1.DaemonSet{ObjectMeta: leaky("kube-system", managerName), Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: leaky("", ""), Spec: leakyPodSpec()}}}
	set.Status.Conditions = []appsv1.DaemonSetCondition{{Type: "x", Message: everything()}}
	secret := corev1.Secret{ObjectMeta: leaky("kube-system", "cloud"), Data: map[string][]byte{"q": []byte("q7Zk"), "n": []byte("8471390"), "ini": []byte("[Global]\npassword = Tr0ub4dor\n"), "yaml": []byte(plantedSecrets[4]), "json": []byte(plantedSecrets[5]), "docker": []byte(plantedSecrets[6])}}
	who := "manager-0_uid"
	return answers(t, map[string]any{
		"/version":                               version.Info{Major: "1", Minor: "35", GitVersion: "v1.35.0", BuildDate: "x9Qw!"},
		core + own + "configmaps":                corev1.ConfigMapList{Items: []corev1.ConfigMap{state}},
		core + own + "configmaps/" + managerName: file,
		core + own + "configmaps/module":         corev1.ConfigMap{ObjectMeta: leaky("kube-system", "module"), Data: map[string]string{"config.yaml": everything()}},
		core + own + "secrets/cloud":             secret,
		core + own + "pods":                      corev1.PodList{Items: []corev1.Pod{running}},
		core + own + "pods/manager-0/log":        everything() + "\n",
		core + "/pods":                           corev1.PodList{Items: []corev1.Pod{running}},
		core + "/nodes":                          corev1.NodeList{Items: []corev1.Node{machine}},
		core + "/services":                       corev1.ServiceList{Items: []corev1.Service{web}},
		core + "/events":                         corev1.EventList{Items: []corev1.Event{told}},
		apps + own + "daemonsets":                appsv1.DaemonSetList{Items: []appsv1.DaemonSet{set}},
		apps + own + "deployments":               appsv1.DeploymentList{},
		apps + own + "daemonsets/" + managerName: set,
		"/apis/coordination.k8s.io/v1" + own + "leases/" + managerName: coordinationv1.Lease{ObjectMeta: leaky("kube-system", managerName), Spec: coordinationv1.LeaseSpec{HolderIdentity: &who}},
		"/apis/config.wasm-ccm.dev/v1alpha1/cloudproviders": map[string]any{
			"apiVersion": config.APIVersion, "kind": "CloudProviderList", "metadata": map[string]any{},
			"items": []any{map[string]any{
				"apiVersion": config.APIVersion, "kind": config.CloudProviderKind, "metadata": leaky("", "second"), "spec": map[string]any{"source": map[string]any{"password": "q7Zk"}},
				"status": map[string]any{"phase": "Kept", "message": everything(), "conditions": leakyConditions(), "new": "w3Lf"},
			}},
		},
	})
}

func leakyManager(t *testing.T) http.Handler {
	t.Helper()
	stuck := v1alpha1.Explanation{
		TypeMeta: metav1.TypeMeta{Kind: "Explanation"}, Object: v1alpha1.Object{Kind: v1alpha1.KindService, Namespace: "default", Name: "web"}, State: v1alpha1.StateStuck, Cause: "Refused",
		Message: everything(), WaitsFor: everything(), Asked: &v1alpha1.Op{Name: "lb_ensure", Code: "invalid", Message: everything()},
		Next: []v1alpha1.Step{{What: everything(), Command: "kubectl annotate x=w3Lf"}}, Also: []v1alpha1.Finding{{Cause: "BackedOff", Message: everything()}},
	}
	latest := v1alpha1.ObjectOp{Object: stuck.Object, Op: *stuck.Asked}
	return answers(t, map[string]any{
		v1alpha1.StatusPath: v1alpha1.Status{Providers: []v1alpha1.Provider{{
			Name: "a", Phase: "Kept", Message: everything(), Conditions: leakyConditions(), Loops: []v1alpha1.Loop{{Name: "service-lb-controller", Reason: everything()}},
			Latest: &latest, Hosts: []v1alpha1.Host{{Host: "api.example.com:443", Breaker: "open", LastFault: everything()}}, Stuck: []v1alpha1.Explanation{stuck},
		}}, Nobodys: []v1alpha1.Explanation{stuck}},
		v1alpha1.WhyPath: stuck,
		v1alpha1.CallsPath: v1alpha1.Calls{Latest: []v1alpha1.Call{{
			Provider: "a", Object: "Service default/web", CallKind: v1alpha1.CallKind{Op: "lb_ensure", Host: "api.example.com:443", Method: "GET", Path: "/v1/lb/*", Result: "2xx"},
		}, {CallKind: v1alpha1.CallKind{Path: "/v1/lb?sig=c4Vr-query", Host: "me:h0p-userinfo@h.example.com"}}}},
		v1alpha1.ReachabilityPath: v1alpha1.Reachability{Hosts: []v1alpha1.HostReach{{Provider: "a", Host: "api.example.com:443", Result: v1alpha1.HostNotConnected, Message: everything()}}},
		"/metrics":                "# HELP x the code is w3Lf\nwasm_ccm_provider_generation{provider=\"a\"} 7\nx{pin=\"8471390\"} 1\nx{provider=\"the code is w3Lf\"} 1\nx{url=\"https://me:h0p-userinfo@h\"} 1\n",
	})
}
