package e2e

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// configmap replaces the whole content of a ConfigMap, or makes it:
//
//	configmap NAME KEY=FILE...
func (h *harness) configmap(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "configmap NAME KEY=FILE...")
	content := map[string][]byte{}
	for _, arg := range args[1:] {
		key, file, ok := strings.Cut(arg, "=")
		usage(ts, ok, "configmap NAME KEY=FILE...")
		content[key] = read(ts, file)
	}
	ts.Check(putConfigMap(context.Background(), h.client, h.namespace, args[0], content))
}

// putConfigMap puts values where kubectl create configmap --from-file does.
func putConfigMap(ctx context.Context, client kubernetes.Interface, namespace, name string, content map[string][]byte) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{}, BinaryData: map[string][]byte{},
	}
	for key, data := range content {
		if utf8.Valid(data) {
			cm.Data[key] = string(data)
		} else {
			cm.BinaryData[key] = data
		}
	}
	configMaps := client.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, cm, metav1.CreateOptions{})
	}
	return err
}
