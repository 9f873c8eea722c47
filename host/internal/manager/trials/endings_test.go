package trials

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/status"
	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/trial"
)

func processIn(t *testing.T, client *fake.Clientset, dir string, providers ...string) *process {
	return newProcessOf(t, client, Options{
		Manager: "host:1", Dir: dir, WhoAmI: func(context.Context) (trial.Account, error) { return trial.Account{}, nil },
		Pod: "ccm-1", Ended: func(_ context.Context, left trial.Mark) Said {
			return Said{Text: "the kubelet says: OOMKilled of " + left.Pod}
		},
	}, providers...)
}

// endedAs is a process with this report about the previous one's end.
func endedAs(t *testing.T, client *fake.Clientset, said Said) *process {
	return newProcessOf(t, client, Options{
		Manager: "host:1", WhoAmI: func(context.Context) (trial.Account, error) { return trial.Account{}, nil },
		Ended: func(context.Context, trial.Mark) Said { return said },
	}, "main")
}

// The kubelet reports that the previous process exited with 0, which could
// write neither to the API server nor to a file.
func TestAProcessThatExitedInOrderIsBlamedForNothing(t *testing.T) {
	earlier, later := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		said    Said
		blamed  bool
		message string
	}{
		"it exited with 0":                     {said: Said{Text: "exit code 0", Began: earlier, Orderly: true}},
		"it was killed":                        {said: Said{Text: "exit code 137", Began: earlier}, blamed: true, message: "exit code 137"},
		"another one, after it, exited with 0": {said: Said{Text: "exit code 0", Began: later, Orderly: true}, blamed: true},
		"another one, after it, was killed":    {said: Said{Text: "exit code 137", Began: later}, blamed: true},
		"nobody knows":                         {blamed: true},
	} {
		client := fake.NewClientset()
		begin(t, endedAs(t, client, Said{}).books[0], "new", trial.Offered)
		next := endedAs(t, client, test.said).books[0]
		if !test.blamed {
			begin(t, next, "new", trial.Offered)
			continue
		}
		s := refusedAs[*trial.Suspect](t, next, "new", trial.Offered).Error()
		if !strings.Contains(s, test.message) || test.message == "" && strings.Contains(s, "exit code") {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// A provider that is configured later gets the report, too.
func TestALateBookHearsOfTheOrderlyEnd(t *testing.T) {
	client := fake.NewClientset()
	before := endedAs(t, client, Said{})
	begin(t, before.books[0], "new", trial.Offered)
	begin(t, before.Book(t.Context(), "late", status.New(client, "ns", "late", clock.RealClock{})), "new", trial.Offered)
	next := endedAs(t, client, Said{Text: "exit code 0", Began: time.Now().Add(-time.Hour), Orderly: true})
	begin(t, next.books[0], "new", trial.Offered)
	begin(t, next.Book(t.Context(), "late", status.New(client, "ns", "late", clock.RealClock{})), "new", trial.Offered)
}

// When a machine is switched off the API server goes first.
func TestAnOrderlyEndIsNotedWithoutAnAPIServer(t *testing.T) {
	client, dir := fake.NewClientset(), t.TempDir()
	p := processIn(t, client, dir, "main")
	begin(t, p.books[0], "new", trial.Offered)
	away := true
	client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away, nil, errors.New("connection refused")
	})
	if err := p.Leave(t.Context()); err == nil {
		t.Error("it is struck out without an API server")
	}
	away = false
	p = processIn(t, client, dir, "main")
	begin(t, p.books[0], "new", trial.Offered)

	p = processIn(t, client, dir, "main") // the previous one was killed
	if s := refusedAs[*trial.Suspect](t, p.books[0], "new", trial.Offered); !strings.Contains(s.Error(), "OOMKilled of ccm-1") {
		t.Error(s)
	}
}

// The clock was ahead when a process wrote its note, and is right again: the
// note is not about the next process.
func TestANoteIsNotAboutTheNextProcess(t *testing.T) {
	client, dir := fake.NewClientset(), t.TempDir()
	now := time.Now()
	if err := (ending{now.Add(-time.Hour).UnixNano(), now.Add(time.Hour).UnixNano()}).note(dir); err != nil {
		t.Fatal(err)
	}
	begin(t, processIn(t, client, dir, "main").books[0], "new", trial.Offered) // and it was killed
	_ = refusedAs[*trial.Suspect](t, processIn(t, client, dir, "main").books[0], "new", trial.Offered)
}

// An edited note is ignored.
func TestADamagedNoteSaysNothing(t *testing.T) {
	for _, content := range []string{"", "{", `{"began":-1,"last":0}`, `{"began":0,"last":9223372036854775807}`, `{"began":0,"last":9223372036854775807}` + strings.Repeat(" ", maxEnding)} {
		client, dir := fake.NewClientset(), t.TempDir()
		begin(t, processIn(t, client, dir, "main").books[0], "new", trial.Offered)
		if err := os.WriteFile(filepath.Join(dir, "ended.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = refusedAs[*trial.Suspect](t, processIn(t, client, dir, "main").books[0], "new", trial.Offered)
	}
}

// Two providers had a module on trial when the manager ended, in this process
// or in the previous leader: only the newest is blamed.
func TestTheNewestTrialOfAllProvidersIsBlamed(t *testing.T) {
	for _, next := range []string{"host:1", "other:1"} {
		client := fake.NewClientset()
		first := newProcess(t, client, "host:1", "one", "two")
		begin(t, first.books[0], "older", trial.Offered)
		begin(t, first.books[1], "newer", trial.Offered)
		second := newProcess(t, client, next, "one", "two")
		begin(t, second.books[0], "older", trial.Offered)
		_ = refusedAs[*trial.Suspect](t, second.books[1], "newer", trial.Offered)
	}
}

// An image whose reading ends the manager is read once, and no module is blamed.
func TestAnImageThatEndsTheManagerIsReadOnce(t *testing.T) {
	client := fake.NewClientset()
	image := "sha256:" + strings.Repeat("ab", 32)
	p := newProcess(t, client, "host:1", "main")
	passed(t, p.books[0], begin(t, p.books[0], "good", trial.Offered))
	if _, err := p.books[0].Pulls().Begin(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	for range 2 * trial.MostEnds { // it ends repeatedly, for other reasons
		p = newProcess(t, client, "host:1", "main")
		begin(t, p.books[0], "good", trial.Trusted)
		_, err := p.books[0].Pulls().Begin(t.Context(), image)
		if err == nil || !strings.Contains(err.Error(), "ended while it read the image") || !strings.Contains(err.Error(), "ccmctl rollout promote main abababababab --manager-namespace ns") {
			t.Fatal(err)
		}
		if err := p.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p = newProcess(t, client, "host:1", "main")
	if s, err := p.books[0].Pardon(t.Context(), "abababab"); err != nil || s.Image != image {
		t.Fatal(s, err)
	}
	done, err := p.books[0].Pulls().Begin(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	done()
	written(t, p.books[0])
}
