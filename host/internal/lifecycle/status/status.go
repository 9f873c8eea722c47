// Package status is the durable side of a provider's rollout, and the side that
// people see and steer with kubectl alone. Each configured provider has a
// ConfigMap wasm-ccm-provider-NAME with its status, which labels repeat:
//
//	kubectl -n kube-system get configmap -l wasm-ccm.dev/provider \
//	  -L wasm-ccm.dev/phase,wasm-ccm.dev/reason,wasm-ccm.dev/offered,wasm-ccm.dev/serving,wasm-ccm.dev/version,wasm-ccm.dev/generation,wasm-ccm.dev/since
//	kubectl -n kube-system get configmap wasm-ccm-provider-NAME -o jsonpath='{.data.status}'
//
// and with a record, from which a killed manager continues. The bundles
// that the record calls saved are in the ConfigMaps wasm-ccm-module-NAME-a0 to
// a3, b0 to b3 and c0 to c3. Annotations of wasm-ccm-provider-NAME are commands:
//
//	wasm-ccm.dev/pause=         while it is there, whatever its value, nothing is rolled out
//	wasm-ccm.dev/promote=true   or the beginning of a digest; removed when it is taken
//	wasm-ccm.dev/rollback=true  removed when it is taken
//
// The right to write these ConfigMaps decides which module runs, as does the right
// to write the source of the module: a module from here has to pass the
// same checks.
package status

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Labels of the ConfigMap. Phase and reason are about what is offered, the
// generation and the version about what serves.
const (
	LabelProvider   = "wasm-ccm.dev/provider"
	LabelPhase      = "wasm-ccm.dev/phase"
	LabelReason     = "wasm-ccm.dev/reason"
	LabelGeneration = "wasm-ccm.dev/generation"
	LabelVersion    = "wasm-ccm.dev/version"
	// LabelOffered has the first 12 hexadecimal digits of the SHA-256 of the source's module,
	// LabelServing those of the serving one.
	LabelOffered = "wasm-ccm.dev/offered"
	LabelServing = "wasm-ccm.dev/serving"
	// LabelSince is the time of the last change of phase, as 20261121T150405Z.
	LabelSince = "wasm-ccm.dev/since"

	labelManagedBy        = "app.kubernetes.io/managed-by"
	managedBy             = "wasm-ccm"
	annotationDescription = "kubernetes.io/description"
)

// The operators' annotations.
const (
	AnnotationPause    = "wasm-ccm.dev/pause"
	AnnotationPromote  = "wasm-ccm.dev/promote"
	AnnotationRollback = "wasm-ccm.dev/rollback"
	annotationPrefix   = "wasm-ccm.dev/"
)

// Annotations returns the operators' annotations.
func Annotations() []string {
	return []string{AnnotationPause, AnnotationPromote, AnnotationRollback}
}

// The field owners of server-side apply: status and record are written separately, and
// neither touches people's additions.
const (
	managerStatus  = "wasm-ccm-status"
	managerRecord  = "wasm-ccm-record"
	managerModule  = "wasm-ccm-module"
	managerCommand = "wasm-ccm-command"
)

// Keys of the ConfigMap.
const (
	keyStatus = "status"
	keyRecord = "record"
)

// Status is the part for people. Long texts are cut: messages at 1 KiB, others at 256 bytes;
// there are at most 16 conditions.
type Status struct {
	v1alpha1.Provider
	// Name and Ops hide those of Provider: the ConfigMap has its name, and only a running
	// manager knows the ops.
	Name string        `json:"name,omitempty"`
	Ops  *v1alpha1.Ops `json:"ops,omitempty"`
	// Providers are the names of all configured providers, so that the next manager can tell
	// which were removed.
	Providers []string `json:"providers,omitempty"`
	// Manager is the version of the writing manager.
	Manager string `json:"manager,omitempty"`
}

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// Object is the ConfigMap of one provider with those of its saved bundles. It is safe for
// concurrent use.
type Object struct {
	configMaps corev1client.ConfigMapInterface
	client     kubernetes.Interface
	namespace  string
	provider   string
	clock      clock.WithTicker
	// store has the modules that do not fit into ConfigMaps; nil: none.
	store *source.Store
	// wake has a token when Run may have work.
	wake chan struct{}

	// recording is held during a write of the record or of a bundle.
	recording sync.Mutex
	// writing is held for one read and write of the object.
	writing *semaphore.Weighted

	mu sync.Mutex
	// newest is the last published status; nil before.
	newest *Status
	// record is the last read or written text of the record; "" if unknown.
	record string
	// paused is that record's field.
	paused bool
	// deleted: somebody has deleted the object.
	deleted bool
	// unread are the revisions of unreadable saved bundles.
	unread map[string]bool
}

// New returns the object of a configured provider, whose name is a DNS label. Nothing is
// written before Run or Save.
func New(client kubernetes.Interface, namespace, provider string, clock clock.WithTicker) *Object {
	return &Object{
		configMaps: client.CoreV1().ConfigMaps(namespace),
		client:     client, namespace: namespace, provider: provider, clock: clock,
		wake: make(chan struct{}, 1), unread: map[string]bool{}, writing: semaphore.NewWeighted(1),
	}
}

// With sets the store for modules that do not fit into ConfigMaps. It is called first.
func (o *Object) With(s *source.Store) *Object {
	o.store = s
	return o
}

// Name returns the name of the ConfigMap, for Events on it.
func (o *Object) Name() string { return Name(o.provider) }

// Namespace returns that of the ConfigMap, and of all others of the manager.
func (o *Object) Namespace() string { return o.namespace }

// Name returns the name of the ConfigMap of a provider.
func Name(provider string) string { return "wasm-ccm-provider-" + provider }

func partName(provider, set string, part int) string {
	return fmt.Sprintf("wasm-ccm-module-%s-%s%d", provider, set, part)
}

// Publish has Run write a status. It never blocks; only the newest of several is written.
func (o *Object) Publish(s Status) {
	s = s.bounded()
	s.Provider.Name = o.provider
	o.mu.Lock()
	o.newest = &s
	o.mu.Unlock()
	o.signal()
}

func (o *Object) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// Newest returns the last published status, nil before. It must not be changed.
func (o *Object) Newest() *Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest
}
