package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/wasm-ccm/wasm-ccm/host/source"
)

func TestLongEventsAreCutBetweenCharacters(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	r := &teller{events: recorder}
	bundle := source.Bundle{Ref: &corev1.ObjectReference{Kind: "ConfigMap", Name: "provider"}}
	r.event(bundle, corev1.EventTypeWarning, eventRejected, strings.Repeat("ä", maxEventBytes))
	got := strings.TrimPrefix(<-recorder.Events, corev1.EventTypeWarning+" "+eventRejected+" ")
	if !utf8.ValidString(got) || len(got) > maxEventBytes || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes, valid UTF-8 %v: %q", len(got), utf8.ValidString(got), got)
	}
}
