package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rolloutName is the ConfigMap in which the manager says where the rollout of
// its provider stands, and whose annotations are commands.
const rolloutName = "wasm-ccm-provider-provider"

// rollBack takes the replacement back as an operator does, by an annotation.
func (st *stage) rollBack(ctx context.Context) error {
	const step = "an operator takes it back: kubectl annotate configmap " + rolloutName + " wasm-ccm.dev/rollback=true"
	st.show.step("%s", step)
	g, err := readGuest(filepath.Join(st.options.build, "static.wasm"))
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"wasm-ccm.dev/rollback":"true"}}}`)
	if _, err := st.client.CoreV1().ConfigMaps(st.system).Patch(ctx, rolloutName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-annotate"}); err != nil {
		return fmt.Errorf("annotate ConfigMap %s/%s: %w", st.system, rolloutName, err)
	}
	return st.show.expect(ctx, step, serveLimit, []expectation{
		{subject: "rollout", waiting: "its status says RolledBack, to " + g.version, look: func(ctx context.Context) (string, error) {
			return st.rolledBack(ctx, g)
		}},
		{subject: "event ProviderRolledBack", waiting: "an Event says that somebody asked for it", look: func(ctx context.Context) (string, error) {
			message, err := st.event(ctx, "ProviderRolledBack", "ByOperator")
			text, _, _ := strings.Cut(message, ";")
			return text, err
		}},
	})
}

// rolledBack returns the line that kubectl shows with -L, once it says so.
func (st *stage) rolledBack(ctx context.Context, g guest) (string, error) {
	cm, err := st.client.CoreV1().ConfigMaps(st.system).Get(ctx, rolloutName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	label := func(name string) string { return cm.Labels["wasm-ccm.dev/"+name] }
	if label("phase") != "RolledBack" || label("version") != g.version {
		return "", nil
	}
	return fmt.Sprintf("phase %s, reason %s, generation %s, version %s, offered %s, serving %s, since %s",
		label("phase"), label("reason"), label("generation"), label("version"), label("offered"), label("serving"), label("since")), nil
}
