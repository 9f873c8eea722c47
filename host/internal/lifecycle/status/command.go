package status

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// CommandKind is the kind of an operator's command.
type CommandKind string

// The commands.
const (
	Pause    CommandKind = "Pause"
	Resume   CommandKind = "Resume"
	Promote  CommandKind = "Promote"
	Rollback CommandKind = "Rollback"
	// Unread is no command: Argument names an annotation that resembles one and is not
	// recognised.
	Unread CommandKind = "Unread"
)

// Command is an operator's command about a rollout.
type Command struct {
	Kind CommandKind
	// Argument is the annotation's value, at most 256 bytes.
	Argument string
	// By is the program that set the annotation, by its own name, and the time, e.g.
	// "kubectl-annotate at 2026-11-21T15:04:05Z". It is "" for Resume, and if the API server
	// does not say.
	By string
}

// oneShot are the annotations that are removed, in the order of handling: a rollback is
// never undone by a promotion.
var oneShot = [...]struct {
	annotation string
	kind       CommandKind
}{{AnnotationPromote, Promote}, {AnnotationRollback, Rollback}}

// seen is the worker's knowledge of the annotations.
type seen struct {
	started bool
	paused  bool
	// unread are the annotations already reported as Unread.
	unread map[string]bool
	// taken is the resourceVersion of the last removal of commands.
	taken string
}

// commands hands over the annotations' commands, once the object is known.
func (w *worker) commands(ctx context.Context) {
	cm, err := w.watched.Get()
	switch {
	case err != nil: // it was not listed yet
		return
	case cm == nil:
		cm = &corev1.ConfigMap{}
	}
	w.pause(cm)
	w.unread(cm)
	commands := pick(cm)
	if len(commands) == 0 || cm.ResourceVersion == w.seen.taken && cm.ResourceVersion != "" {
		return
	}
	switch err := w.take(ctx, cm); {
	case err == nil:
		w.seen.taken = cm.ResourceVersion
		for _, command := range commands {
			w.handle(command)
		}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// It has changed: the watch is about to deliver the change.
	default:
		// The write may have succeeded all the same, and the command must not run twice.
		w.logger.Error(err, "a command for the provider failed; set its annotation again if it is gone", "command", commands[0].Kind, "by", commands[0].By)
		w.again(ctx)
	}
}

// again examines the annotations once more after a while.
func (w *worker) again(ctx context.Context) {
	timer := w.clock.NewTimer(firstDelay)
	go func() {
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
			w.signal()
		}
	}()
}

// pause compares with the last reported state, at first with the record.
func (w *worker) pause(cm *corev1.ConfigMap) {
	value, paused := cm.Annotations[AnnotationPause]
	was := w.seen.paused
	if !w.seen.started {
		w.mu.Lock()
		was = w.paused && !paused // a continuing pause is reported again
		w.mu.Unlock()
	}
	w.seen.started, w.seen.paused = true, paused
	switch {
	case paused && !was:
		w.handle(Command{Kind: Pause, Argument: text.Line(value, maxText), By: author(cm, AnnotationPause)})
	case !paused && was:
		w.handle(Command{Kind: Resume})
	}
}

// maxUnread bounds the annotations reported as Unread.
const maxUnread = 5

// unread reports each unrecognised annotation of this project once: a misspelt rollback must
// not look obeyed.
func (w *worker) unread(cm *corev1.ConfigMap) {
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(cm.Annotations)) {
		if !strings.HasPrefix(name, annotationPrefix) || slices.Contains(Annotations(), name) || len(found) == maxUnread {
			continue
		}
		found[name] = true
		if !w.seen.unread[name] {
			w.handle(Command{Kind: Unread, Argument: text.Line(name, maxText), By: author(cm, name)})
		}
	}
	w.seen.unread = found
}

// pick returns the commands to be removed.
func pick(cm *corev1.ConfigMap) []Command {
	var commands []Command
	// Invariant R8 (host/SECURITY.md): commands come from the ConfigMap's annotations only.
	for _, c := range oneShot {
		if value, ok := cm.Annotations[c.annotation]; ok {
			commands = append(commands, Command{Kind: c.kind, Argument: text.Line(value, maxText), By: author(cm, c.annotation)})
		}
	}
	return commands
}

// take removes the commands, if the object has not changed since it was read: a newer
// command is not removed unseen.
func (w *worker) take(ctx context.Context, cm *corev1.ConfigMap) error {
	annotations := map[string]any{}
	for _, c := range oneShot {
		annotations[c.annotation] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cm.UID, "resourceVersion": cm.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = w.configMaps.Patch(ctx, w.Name(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: managerCommand})
	return w.explain("patch", w.Name(), err)
}

// author returns who last set an annotation, and when.
func author(cm *corev1.ConfigMap, annotation string) string {
	field := strconv.Quote("f:" + annotation)
	var last metav1.ManagedFieldsEntry
	for _, entry := range cm.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), field) && !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	name := text.Line(last.Manager, maxText)
	if last.Time == nil {
		return name
	}
	return name + " at " + last.Time.UTC().Format(time.RFC3339)
}
