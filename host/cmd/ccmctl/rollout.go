package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/report"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// rolloutFlags are the flags of the commands of rollout.
type rolloutFlags struct {
	managerFlags
	timeout time.Duration
}

func newRollout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Pause, promote and roll back what a provider is offered",
		Long: "Steer the rollout of a provider by the annotations of its ConfigMap, and wait for\n" +
			"the manager's answer. deploy/docs/upgrade.md has the phases. With --server that\n" +
			"manager is asked first whether it leads and has the provider.",
		Example: "  ccmctl rollout pause static\n" +
			"  ccmctl rollout pause static --resume\n" +
			"  ccmctl rollout promote static 3f2a9c01d4e5\n" +
			"  ccmctl rollout rollback static\n" +
			"  ccmctl rollout history static",
	}
	cmd.AddCommand(newPause(), newPromote(), newRollback(), newHistory())
	return cmd
}

// add adds the flags to a command whose first argument is a provider.
func (f *rolloutFlags) add(cmd *cobra.Command) *cobra.Command {
	f.managerFlags.add(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long the manager's answer is waited for")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.providers(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// providers are the names of the cluster's providers; none after an error.
func (f *rolloutFlags) providers(ctx context.Context) (names []string) {
	_, client, err := f.client()
	if err != nil {
		return nil
	}
	list, err := client.CoreV1().ConfigMaps(f.managers).List(ctx, metav1.ListOptions{LabelSelector: status.LabelProvider})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Labels[status.LabelProvider])
	}
	return names
}

func newPause() *cobra.Command {
	var f rolloutFlags
	var resume bool
	cmd := &cobra.Command{
		Use:     "pause PROVIDER",
		Short:   "Let no other module or configuration serve, until it is resumed",
		Example: "  ccmctl rollout pause static\n  ccmctl rollout pause static --resume",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if resume {
				return f.order(cmd, args[0], status.AnnotationPause, nil, "ProviderResumed")
			}
			return f.order(cmd, args[0], status.AnnotationPause, new(string), "ProviderPaused")
		},
	}
	cmd.Flags().BoolVar(&resume, "resume", false, "end the pause")
	return f.add(cmd)
}

// promotableText is the argument of promote: the beginning of a digest, or true.
var promotableText = regexp.MustCompile(`^(true|(sha256:)?[0-9a-f]{8,64})$`)

func newPromote() *cobra.Command {
	var f rolloutFlags
	return f.add(&cobra.Command{
		Use:   "promote PROVIDER DIGEST|true",
		Short: "Let a held or rolled back module serve, or keep the observed one at once",
		Long: "Let a held, rolled back or suspected module serve, or keep the observed one at\n" +
			"once. DIGEST is the beginning of the module's digest, 8 digits or more, so that\n" +
			"what is promoted is what you have seen; true is whatever is offered.",
		Example: "  ccmctl rollout promote static 3f2a9c01d4e5",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !promotableText.MatchString(args[1]) {
				return fmt.Errorf("%s: must be 8 digits or more of the module's digest, or true", text.Quote(args[1]))
			}
			digest := strings.TrimPrefix(args[1], "sha256:")
			return f.order(cmd, args[0], status.AnnotationPromote, &digest, "ProviderPromoted")
		},
	})
}

func newRollback() *cobra.Command {
	var f rolloutFlags
	return f.add(&cobra.Command{
		Use:   "rollback PROVIDER",
		Short: "Go back to the module and configuration that were kept before",
		Long: "Go back to the generation that was kept before the present one, with its old\n" +
			"configuration. The source still holds what was offered last.",
		Example: "  ccmctl rollout rollback static",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			yes := "true"
			return f.order(cmd, args[0], status.AnnotationRollback, &yes, "ProviderRollbackRequested")
		},
	})
}

// maxTold bounds a message, in bytes, as in an Event.
const maxTold = 1 << 10

// object is the ConfigMap of a provider.
func (f *rolloutFlags) object(ctx context.Context, client kubernetes.Interface, provider string) (*corev1.ConfigMap, error) {
	if err := f.has(ctx, provider); err != nil {
		return nil, err
	}
	cm, err := client.CoreV1().ConfigMaps(f.managers).Get(ctx, status.Name(provider), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("no manager in namespace %s has, or had, a provider %s: %w (--manager-namespace; kubectl -n %[1]s get configmap -l %[4]s)", f.managers, text.Quote(provider), err, status.LabelProvider)
	}
	return cm, err
}

// has verifies with the manager of --server that it has the provider of this
// cluster.
func (f *rolloutFlags) has(ctx context.Context, provider string) error {
	if f.server == "" {
		return nil
	}
	manager, err := f.direct()
	if err != nil {
		return err
	}
	defer manager.close()
	s, err := manager.status(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("--server %s: %w", f.server, err)
	case !s.Manager.Leads:
		return fmt.Errorf("--server %s: this manager stands by; %s leads: name that one, or leave --server out", f.server, cmp.Or(s.Manager.Holder, "nobody"))
	case !slices.ContainsFunc(s.Providers, func(p v1alpha1.Provider) bool { return p.Name == provider }):
		return fmt.Errorf("--server %s: this manager has no provider %s: is it the manager of this cluster?", f.server, text.Quote(provider))
	}
	return nil
}

// orderPeriod is the time between two checks for an answer.
const orderPeriod = 300 * time.Millisecond

// order sets an annotation, or removes it for nil, and waits for the manager's
// answer.
func (f *rolloutFlags) order(cmd *cobra.Command, provider, annotation string, value *string, answer string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	_, client, err := f.client()
	if err != nil {
		return err
	}
	cm, err := f.object(ctx, client, provider)
	if err != nil {
		return err
	}
	if _, set := cm.Annotations[annotation]; annotation == status.AnnotationPause && set == (value != nil) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "provider %s is so already: nothing was changed\n", provider)
		return err
	}
	before, err := f.events(ctx, client, cm)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": cm.UID, "annotations": map[string]any{annotation: value}}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().ConfigMaps(f.managers).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "ccmctl"}); err != nil {
		return err
	}
	return f.answer(ctx, cmd, client, cm, before, answer)
}

// answer waits for a new Event of the manager.
func (f *rolloutFlags) answer(ctx context.Context, cmd *cobra.Command, client kubernetes.Interface, cm *corev1.ConfigMap, before []corev1.Event, answer string) error {
	const refused = "ProviderCommandRefused"
	for {
		now, err := f.events(ctx, client, cm)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for i := range now {
			e := &now[i]
			if e.Reason != answer && e.Reason != refused || slices.ContainsFunc(before, func(old corev1.Event) bool { return old.UID == e.UID && old.Count == e.Count }) {
				continue
			}
			if e.Reason == refused {
				return fmt.Errorf("the manager refuses: %s", text.Line(e.Message, maxTold))
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", e.Reason, text.Line(e.Message, maxTold))
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("the manager has not answered yet: does one lead (" + report.ForManager(f.managers, "ccmctl status") + ")? The annotation stays until it does")
		case <-time.After(orderPeriod):
		}
	}
}

// events of a provider's ConfigMap, the oldest first.
func (f *rolloutFlags) events(ctx context.Context, client kubernetes.Interface, cm *corev1.ConfigMap) ([]corev1.Event, error) {
	list, err := client.CoreV1().Events(f.managers).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.name=" + cm.Name})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return told(&a).Compare(told(&b)) })
	return list.Items, nil
}

// told is the time of an Event's last occurrence.
func told(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
