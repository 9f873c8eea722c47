package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// freeDirectory has all free texts, and no other file.
const freeDirectory = "free-text/"

// maxLog bounds one log, in bytes.
const maxLog = 2 << 20

// free adds a text with unknown content.
//
// Invariant V6 (host/SECURITY.md): it is in a bundle only on a person's request.
func (b *bundle) free(asked bool, name, about string, data []byte) {
	if !asked {
		return
	}
	clean := b.clean(data)
	if len(clean) == 0 && len(data) > 0 {
		b.miss(freeDirectory+name, own("secrets stand in it too often"))
		return
	}
	b.missed(freeDirectory+name, b.add(freeDirectory+name, about, clean))
}

// indented is a document as JSON with all its texts.
func (b *bundle) indented(document any) []byte {
	data, err := json.MarshalIndent(document, "", "  ")
	b.missed("messages of an answer", err)
	return data
}

func eventLines(all []corev1.Event) []byte {
	var out bytes.Buffer
	for i := range all {
		e := &all[i]
		fmt.Fprintf(&out, "%s  %-7s %-28s x%d  %s %s/%s: %s\n", told(e).UTC().Format(time.RFC3339), e.Type, e.Reason, max(1, e.Count),
			e.InvolvedObject.Kind, cmp.Or(e.InvolvedObject.Namespace, "-"), e.InvolvedObject.Name, text.Line(e.Message, v1alpha1.MaxText))
	}
	return out.Bytes()
}

// logs adds the log of each container of a Pod, and after a restart that of the
// previous container.
func (c *bundleCluster) logs(ctx context.Context, pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		container := pod.Spec.Containers[i].Name
		base := "logs/" + pod.Name + "_" + container
		c.log(ctx, base+".log", pod, &corev1.PodLogOptions{Container: container})
		for n := range pod.Status.ContainerStatuses {
			if s := &pod.Status.ContainerStatuses[n]; s.Name == container && s.RestartCount > 0 {
				c.log(ctx, base+".previous.log", pod, &corev1.PodLogOptions{Container: container, Previous: true})
			}
		}
	}
}

func (c *bundleCluster) log(ctx context.Context, name string, pod *corev1.Pod, options *corev1.PodLogOptions) {
	options.TailLines, options.LimitBytes, options.Timestamps = &c.lines, new(int64(maxLog)), true
	stream, err := c.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		c.miss(freeDirectory+name, err)
		return
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		c.miss(freeDirectory+name, fmt.Errorf("after %d bytes: %w", len(data), err))
	}
	about := fmt.Sprintf("the last lines of a log, at most %d and %d bytes", c.lines, maxLog)
	if len(data) == maxLog {
		c.miss(freeDirectory+name, own("its last %d lines have more than %d bytes, and the end of them is missing: take fewer lines (--log-lines)", c.lines, maxLog))
	}
	// The last line may end with half a secret, which no search would find.
	if end := bytes.LastIndexByte(data, '\n'); len(data) == maxLog || err != nil {
		data = data[:end+1]
	}
	c.free(c.asked.logs, name, about, data)
}

// configurationText adds the configuration of a provider's module from its
// ConfigMap. A configuration in a Secret is never added.
func (c *bundleCluster) configurationText(ctx context.Context, p *config.Provider) {
	of := config.KeyReference{}
	switch {
	case p.ConfigFrom != nil && p.ConfigFrom.ConfigMap != nil:
		of = *p.ConfigFrom.ConfigMap
	case p.ConfigFrom == nil && p.Source.ConfigMap != nil:
		of = config.KeyReference{Namespace: p.Source.ConfigMap.Namespace, Name: p.Source.ConfigMap.Name}
	default:
		return
	}
	cm, err := c.client.CoreV1().ConfigMaps(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		c.miss("the configuration of provider "+p.Name, err)
		return
	}
	for key, value := range cm.Data {
		if of.Key == "" || key == of.Key {
			c.free(c.asked.configurations, "configurations/"+p.Name+"_"+key+".txt", "the configuration of a provider, as it is written", []byte(value))
		}
	}
}
