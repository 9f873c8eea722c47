package status

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Keys of texts that are changed by reading and writing. Unlike status and record, every
// manager writes the trials', leader or not.
const (
	keyTrials     = "trials"
	managerTrials = "wasm-ccm-trials"
	keyBrake      = "deletionBrake"
	managerBrake  = "wasm-ccm-deletion-brake"
)

// ChangeBrake is ChangeTrials for the record of the deletion brake.
func (o *Object) ChangeBrake(ctx context.Context, change func(text string) (string, error)) error {
	return o.change(ctx, keyBrake, managerBrake, change)
}

// ChangeTrials reads the text of the trials, "" for none, and writes the result of change,
// unless somebody else has written meanwhile; then it starts again. The error of change is
// returned as it is, and a text returned with it is written all the same. When ChangeTrials
// returns without another error, the text is durable.
func (o *Object) ChangeTrials(ctx context.Context, change func(text string) (string, error)) error {
	return o.change(ctx, keyTrials, managerTrials, change)
}

func (o *Object) change(ctx context.Context, key, manager string, change func(text string) (string, error)) error {
	// Two managers, and the status, write the same object: waiting is cheaper than not loading a
	// module.
	delays := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: maxConflicts + 2, Cap: time.Second}
	var refusal error
	err := o.retry(ctx, delays, func() error {
		cm, err := o.get(ctx, o.Name())
		if err != nil {
			return err
		}
		before := ""
		if cm != nil {
			before = cm.Data[key]
		}
		var after string
		if after, refusal = change(before); after == before {
			return nil
		}
		return o.writeText(ctx, cm, key, manager, after)
	})
	if err != nil {
		return err
	}
	return refusal
}

// writeText overwrites the read object; cm is nil if it did not exist.
func (o *Object) writeText(ctx context.Context, cm *corev1.ConfigMap, key, manager, text string) error {
	config := o.config().WithData(map[string]string{key: text})
	if cm != nil {
		return o.apply(ctx, config.WithUID(cm.UID).WithResourceVersion(cm.ResourceVersion), manager)
	}
	// An apply would not notice an object created meanwhile.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.Name(), Labels: config.Labels, Annotations: config.Annotations},
		Data:       config.Data,
	}
	_, err := o.configMaps.Create(ctx, made, metav1.CreateOptions{FieldManager: manager})
	if apierrors.IsAlreadyExists(err) {
		return apierrors.NewConflict(corev1.Resource("configmaps"), o.Name(), err)
	}
	return o.explain("create", o.Name(), err)
}

// Trials returns the text of the trials, "" when there is none.
func (o *Object) Trials(ctx context.Context) (string, error) {
	cm, err := o.get(ctx, o.Name())
	if err != nil || cm == nil {
		return "", err
	}
	return cm.Data[keyTrials], nil
}
