package conformance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/hostcall/store"
)

const storeName = "conformance"

// memory is the API server of one ConfigMap, sufficient for package store: the
// guest's store is the manager's own code.
type memory struct {
	corev1client.ConfigMapInterface // nil: no other method is called

	mu       sync.Mutex
	kept     *corev1.ConfigMap
	revision int
}

func newMemory() *memory { return &memory{} }

func (m *memory) store() *store.Store { return store.New(m, "kube-system", storeName, storeName) }

// ConfigMaps implements corev1client.ConfigMapsGetter.
func (m *memory) ConfigMaps(string) corev1client.ConfigMapInterface { return m }

func (m *memory) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return m.kept.DeepCopy(), nil
}

func (m *memory) Create(_ context.Context, cm *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept != nil {
		return nil, apierrors.NewAlreadyExists(corev1.Resource("configmaps"), cm.Name)
	}
	return m.keep(cm), nil
}

func (m *memory) Update(_ context.Context, cm *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || m.kept.UID != cm.UID || m.kept.ResourceVersion != cm.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), cm.Name, fmt.Errorf("it has changed"))
	}
	return m.keep(cm), nil
}

func (m *memory) keep(cm *corev1.ConfigMap) *corev1.ConfigMap {
	m.revision++
	m.kept = cm.DeepCopy()
	m.kept.UID, m.kept.ResourceVersion = types.UID("conformance"), strconv.Itoa(m.revision)
	return m.kept.DeepCopy()
}

// describe returns a line for each entry.
func (m *memory) describe() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &strings.Builder{}
	if m.kept != nil {
		for key, value := range m.kept.Data {
			fmt.Fprintf(b, "store %s = %q\n", key, value)
		}
		for key, value := range m.kept.BinaryData {
			fmt.Fprintf(b, "store %s = %q\n", key, value)
		}
	}
	return b.String()
}
