package provider

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/convert"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/opcontext"
)

// Volumes asks the guest for the labels of volumes.
type Volumes struct{ invoker opcontext.Invoker }

// Supports reports whether the serving guest labels volumes.
func (v *Volumes) Supports() bool { return v.invoker.Supports(abi.OpVolumeLabels) }

// GetLabelsForVolume returns the labels of a volume; an empty map if the guest has none for
// it.
func (v *Volumes) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	const op = abi.OpVolumeLabels
	volume, err := convert.Volume(pv)
	if err != nil {
		return nil, err
	}
	ctx = opcontext.NewContext(ctx, opcontext.Op{
		Object: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: pv.Name, UID: pv.UID, ResourceVersion: pv.ResourceVersion},
	})
	var answer abi.VolumeLabelsResponse
	if err := invoke(ctx, v.invoker.Invoke, op, pv.Name, &abi.VolumeLabelsRequest{Volume: volume}, &answer); err != nil {
		return nil, err
	}
	if !answer.Done {
		return nil, invalidAnswer(op, pv.Name, errors.New("the answer does not say done"))
	}
	labels, err := convert.CloudVolumeLabels(answer.Labels)
	if err != nil {
		return nil, invalidAnswer(op, pv.Name, err)
	}
	return labels, nil
}
