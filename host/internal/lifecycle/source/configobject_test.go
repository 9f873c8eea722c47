package source_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

var apart = source.ConfigKey{Object: types.NamespacedName{Namespace: "kube-system", Name: "configuration"}, Key: "config.yaml"}

func configuration(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: apart.Object.Namespace, Name: apart.Object.Name, UID: "c"}, Data: data}
}

func create(t *testing.T, client kubernetes.Interface, cm *corev1.ConfigMap) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps(cm.Namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// runApart is a source with a module in one ConfigMap and its configuration in another.
func runApart(t *testing.T, client kubernetes.Interface) <-chan offered {
	t.Helper()
	return run(t, source.WithConfigFrom(source.NewConfigMap(client, name, testLimits), client, apart, testLimits))
}

func TestConfigurationApart(t *testing.T) {
	client := fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one"), "p.wasm.sig": []byte("MEU=")}))
	offers := runApart(t, client)
	wantError(t, offers, source.ReasonConfigNotFound, "waiting for ConfigMap kube-system/configuration: it does not exist; create it with the key config.yaml")
	create(t, client, configuration(nil))
	wantError(t, offers, source.ReasonConfigKeyMissing, "ConfigMap kube-system/configuration has no key config.yaml, it is empty")
	update(t, client, configuration(map[string]string{"confg.yaml": "a"}))
	wantError(t, offers, source.ReasonConfigKeyMissing, "has no key config.yaml (it has confg.yaml): add it, or name another one in configFrom")
	update(t, client, configuration(map[string]string{"config.yaml": strings.Repeat("x", 101)}))
	wantError(t, offers, source.ReasonConfigTooLarge, "config.yaml of ConfigMap kube-system/configuration is larger than 100 bytes")

	update(t, client, configuration(map[string]string{"config.yaml": "a", "other": "b"}))
	first := wantBundle(t, offers, "one", "a")
	wantSignature(t, first, "MEU=")
	if ref := first.ConfigRef; ref == nil || ref.Kind != "ConfigMap" || ref.Name != apart.Object.Name || ref.UID != "c" {
		t.Errorf("the configuration is in %v", ref)
	}
	if first.ConfigPrivate || first.Ref == nil || first.Ref.Name != name.Name || !strings.Contains(first.Origin, "configuration of ConfigMap kube-system/configuration") {
		t.Errorf("%+v", first)
	}
	// It is the same as if it were beside the module.
	together := wantBundle(t, run(t, source.NewConfigMap(fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one"), "config.yaml": []byte("a")})), name, testLimits)), "one", "a")
	if together.Revision != first.Revision {
		t.Errorf("revisions %s and %s", together.Revision, first.Revision)
	}
	update(t, client, configuration(map[string]string{"config.yaml": "a", "other": "c"})) // is nobody's
	update(t, client, configuration(map[string]string{"config.yaml": ""}))
	wantBundle(t, offers, "one", "")
	update(t, client, configMap("u", nil))
	wantError(t, offers, source.ReasonModuleKeyMissing, "ConfigMap kube-system/cloud-provider: there is no module")
	update(t, client, configMap("u", map[string][]byte{"p.wasm": []byte("two")}))
	wantBundle(t, offers, "two", "")
	if err := client.CoreV1().ConfigMaps(apart.Object.Namespace).Delete(t.Context(), apart.Object.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantError(t, offers, source.ReasonConfigNotFound, "does not exist")
}

// Nobody has to know which of two wins. Equal ones are on the way from one
// place to the other.
func TestConfigurationInTwoPlaces(t *testing.T) {
	beside := func(config string) *corev1.ConfigMap {
		return configMap("u", map[string][]byte{"p.wasm": []byte("one"), "config.yaml": []byte(config)})
	}
	client := fake.NewClientset(beside("a"), configuration(map[string]string{"config.yaml": "a"}))
	offers := runApart(t, client)
	wantBundle(t, offers, "one", "a")
	update(t, client, beside("b"))
	wantError(t, offers, source.ReasonConfigInTwoPlaces, "ConfigMap kube-system/cloud-provider has a configuration beside the module, and configFrom names config.yaml of ConfigMap kube-system/configuration, which differs")
	update(t, client, configMap("u", map[string][]byte{"p.wasm": []byte("one")}))
	wantBundle(t, offers, "one", "a")
}

func TestConfigurationInASecret(t *testing.T) {
	key := apart
	key.Secret = true
	client := fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one")}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Object.Namespace, Name: key.Object.Name}, Data: map[string][]byte{"config.yaml": []byte("a")}})
	offers := run(t, source.WithConfigFrom(source.NewConfigMap(client, name, testLimits), client, key, testLimits))
	if got := wantBundle(t, offers, "one", "a"); !got.ConfigPrivate {
		t.Error("the configuration is not private")
	}
}

// What is written down of a private configuration tells nobody who guesses it
// whether the guess is right, and changes with it all the same.
func TestDigestsOfPrivateConfigurations(t *testing.T) {
	key := apart
	key.Secret = true
	secret := func(uid types.UID, config string) source.Bundle {
		client := fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one")}),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Object.Namespace, Name: key.Object.Name, UID: uid}, Data: map[string][]byte{"config.yaml": []byte(config)}})
		return wantBundle(t, run(t, source.WithConfigFrom(source.NewConfigMap(client, name, testLimits), client, key, testLimits)), "one", config)
	}
	file := func(config string) source.Bundle {
		dir := t.TempDir()
		write(t, dir+"/cloud.conf", []byte(config))
		client := fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one")}))
		return wantBundle(t, run(t, source.WithConfigFile(source.NewConfigMap(client, name, testLimits), dir+"/cloud.conf", testLimits, watched)), "one", config)
	}
	public := wantBundle(t, run(t, source.NewConfigMap(fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one"), "config.yaml": []byte("a")})), name, testLimits)), "one", "a")
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("a"))); public.ConfigDigest() != want {
		t.Errorf("a public one is %s, want %s", public.ConfigDigest(), want)
	}
	same := map[string][2]source.Bundle{"a Secret": {secret("k", "a"), secret("k", "a")}, "a file": {file("a"), file("a")}}
	for what, is := range same {
		if is[0].ConfigDigest() == "" || is[0].ConfigDigest() != is[1].ConfigDigest() || is[0].Revision != is[1].Revision {
			t.Errorf("%s: two managers call the same %+v and %+v", what, is[0], is[1])
		}
	}
	seen := map[string]string{public.ConfigDigest(): "public", public.Revision: "public"}
	for what, b := range map[string]source.Bundle{"a Secret": secret("k", "a"), "another Secret": secret("l", "a"), "a file": file("a"), "a Secret that has changed": secret("k", "b"), "a file that has changed": file("b")} {
		for _, id := range []string{b.ConfigDigest(), b.Revision} {
			if other := seen[id]; other != "" {
				t.Errorf("%s is called as %s", what, other)
			}
			seen[id] = what
		}
	}
}

func TestConfigurationThatMayNotBeListed(t *testing.T) {
	for _, secret := range []bool{false, true} {
		key, resource := apart, "configmaps"
		if key.Secret = secret; secret {
			resource = "secrets"
		}
		client := fake.NewClientset()
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource(resource), key.Object.Name, errors.New("no"))
		})
		dir := t.TempDir()
		write(t, dir+"/p.wasm", []byte("one"))
		offers := run(t, source.WithConfigFrom(source.NewDir(dir, testLimits, watched), client, key, testLimits))
		wantError(t, offers, source.ReasonConfigUnreadable, `resources: ["`+resource+`"], resourceNames: ["configuration"], verbs: ["list", "watch"]`)
	}
}

// Who applies a module and its configuration together writes two objects.
func TestModuleAndConfigurationChangeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(configMap("u", map[string][]byte{"p.wasm": []byte("one")}), configuration(map[string]string{"config.yaml": "a"}))
		offers := runApart(t, client)
		wantBundle(t, offers, "one", "a")
		for _, moduleFirst := range []bool{true, false} {
			module, config := "two", "b"
			if !moduleFirst {
				module, config = "three", "c"
				update(t, client, configuration(map[string]string{"config.yaml": config}))
				synctest.Wait()
			}
			update(t, client, configMap("u", map[string][]byte{"p.wasm": []byte(module)}))
			synctest.Wait()
			if moduleFirst {
				update(t, client, configuration(map[string]string{"config.yaml": config}))
			}
			wantBundle(t, offers, module, config)
		}
	})
}
