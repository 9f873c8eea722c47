package source_test

import (
	"errors"
	"testing"

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

var name = types.NamespacedName{Namespace: "kube-system", Name: "cloud-provider"}

func configMap(uid types.UID, files map[string][]byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: uid}, BinaryData: files}
}

func update(t *testing.T, client kubernetes.Interface, cm *corev1.ConfigMap) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps(cm.Namespace).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestConfigMapContents(t *testing.T) {
	for _, c := range contents(t) {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(configMap("u", c.files))
			offers := run(t, source.NewConfigMap(client, name, testLimits))
			var got source.Bundle
			if c.reason == "" {
				got = wantBundle(t, offers, c.module, c.config)
				wantSignature(t, got, c.signature)
			} else {
				got = wantError(t, offers, c.reason, c.text)
			}
			if got.Ref == nil || got.Ref.Kind != "ConfigMap" || got.Ref.Name != name.Name || got.Ref.Namespace != name.Namespace || got.Ref.UID != "u" {
				t.Errorf("reference %v", got.Ref)
			}
		})
	}
}

func TestConfigMapLife(t *testing.T) {
	other := configMap("other", map[string][]byte{"x.wasm": []byte("other")})
	other.Name = "other"
	client := fake.NewClientset(other)
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	wantError(t, offers, source.ReasonConfigMapNotFound, "waiting for ConfigMap kube-system/cloud-provider")

	cm := configMap("1", map[string][]byte{"p.wasm": []byte("one")})
	cm.Data = map[string]string{"config.yaml": "text"}
	if _, err := client.CoreV1().ConfigMaps(name.Namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := wantBundle(t, offers, "one", "text")

	// Nothing of these is a change of the content, so the next offer is "two".
	cm = cm.DeepCopy()
	cm.Labels = map[string]string{"new": "label"}
	update(t, client, cm)
	cm = cm.DeepCopy()
	cm.BinaryData = map[string][]byte{"renamed.wasm.gz": gzipped(t, []byte("one"))}
	update(t, client, cm)
	cm = cm.DeepCopy()
	cm.BinaryData = map[string][]byte{"p.wasm": []byte("two")}
	update(t, client, cm)
	if second := wantBundle(t, offers, "two", "text"); second.Revision == first.Revision {
		t.Errorf("both revisions are %s", first.Revision)
	}

	cm = cm.DeepCopy()
	cm.BinaryData = nil
	update(t, client, cm)
	wantError(t, offers, source.ReasonModuleKeyMissing, "ConfigMap kube-system/cloud-provider: there is no module")
	if err := client.CoreV1().ConfigMaps(name.Namespace).Delete(t.Context(), name.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := wantError(t, offers, source.ReasonConfigMapNotFound, "does not exist"); got.Ref == nil || got.Ref.UID != "" {
		t.Errorf("reference %v, want one without a UID", got.Ref)
	}
	if _, err := client.CoreV1().ConfigMaps(name.Namespace).Create(t.Context(), configMap("2", map[string][]byte{"p.wasm": []byte("one")}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := wantBundle(t, offers, "one", ""); got.Ref.UID != "2" {
		t.Errorf("reference %v, want the new UID", got.Ref)
	}
}

func TestConfigMapThatMayNotBeListed(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), name.Name, errors.New("no"))
	})
	offers := run(t, source.NewConfigMap(client, name, source.Limits{}))
	wantError(t, offers, source.ReasonConfigMapUnreadable, `resourceNames: ["cloud-provider"], verbs: ["list", "watch"]`)
}
