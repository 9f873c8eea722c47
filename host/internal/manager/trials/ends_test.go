package trials

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// answersLate carries out the next write, and answers with an error, like a
// slow API server whose client gives up first.
func answersLate(client *fake.Clientset) {
	late := true
	client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !late {
			return false, nil, nil
		}
		late = false
		if _, _, err := clienttesting.ObjectReaction(client.Tracker())(action); err != nil {
			return true, nil, err
		}
		return true, nil, apierrors.NewTimeoutError("the server was unable to return a response in the time allotted", 1)
	})
}

// A write whose success was unknown stands for no running module: the next
// attempt is a new one, and passes.
func TestAMarkThatWasWrittenUnheardAccusesNobody(t *testing.T) {
	client := fake.NewClientset()
	a := newProcess(t, client, "a:1", "main")
	a.run(t)
	begin(t, a.books[0], "first", trial.Offered) // the object exists
	answersLate(client)
	if e := refusedAs[*plugin.LoadError](t, a.books[0], "good", trial.Offered); e.Reason != ReasonNotMarked {
		t.Fatal(e)
	}
	passed(t, a.books[0], begin(t, a.books[0], "good", trial.Offered))

	standby := newProcess(t, client, "b:1", "main")
	begin(t, standby.books[0], "good", trial.Trusted)
	begin(t, standby.books[0], "good", trial.Standby)
	again := newProcess(t, client, "a:1", "main") // killed while it ran a passed module
	begin(t, again.books[0], "good", trial.Trusted)
}

// A writer of one provider's ConfigMap cannot stop the others from loading new
// modules.
func TestTrialsThatCannotBeReadAreOneProvidersOnly(t *testing.T) {
	client := fake.NewClientset()
	begin(t, newProcess(t, client, "host:1", "one", "two").books[0], "new", trial.Offered)
	ctx := t.Context()
	cm, err := client.CoreV1().ConfigMaps("ns").Get(ctx, "wasm-ccm-provider-one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data["trials"] = "{"
	if _, err := client.CoreV1().ConfigMaps("ns").Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := newProcess(t, client, "host:1", "one", "two")
	if e := refusedAs[*plugin.LoadError](t, p.books[0], "new", trial.Offered); !strings.Contains(e.Error(), "wasm-ccm-provider-one, key trials") {
		t.Errorf("error %v", e)
	}
	begin(t, p.books[1], "new", trial.Offered)
}

// An API server that was unavailable for the lease is back a moment later.
func TestLeavingIsTriedAgain(t *testing.T) {
	client := fake.NewClientset()
	p := newProcess(t, client, "host:1", "one", "two")
	for _, b := range p.books {
		begin(t, b, "new", trial.Offered)
	}
	var away atomic.Int32
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if away.Add(1) > 4 {
			return false, nil, nil
		}
		return true, nil, errors.New("dial tcp 192.0.2.1:6443: connect: connection refused")
	})
	if err := p.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range newProcess(t, client, "host:1", "one", "two").books {
		begin(t, b, "new", trial.Offered)
	}
}

// The mark of an image whose write seemed to fail stands for no reading, and a
// manager that waits for another one says so.
func TestAnImageThatIsMarkedUnheardIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		image := "sha256:" + strings.Repeat("ab", 32)
		a, b := newProcess(t, client, "a:1", "main"), newProcess(t, client, "b:1", "main")
		begin(t, a.books[0], "first", trial.Offered) // the object exists
		answersLate(client)
		if _, err := a.books[0].Pulls().Begin(t.Context(), image); err == nil {
			t.Fatal("it is read")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.books[0].Pulls().Begin(ctx, image); err == nil || !strings.Contains(err.Error(), "the manager a:1 is trying it") {
			t.Error(err)
		}
		written(t, a.books[0])
		if _, err := b.books[0].Pulls().Begin(t.Context(), image); err != nil {
			t.Error(err)
		}
	})
}

// A manager ends in order before the success of its first mark's write is known.
func TestAMarkThatWasWrittenUnheardIsStruckOutAtTheEnd(t *testing.T) {
	client := fake.NewClientset()
	begin(t, newProcess(t, client, "a:1", "main").books[0], "first", trial.Offered)
	b := newProcess(t, client, "b:1", "main")
	answersLate(client)
	if e := refusedAs[*plugin.LoadError](t, b.books[0], "good", trial.Pardoned); e.Reason != ReasonNotMarked {
		t.Fatal(e)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin(t, newProcess(t, client, "b:1", "main").books[0], "good", trial.Offered)
}
