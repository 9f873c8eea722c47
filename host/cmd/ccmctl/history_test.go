package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecycle "github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
)

// Generations that differ by their configurations alone are told apart, and each column, and
// word in it, is explained.
func TestHistoryListsGenerations(t *testing.T) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "wasm-ccm-provider-a", Labels: map[string]string{status.LabelPhase: "Kept", status.LabelServing: "90cc1877203d"}},
		Data: map[string]string{"record": `{"good":{"revision":"r"},"history":[
			{"name":"static","version":"v2","digest":"90cc1877203d4f5e","configDigest":"bbbbbbbbbbbbbbbb","generation":2,"offered":"2026-11-23T03:00:00Z","from":"2026-11-23T03:00:02Z","kept":"2026-11-23T03:02:02Z","calls":214,"questions":12},
			{"name":"static","version":"v1\u001b[2J","digest":"90cc1877203d4f5e","configDigest":"aaaaaaaaaaaaaaaa","generation":1,"from":"2026-11-22T03:00:02Z","until":"2026-11-23T03:00:02Z","calls":9,"failures":3,"why":"Replaced\nby\tv2","by":"jane"}]}`,
			"status": "serving: {configDigest: bbbbbbbbbbbbbbbb}"},
	}
	events := []corev1.Event{{Reason: "ProviderKept", Message: "static v2", LastTimestamp: metav1.NewTime(time.Date(2026, 11, 23, 3, 2, 2, 0, time.UTC))}}
	var out strings.Builder
	if err := writeHistory(&out, cm, events); err != nil {
		t.Fatal(err)
	}
	want := `GENERATION   MODULE          DIGEST         CONFIG         OFFERED                FROM                   UNTIL                  KEPT                   CALLS   FAILED   ASKED   BY     ENDED
2            static v2       90cc1877203d   bbbbbbbbbbbb   2026-11-23T03:00:00Z   2026-11-23T03:00:02Z   serves                 2026-11-23T03:02:02Z   214     0        12      -      -
1            static v1?[2J   90cc1877203d   aaaaaaaaaaaa   -                      2026-11-22T03:00:02Z   2026-11-23T03:00:02Z   -                      9       3        0       jane   Replaced; by v2

2026-11-23T03:02:02Z  ProviderKept             static v2
now: phase Kept, serving 90cc1877203d, configuration sha256:bbbbbbbbbbbb
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	help := mustCcmctl(t, "rollout", "history", "--help")
	for _, column := range append(strings.Fields(want[:strings.Index(want, "\n")]), "serves", lifecycle.ReasonByOperator, lifecycle.ReasonErrorBudget, lifecycle.ReasonExaminationFailed, lifecycle.ReasonModuleSuspected) {
		if !regexp.MustCompile(`(?m)[ (]` + column + `[ :,)].*\w`).MatchString(help) {
			t.Errorf("%s is not explained:\n%s", column, help)
		}
	}
}

// An older manager's ConfigMap has no generations, and an edited one is named.
func TestHistoryWithoutGenerations(t *testing.T) {
	for record, wrong := range map[string]bool{"": false, `{"paused":true}`: false, "{": true} {
		var out strings.Builder
		err := writeHistory(&out, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wasm-ccm-provider-a"}, Data: map[string]string{"record": record}}, nil)
		if wrong != (err != nil) || err == nil && out.String() != "now: phase , serving -\n" {
			t.Errorf("%q: %q, %v", record, out.String(), err)
		}
	}
}
