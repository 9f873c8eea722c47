package credential_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/credential"
	"github.com/wasm-ccm/wasm-ccm/host/test/devcluster"
)

// TestWatchedSecrets needs etcd and kube-apiserver in $KUBEBUILDER_ASSETS (make
// test sets it): the fake clientset knows neither rights nor field selectors.
func TestWatchedSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	cluster, err := devcluster.Start(devcluster.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	for name, test := range map[string]func(*testing.T, *rest.Config){
		"rotation is picked up":                     testRotation,
		"rights on the named Secrets are enough":    testRights,
		"missing rights are named, and then helped": testNoRights,
		"a Secret may come and go":                  testComeAndGo,
	} {
		t.Run(name, func(t *testing.T) { test(t, cluster.Config()) })
	}
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"token": []byte(value)}}
}

// watch returns a set of one bearer credential "cloud" for the Secret.
func watch(t *testing.T, config *rest.Config, name string) *credential.Set {
	t.Helper()
	key := types.NamespacedName{Namespace: "default", Name: name}
	watched := credential.NewWatchedSecrets(kubernetes.NewForConfigOrDie(config), []types.NamespacedName{key, key})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { watched.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	set, err := credential.NewSet(watched, []credential.Spec{{Name: "cloud", Secret: key, Bearer: &credential.Bearer{}}}, credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func authorization(t *testing.T, set *credential.Set) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cloud.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Apply(t.Context(), "cloud", "", req, nil)
	return req.Header.Get("Authorization"), err
}

// becomes waits until the credential is applied with that value.
func becomes(t *testing.T, set *credential.Set, want string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		got, err := authorization(t, set)
		if err != nil {
			return false, err.Error()
		}
		return got == want, got
	})
}

// fails waits until applying the credential fails with all of that.
func fails(t *testing.T, set *credential.Set, parts ...string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		got, err := authorization(t, set)
		var e *abi.Error
		if !errors.As(err, &e) {
			return false, got
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				return false, err.Error()
			}
		}
		return e.Code == abi.CodeUnavailable, err.Error()
	})
}

func eventually(t *testing.T, condition func() (bool, string)) {
	t.Helper()
	last := ""
	// After several errors client-go waits up to a minute before the next list.
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 3*time.Minute, true, func(context.Context) (ok bool, err error) {
		ok, last = condition()
		return ok, nil
	})
	if err != nil {
		t.Fatalf("%v; at last: %s", err, last)
	}
}

func create(t *testing.T, config *rest.Config, s *corev1.Secret) *corev1.Secret {
	t.Helper()
	out, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func testRotation(t *testing.T, config *rest.Config) {
	s := create(t, config, secret("rotating", "the first value"))
	set := watch(t, config, "rotating")
	// The first use waits for the first list, or for its error: a busy API server may
	// refuse it once.
	if got, err := authorization(t, set); got != "Bearer the first value" && err == nil {
		t.Fatalf("%q", got)
	}
	becomes(t, set, "Bearer the first value")
	s.Data["token"] = []byte("the second value")
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(t, set, "Bearer the second value")
	if got := string(set.Scrub([]byte("the first value/the second value"))); got != "[scrubbed:cloud]/[scrubbed:cloud]" {
		t.Errorf("got %q", got)
	}
}

// as returns a config of a user who may read the named Secret only; grant gives
// the right.
func as(t *testing.T, config *rest.Config, user, name string) (limited *rest.Config, grant func()) {
	t.Helper()
	limited = rest.CopyConfig(config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: user}
	admin := kubernetes.NewForConfigOrDie(config).RbacV1()
	return limited, func() {
		_, err := admin.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch"},
		}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = admin.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func testRights(t *testing.T, config *rest.Config) {
	create(t, config, secret("mine", "my own value"))
	create(t, config, secret("not-mine", "somebody's value"))
	limited, grant := as(t, config, "reader", "mine")
	grant()
	becomes(t, watch(t, limited, "mine"), "Bearer my own value")
	fails(t, watch(t, limited, "not-mine"), "list Secret default/not-mine", "forbidden")
}

func testNoRights(t *testing.T, config *rest.Config) {
	create(t, config, secret("later", "a value"))
	limited, grant := as(t, config, "late-reader", "later")
	set := watch(t, limited, "later")
	fails(t, set, "credential cloud: list Secret default/later", "forbidden", `resourceNames: ["later"], verbs: ["get", "list", "watch"]`)
	grant()
	becomes(t, set, "Bearer a value")
}

func testComeAndGo(t *testing.T, config *rest.Config) {
	set := watch(t, config, "coming")
	fails(t, set, "credential cloud: the Secret default/coming does not exist; create it")
	create(t, config, secret("coming", "first"))
	becomes(t, set, "Bearer first")
	if err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").Delete(t.Context(), "coming", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fails(t, set, "does not exist")
	s := secret("coming", "")
	s.Data = map[string][]byte{"other": []byte("value of another key")}
	create(t, config, s)
	fails(t, set, "Secret default/coming: ", `key "token" is missing`)
}

func TestAnEndedWaitSaysWhatFor(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "cloud"}
	watched := credential.NewWatchedSecrets(kubernetes.NewForConfigOrDie(&rest.Config{Host: "127.0.0.1:1"}), []types.NamespacedName{key})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := watched.Get(ctx, "ns", "cloud"); err == nil || !strings.Contains(err.Error(), "waiting for Secret ns/cloud") {
		t.Errorf("got %v", err)
	}
	if _, _, err := watched.Get(ctx, "ns", "other"); err == nil || !strings.Contains(err.Error(), "Secret ns/other is not watched") {
		t.Errorf("got %v", err)
	}
}
