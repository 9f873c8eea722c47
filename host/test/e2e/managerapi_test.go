package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// The chart's ServiceAccount and ClusterRole that read the manager's API.
const (
	viewerAccount = "cloud-controller-manager-viewer"
	viewerRole    = "wasm-ccm:viewer"
)

// ccmctl runs ccmctl against a manager, as a viewer; its output becomes stdout and
// stderr:
//
//	[!] ccmctl NAME ARG...
func (h *harness) ccmctl(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) >= 2, "[!] ccmctl NAME ARG...")
	stdout, stderr, err := h.runCcmctl(ts, h.manager(ts, args[0]), args[1:])
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), stderr)
	switch {
	case err != nil && !neg:
		ts.Fatalf("ccmctl %q: %v\n%s%s", args[1:], err, stdout, stderr)
	case err == nil && neg:
		ts.Fatalf("ccmctl %q succeeds:\n%s", args[1:], stdout)
	}
}

// why waits until ccmctl explains an object in words that match:
//
//	why NAME REGEXP ARG...
func (h *harness) why(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 3, "why NAME REGEXP ARG...")
	m, re := h.manager(ts, args[0]), compile(ts, "(?s)"+args[1])
	asked := append([]string{"why"}, args[2:]...)
	var said string
	await(ts, patience, fmt.Sprintf("ccmctl %q matches %q", asked, args[1]), func() (bool, string) {
		stdout, stderr, err := h.runCcmctl(ts, m, asked)
		said = stdout
		return err == nil && re.MatchString(stdout), fmt.Sprint(stdout, stderr, err, "\n", m.tail(2<<10))
	})
	fmt.Fprint(ts.Stdout(), said)
}

// api checks with which code a manager answers a ServiceAccount, or nobody (""):
//
//	api NAME CODE METHOD PATH [ACCOUNT]
func (h *harness) api(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 4 || len(args) == 5), "api NAME CODE METHOD PATH [ACCOUNT]")
	request, err := http.NewRequest(args[2], "https://"+h.manager(ts, args[0]).secure+args[3], nil)
	ts.Check(err)
	if len(args) == 5 {
		request.Header.Set("Authorization", "Bearer "+h.token(ts, args[4]))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body) // what is missing of it shows
	fmt.Fprint(ts.Stdout(), body.String())
	if strconv.Itoa(response.StatusCode) != args[1] {
		ts.Fatalf("%s %s answers %s, want %s: %s", args[2], args[3], response.Status, args[1], body.String())
	}
}

func (h *harness) runCcmctl(ts *testscript.TestScript, m *manager, args []string) (stdout, stderr string, err error) {
	return h.viewer(ts).ccmctl(context.Background(), m, args)
}

func (h *harness) viewer(ts *testscript.TestScript) viewer {
	return viewer{h.cluster, h.client, h.build, h.namespace, ts.MkAbs(".")}
}

// viewer runs ccmctl as the chart's viewer of a namespace, in a directory.
type viewer struct {
	cluster   *devcluster.Cluster
	client    kubernetes.Interface
	build     string
	namespace string
	dir       string
}

// ccmctl asks a manager. An error without any output is one of the test itself.
func (v viewer) ccmctl(ctx context.Context, m *manager, args []string) (stdout, stderr string, err error) {
	if args[0] != "rollout" { // which asks the API server alone
		flags, err := v.flags(ctx, m)
		if err != nil {
			return "", "", err
		}
		args = append(args, flags...)
	}
	args = append(args, "--kubeconfig="+v.cluster.Kubeconfig(), "--manager-namespace="+v.namespace)
	cmd := exec.CommandContext(ctx, filepath.Join(v.build, "ccmctl"), args...)
	cmd.Dir = v.dir
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	return out.String(), complaint.String(), err
}

// flags are those by which ccmctl finds a manager that is in no Pod.
func (v viewer) flags(ctx context.Context, m *manager) ([]string, error) {
	file, err := v.token(ctx)
	return []string{"--server=https://" + m.secure, "--token-file=" + file, "--insecure-skip-tls-verify"}, err
}

// token is the file with that of the viewer.
func (v viewer) token(ctx context.Context) (file string, err error) {
	file = filepath.Join(v.dir, ".viewer-token")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	if err := allowViewer(ctx, v.client, v.namespace); err != nil {
		return "", err
	}
	token, err := tokenOf(ctx, v.client, v.namespace, viewerAccount)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, []byte(token), 0o600)
}

// token is one of a ServiceAccount of the namespace, which is made if it is not there.
func (h *harness) token(ts *testscript.TestScript, account string) string {
	token, err := tokenOf(context.Background(), h.client, h.namespace, account)
	ts.Check(err)
	return token
}

func tokenOf(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	accounts := client.CoreV1().ServiceAccounts(namespace)
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
	if _, err := accounts.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	answer, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// allowViewer gives the viewer of a namespace the chart's ClusterRole.
func allowViewer(ctx context.Context, client kubernetes.Interface, namespace string) error {
	role, err := chartsViewer()
	if err != nil {
		return err
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: viewerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: viewerAccount}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func chartsViewer() (*rbacv1.ClusterRole, error) {
	data, err := os.ReadFile(manifestFile)
	if err != nil {
		return nil, err
	}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: ClusterRole\n")) && bytes.Contains(document, []byte("\n  name: "+viewerRole+"\n")) {
			var role rbacv1.ClusterRole
			return &role, yaml.Unmarshal(document, &role)
		}
	}
	return nil, fmt.Errorf("%s has no ClusterRole %s", manifestFile, viewerRole)
}
