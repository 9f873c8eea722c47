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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
)

// Labels of the ConfigMap. Phase and reason are about what is offered, the
// generation and the version about what serves.
const (
	LabelProvider   = "wasm-ccm.dev/provider"
	LabelPhase      = "wasm-ccm.dev/phase"
	LabelReason     = "wasm-ccm.dev/reason"
	LabelGeneration = "wasm-ccm.dev/generation"
	LabelVersion    = "wasm-ccm.dev/version"
	// LabelOffered has the first 12 hexadecimal digits of the SHA-256 of the
	// module that the source holds, LabelServing those of the one that serves.
	LabelOffered = "wasm-ccm.dev/offered"
	LabelServing = "wasm-ccm.dev/serving"
	// LabelSince is the time of the last change of phase, as 20261121T150405Z.
	LabelSince = "wasm-ccm.dev/since"

	labelManagedBy        = "app.kubernetes.io/managed-by"
	managedBy             = "wasm-ccm"
	annotationDescription = "kubernetes.io/description"
)

// Annotations by which people steer.
const (
	AnnotationPause    = "wasm-ccm.dev/pause"
	AnnotationPromote  = "wasm-ccm.dev/promote"
	AnnotationRollback = "wasm-ccm.dev/rollback"
	annotationPrefix   = "wasm-ccm.dev/"
)

// Annotations returns those by which people steer.
func Annotations() []string {
	return []string{AnnotationPause, AnnotationPromote, AnnotationRollback}
}

// The owners of fields in server-side apply: the status and the record are
// written by themselves, and neither touches what people add.
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

// Version is one generation.
type Version struct {
	// Name and Version are what the module says of itself.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Digest and ConfigDigest are SHA-256 sums in hexadecimal; of a private
	// configuration there is none.
	Digest       string `json:"digest,omitempty"`
	ConfigDigest string `json:"configDigest,omitempty"`
	// Revision is that of the bundle.
	Revision string `json:"revision,omitempty"`
	// Image is the digest of the image that the module was in, sha256:HEX. It
	// is what the tag stands for, and not the module's digest.
	Image string `json:"imageDigest,omitempty"`
	// Engine is what runs the module: wazero or wasmtime.
	Engine string `json:"engine,omitempty"`
}

// Status is what people see. Texts are cut where they are too long: messages
// at 1 KiB, others at 256 bytes, and there are at most 16 conditions.
type Status struct {
	Phase   string    `json:"phase"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Generation is the number of what serves.
	Generation int64    `json:"generation"`
	Offered    *Version `json:"offered,omitempty"`
	Serving    *Version `json:"serving,omitempty"`
	Candidate  *Version `json:"candidate,omitempty"`
	Good       *Version `json:"good,omitempty"`
	Paused     bool     `json:"paused,omitempty"`
	// Providers are the names of all that are configured, so that the next
	// manager sees which are not any more.
	Providers []string `json:"providers,omitempty"`
	// Manager is the version of the manager that writes this.
	Manager    string             `json:"manager,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// Object is the ConfigMap of one provider, and those of its saved bundles. It is
// safe for concurrent use.
type Object struct {
	configMaps corev1client.ConfigMapInterface
	client     kubernetes.Interface
	namespace  string
	provider   string
	clock      clock.WithTicker
	// store has the modules for which the ConfigMaps have no room; nil: there is
	// none.
	store *source.Store
	// wake has a token when there may be something for Run to do.
	wake chan struct{}

	// recording is held while the record, or the bundle, is written.
	recording sync.Mutex

	mu sync.Mutex
	// newest is what Publish was told last; nil before.
	newest *Status
	// record is the text of the record that was read or written last; "" while
	// that is not known.
	record string
	// paused is what that record says.
	paused bool
	// deleted says that somebody has deleted the object.
	deleted bool
	// unread are the revisions of saved bundles that could not be read.
	unread map[string]bool
}

// New returns the object of a configured provider, whose name is a DNS label.
// Nothing is written before Run or Save is called.
func New(client kubernetes.Interface, namespace, provider string, clock clock.WithTicker) *Object {
	return &Object{
		configMaps: client.CoreV1().ConfigMaps(namespace),
		client:     client, namespace: namespace, provider: provider, clock: clock,
		wake: make(chan struct{}, 1), unread: map[string]bool{},
	}
}

// With has modules kept in a store for which the ConfigMaps have no room. It is
// called before all else.
func (o *Object) With(s *source.Store) *Object {
	o.store = s
	return o
}

// Name returns the name of the ConfigMap, for Events on it.
func (o *Object) Name() string { return Name(o.provider) }

// Name returns the name of the ConfigMap of a provider.
func Name(provider string) string { return "wasm-ccm-provider-" + provider }

func partName(provider, set string, part int) string {
	return fmt.Sprintf("wasm-ccm-module-%s-%s%d", provider, set, part)
}

// Publish has a status written by Run. It never blocks; of several only the
// newest is written.
func (o *Object) Publish(s Status) {
	s = s.bounded()
	o.mu.Lock()
	o.newest = &s
	o.mu.Unlock()
	o.signal()
}

func (o *Object) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // Run is yet to look
	}
}

// Newest returns what Publish was told last, nil before. Nobody may change it.
func (o *Object) Newest() *Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest
}
