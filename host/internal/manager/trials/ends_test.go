package trials

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// answersLate has the next write done, and answered by an error: a slow API
// server's client gives up before it hears of it.
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

// What was written although nobody heard of it stands for nothing that runs: the
// next try is another one, and passes.
func TestAMarkThatWasWrittenUnheardAccusesNobody(t *testing.T) {
	client := fake.NewClientset()
	a := newProcess(t, client, "a:1", "main")
	a.run(t)
	begin(t, a.books[0], "first", rollout.Offered) // the object is there
	answersLate(client)
	if e := refusedAs[*plugin.LoadError](t, a.books[0], "good", rollout.Offered); e.Reason != ReasonNotMarked {
		t.Fatal(e)
	}
	passed(t, begin(t, a.books[0], "good", rollout.Offered))

	standby := newProcess(t, client, "b:1", "main")
	begin(t, standby.books[0], "good", rollout.Trusted)
	begin(t, standby.books[0], "good", rollout.Standby)
	again := newProcess(t, client, "a:1", "main") // killed while it ran what has passed
	begin(t, again.books[0], "good", rollout.Trusted)
}

// Who may write the ConfigMap of one provider does not keep the others from
// loading anything new.
func TestTrialsThatCannotBeReadAreOneProvidersOnly(t *testing.T) {
	client := fake.NewClientset()
	begin(t, newProcess(t, client, "host:1", "one", "two").books[0], "new", rollout.Offered)
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
	if e := refusedAs[*plugin.LoadError](t, p.books[0], "new", rollout.Offered); !strings.Contains(e.Error(), "wasm-ccm-provider-one, key trials") {
		t.Errorf("error %v", e)
	}
	begin(t, p.books[1], "new", rollout.Offered)
}

// The API server that was away for the lease is back a moment later.
func TestLeavingIsTriedAgain(t *testing.T) {
	client := fake.NewClientset()
	p := newProcess(t, client, "host:1", "one", "two")
	for _, b := range p.books {
		begin(t, b, "new", rollout.Offered)
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
		begin(t, b, "new", rollout.Offered)
	}
}
