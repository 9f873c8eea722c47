package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// Errors after which a manager can continue with the module of its source.
var (
	// ErrDamaged is the error of an unusable record or saved bundle.
	ErrDamaged = errors.New("the saved data is damaged")
	// ErrTooLarge is the error of a bundle that does not fit: it is not durable.
	ErrTooLarge = errors.New("too large to be kept")
)

// stored is the written form of the record.
type stored struct {
	rollout.Record
	// Refusals are Record.Refused, the newest first.
	Refusals []refusal `json:"refused,omitempty"`
	// Bundles are the places of Saved. An unsaved bundle has none.
	Bundles []*index `json:"bundles,omitempty"`
	// Good and Bundle are read from older managers, which saved one bundle.
	Good   *v1alpha1.Module `json:"good,omitempty"`
	Bundle *index           `json:"bundle,omitempty"`
}

// refusal is the written form of a refusal.
type refusal struct {
	Revision string `json:"revision"`
	Module   string `json:"module,omitempty"`
	rollout.Refusal
}

func (s *stored) index(revision string) *index {
	i := slices.IndexFunc(s.Bundles, func(x *index) bool { return x.Revision == revision })
	if i < 0 {
		return nil
	}
	return s.Bundles[i]
}

const (
	// maxRecord bounds the text of a record that is read, in bytes.
	maxRecord = 512 << 10
	// maxConflicts bounds the tries of a write against concurrent writers, for about a second.
	maxConflicts = 8
	// maxLooks bounds the reads of a set that is being replaced.
	maxLooks = 3
)

// ErrNotSaved is the error of a bundle in no set, or with its module in a store that this
// manager does not have.
var ErrNotSaved = errors.New("it is not saved")

// Load returns the record, or the zero rollout.Record. The error is ErrDamaged for an unusable
// record, with a Record that has only Paused; others are about the API server. Paused is
// true also for an annotation that nobody has obeyed yet; Run reports a removed one.
func (o *Object) Load(ctx context.Context) (rollout.Record, error) {
	cm, s, err := o.read(ctx)
	paused := false
	if cm != nil {
		_, paused = cm.Annotations[AnnotationPause]
	}
	if err != nil {
		return rollout.Record{Paused: paused}, err
	}
	o.hold(*s)
	s.Paused = s.Paused || paused
	return s.Record, nil
}

// Bundle returns a saved bundle, checked against the digests in the record. With
// ConfigPrivate it has no Config; it never has a Ref. The error is ErrNotSaved, ErrDamaged,
// or about the API server.
func (o *Object) Bundle(ctx context.Context, revision string) (*source.Bundle, error) {
	var damage error
	var before *index
	for range maxLooks {
		_, s, err := o.read(ctx)
		if err != nil {
			return nil, err
		}
		x := s.index(revision)
		switch {
		case x == nil:
			return nil, ErrNotSaved
		case before != nil && reflect.DeepEqual(before, x):
			o.mark(revision, true)
			return nil, damage
		}
		// A leader may replace the set during this read, which changes the record.
		before = x
		bundle, err := o.unpack(ctx, x)
		if err == nil || errors.Is(err, ErrNotSaved) {
			o.mark(revision, err != nil)
			return bundle, err
		}
		damage = fmt.Errorf("the saved data of provider %s: %w", o.provider, err)
		if !errors.Is(err, ErrDamaged) {
			return nil, damage
		}
	}
	return nil, damage
}

// read returns the ConfigMap, nil for none, and its record. With ErrDamaged both are
// returned, the record empty.
func (o *Object) read(ctx context.Context) (*corev1.ConfigMap, *stored, error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil {
		return nil, nil, err
	}
	if cm == nil || cm.Data[keyRecord] == "" {
		return cm, &stored{}, nil
	}
	s, err := decodeRecord(cm.Data[keyRecord])
	if err != nil {
		return cm, &stored{}, fmt.Errorf("%w: ConfigMap %s, key %s: %w; the next generation replaces it", ErrDamaged, o.key(o.Name()), keyRecord, err)
	}
	o.remember(cm.Data[keyRecord], s.Record)
	return cm, s, nil
}

// current is the record for a writer. A deleted record counts as unchanged, so that the next
// one still names the bundle.
func (o *Object) current(ctx context.Context) (*corev1.ConfigMap, *stored, error) {
	cm, s, err := o.read(ctx)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, nil, err
	}
	o.mu.Lock()
	known := o.record
	o.mu.Unlock()
	if known == "" || cm != nil && cm.Data[keyRecord] != "" {
		return cm, s, nil
	}
	s, err = decodeRecord(known)
	return cm, s, err
}

// decodeRecord accepts the records of all versions.
func decodeRecord(text string) (*stored, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, err
	}
	if s.Good != nil && len(s.Saved) == 0 {
		s.Saved = []rollout.Saved{{Module: *s.Good, Kept: true}}
		if s.Bundle != nil {
			s.Bundles = []*index{s.Bundle}
		}
	}
	for _, f := range slices.Backward(s.Refusals) {
		f.Refusal.Revision = rollout.ParseRevision(f.Module, f.Revision)
		s.Refused = append(s.Refused, f.Refusal)
	}
	s.Good, s.Bundle, s.Refusals = nil, nil, nil
	s.Record = bounded(s.Record)
	return &s, s.validate()
}

// validate refuses records that Save cannot make.
func (s *stored) validate() error {
	if len(s.Bundles) > len(sets) {
		return fmt.Errorf("it has %d bundles, more than %d", len(s.Bundles), len(sets))
	}
	if slices.Contains(s.Bundles, nil) {
		return errors.New("one of its bundles is empty")
	}
	used := map[string]bool{}
	for _, x := range s.Bundles {
		if used[x.Set] || s.index(x.Revision) != x || !slices.ContainsFunc(s.Saved, func(v rollout.Saved) bool { return v.Revision == x.Revision }) {
			return errors.New("one of its bundles is not among the saved ones, or is listed twice")
		}
		used[x.Set] = true
		if err := x.validate(); err != nil {
			return err
		}
	}
	return nil
}

// commit changes the record. It tries again after a concurrent change of the object, e.g. of
// its annotations.
func (o *Object) commit(ctx context.Context, change func(current stored) (stored, error)) (next stored, err error) {
	delays := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: maxConflicts}
	err = o.retry(ctx, delays, func() error {
		cm, current, err := o.current(ctx)
		if err != nil {
			return err
		}
		if next, err = change(*current); err != nil {
			return err
		}
		text, err := next.encode()
		if err != nil {
			return fmt.Errorf("encode the record of provider %s: %w", o.provider, err)
		}
		if err := o.applyRecord(ctx, cm, text); err != nil {
			return err
		}
		o.remember(text, next.Record)
		return nil
	})
	return next, err
}

// retry repeats a change after a conflict with another writer. This manager's own writes
// take turns, and cause no conflicts.
func (o *Object) retry(ctx context.Context, delays wait.Backoff, change func() error) error {
	return retry.RetryOnConflict(delays, func() error {
		if !o.writing.TryAcquire(1) { // Acquire fails with an ended context, whether or not there is another write
			if err := o.writing.Acquire(ctx, 1); err != nil {
				return fmt.Errorf("write ConfigMap %s: this manager's previous write of it has not ended: %w", o.key(o.Name()), err)
			}
		}
		defer o.writing.Release(1)
		return change()
	})
}

// encode reverses decodeRecord. It writes "<" and the like as one byte, not six: others'
// texts cannot make the record longer than maxRecord.
func (s stored) encode() (string, error) {
	for _, f := range slices.Backward(s.Refused) {
		s.Refusals = append(s.Refusals, refusal{f.Revision.String(), f.Revision.Module, f})
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// applyRecord writes the record, if the object has not changed since the read; cm is nil if
// it did not exist.
func (o *Object) applyRecord(ctx context.Context, cm *corev1.ConfigMap, text string) error {
	config := o.config().WithData(map[string]string{keyRecord: text})
	if cm != nil && cm.ResourceVersion != "" {
		config = config.WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion)
	}
	return o.apply(ctx, config, managerRecord)
}

// remember has Run restore this record if the object is deleted.
func (o *Object) remember(text string, r rollout.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.record, o.paused = text, r.Paused
}

func (o *Object) apply(ctx context.Context, config *corev1ac.ConfigMapApplyConfiguration, manager string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := o.configMaps.Apply(ctx, config, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return o.explain("patch", *config.Name, err)
}

// get returns a ConfigMap, or nil if it does not exist.
func (o *Object) get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cm, err := o.configMaps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, o.explain("get", name, err)
	}
	return cm, nil
}

func (o *Object) config() *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(o.Name(), o.namespace).
		WithLabels(map[string]string{LabelProvider: o.provider, labelManagedBy: managedBy}).
		WithAnnotations(map[string]string{annotationDescription: "Status and record of the cloud provider " + o.provider +
			". Steer it with annotations: " + AnnotationPause + "=, " + AnnotationPromote + "=DIGEST or true, " + AnnotationRollback + "=true. The record is the manager's."})
}
