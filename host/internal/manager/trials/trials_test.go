package trials

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/source"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// process is the trials of a manager's process.
type process struct {
	*Trials
	books []*Book
}

func newProcess(t *testing.T, client *fake.Clientset, name string, providers ...string) *process {
	return newProcessAs(t, client, name, trial.Account{Name: "ccm", UID: "1"}, providers...)
}

func newProcessAs(t *testing.T, client *fake.Clientset, name string, account trial.Account, providers ...string) *process {
	return newProcessOf(t, client, Options{Manager: name, WhoAmI: func(context.Context) (trial.Account, error) { return account, nil }}, providers...)
}

func newProcessOf(t *testing.T, client *fake.Clientset, o Options, providers ...string) *process {
	p := &process{Trials: New(o)}
	for _, provider := range providers {
		b := p.Book(t.Context(), provider, status.New(client, "ns", provider, clock.RealClock{}))
		p.books = append(p.books, b)
	}
	p.Seal()
	return p
}

// run writes notes until the test, or the process, ends.
func (p *process) run(t *testing.T) (kill func()) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, b := range p.books {
		go b.Run(ctx)
	}
	return cancel
}

func offered(name string) source.Bundle {
	return source.Bundle{Module: []byte(name), Config: []byte("config")}
}

func begin(t *testing.T, b *Book, name string, s trial.Standing) rollout.Trial {
	t.Helper()
	trial, err := b.Of("")(t.Context(), offered(name), engine.Default, s)
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

func refusedAs[T error](t *testing.T, b *Book, name string, s trial.Standing) (e T) {
	t.Helper()
	if _, err := b.Of("")(t.Context(), offered(name), engine.Default, s); !errors.As(err, &e) {
		t.Fatalf("%v, want a %T", err, e)
	}
	return e
}

// passed lets the newest trial of a book pass an hour ago.
func passed(t *testing.T, of *Book, told rollout.Trial) {
	t.Helper()
	ago := of.now().Add(-time.Hour)
	of.note(func(b *trial.Book) { b.Reach(of.Manager, b.Marks[len(b.Marks)-1].ID, trial.Kept, ago) })
	told(rollout.Kept)
	written(t, of)
}

func waits(err error) bool {
	_, busy := errors.AsType[*trial.Busy](err)
	return busy
}

// written waits until the notes are written.
func written(t *testing.T, b *Book) {
	t.Helper()
	if err := b.change(t.Context(), func(*trial.Book) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestAManagerThatEndedOnATrialRefusesTheModule(t *testing.T) {
	client := fake.NewClientset()
	first := newProcess(t, client, "host:1", "main")
	first.run(t)
	passed(t, first.books[0], begin(t, first.books[0], "good", trial.Offered))
	begin(t, first.books[0], "bad", trial.Offered)

	second := newProcess(t, client, "host:1", "main") // the first one ends without a note
	begin(t, second.books[0], "good", trial.Trusted)
	s := refusedAs[*trial.Suspect](t, second.books[0], "bad", trial.Offered)
	if text := s.Error(); !strings.Contains(text, "the manager host:1 ended while it tried") || !strings.Contains(text, "offer another one") {
		t.Errorf("message %q", text)
	}
	other := newProcess(t, client, "other:1", "main")
	_ = refusedAs[*trial.Suspect](t, other.books[0], "bad", trial.Standby)
	begin(t, other.books[0], "good", trial.Standby)
	begin(t, second.books[0], "bad", trial.Pardoned)
}

// A drained node ends its manager at any moment.
func TestAManagerThatEndsAsItShouldSuspectsNothing(t *testing.T) {
	client := fake.NewClientset()
	first := newProcess(t, client, "host:1", "main", "other")
	begin(t, first.books[0], "new", trial.Offered)
	begin(t, first.books[1], "new", trial.Offered)
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := first.books[0].Of("")(t.Context(), offered("new"), engine.Default, trial.Offered) // which would leave a mark
	if !waits(err) {
		t.Errorf("a manager that ends begins something: %v", err)
	}
	second := newProcess(t, client, "host:1", "main", "other")
	begin(t, second.books[0], "new", trial.Offered)
	begin(t, second.books[1], "new", trial.Offered)
}

func TestAProviderIsNotSuspectedForAnother(t *testing.T) {
	client := fake.NewClientset()
	for range 5 {
		p := newProcess(t, client, "host:1", "one", "two")
		begin(t, p.books[1], "good", trial.Trusted)
		_, err := p.books[0].Of("")(t.Context(), offered("bad"), engine.Default, trial.Pardoned)
		if err != nil {
			t.Fatal(err)
		}
	}
	p := newProcess(t, client, "host:1", "one", "two")
	begin(t, p.books[1], "good", trial.Trusted)
	_ = refusedAs[*trial.Suspect](t, p.books[0], "bad", trial.Offered)
}

func TestSignersAreTriedByOneManagerAtATime(t *testing.T) {
	client := fake.NewClientset()
	a, b := newProcess(t, client, "a:1", "main"), newProcess(t, client, "b:1", "main")
	a.run(t)
	signer := func(p *process) (rollout.Trial, error) {
		return p.books[0].Of("cloud")(t.Context(), offered("signer"), engine.Default, trial.Offered)
	}
	trial, err := signer(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer(b); !waits(err) || !strings.Contains(err.Error(), "the manager a:1 is trying it") {
		t.Errorf("error %v", err)
	}
	passed(t, a.books[0], trial)
	if _, err := signer(b); err != nil {
		t.Error(err)
	}
}

func TestASuspectedSignerCanBePromoted(t *testing.T) {
	client := fake.NewClientset()
	begin := func() error {
		p := newProcess(t, client, "a:1", "main")
		_, err := p.books[0].Of("cloud")(t.Context(), offered("signer"), engine.Default, trial.Offered)
		return err
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	var s *trial.Suspect
	if err := begin(); !errors.As(err, &s) {
		t.Fatalf("error %v", err)
	}
	p := newProcess(t, client, "a:1", "main")
	for argument, want := range map[string]string{"true": "", "": "", "0000000000": ""} {
		if s, err := p.books[0].Pardon(t.Context(), argument); s.Signer != want || err != nil {
			t.Errorf("%q: %+v, %v", argument, s, err)
		}
	}
	digest := plugin.Bundle{Module: []byte("signer")}.Digests().Module
	if s, err := p.books[0].Pardon(t.Context(), "sha256:"+digest[:12]); s.Signer != "cloud" || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := p.books[0].Of("cloud")(t.Context(), offered("signer"), engine.Default, trial.Offered); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeWrittenDownIsNotLoaded(t *testing.T) {
	for verb, right := range map[string]string{"get": `verbs: ["get"]`, "patch": `verbs: ["patch"]`} {
		client := fake.NewClientset()
		begin(t, newProcess(t, client, "a:1", "main").books[0], "first", trial.Offered) // the object exists
		client.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "n", errors.New("no"))
		})
		e := refusedAs[*plugin.LoadError](t, newProcess(t, client, "b:1", "main").books[0], "new", trial.Offered)
		if e.Reason != ReasonNotMarked || !strings.Contains(e.Error(), right) {
			t.Errorf("%s: %s: %v", verb, e.Reason, e)
		}
	}
}
