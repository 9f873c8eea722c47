package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/provider"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
)

// guestOfTinyGo reads a guest that make has built.
func guestOfTinyGo(tb testing.TB, name string) []byte {
	tb.Helper()
	dir := os.Getenv("CCM_BUILD")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "build")
	}
	wasm, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		tb.Fatalf("%v; run make guests-test", err)
	}
	return wasm
}

// TestACrashIsLocated is what the author of a provider reads of each mistake,
// in the error that is in the log and in the Event on the Service: the words of
// the panic, and the functions down to his own.
func TestACrashIsLocated(t *testing.T) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			balancers := crashing(t, e, guestOfTinyGo(t, "faulty.wasm"), func(s string) string { return s })
			for annotation, want := range map[string]string{
				"crash:nil-map": `the guest trapped: wasm error: unreachable; it wrote "panic: runtime error: assignment to entry in nil map"; in runtime\..* < .*provider`,
				"crash:index":   `the guest trapped: wasm error: unreachable; it wrote "panic: runtime error: index out of range"; in runtime\..* < .*provider`,
				"crash:memory":  `the guest trapped: wasm error: unreachable; it wrote "fatal error: out of memory"; in runtime\.runtimeFatal < runtime\.alloc < .*provider`,
				"crash:stack":   `the guest trapped: wasm error: (stack overflow|out of bounds memory access).*; in \(\*main\.pool\)\.depth \(\d\d times\)`,
				"trap":          `it wrote "panic: as the annotation of the Service asks"; in runtime\..* < .*provider`,
				"spin":          `the guest was ended: context deadline exceeded; in \(\*main\.provider\)\.misbehave < `,
			} {
				err := balancers.ensure(annotation)
				if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
					t.Errorf("%s: %v\nwant %s", annotation, err, want)
				}
				t.Logf("%s:\n%v", annotation, err)
				if err != nil {
					checkText(t, err)
				}
			}
			if err := balancers.ensure(""); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestTheDocumentShowsTheCrashes: what guests/DEBUGGING.md shows is what is read.
func TestTheDocumentShowsTheCrashes(t *testing.T) {
	document := read(t, filepath.Join("..", "..", "..", "guests", "DEBUGGING.md"))
	balancers := crashing(t, engines()[0], guestOfTinyGo(t, "faulty.wasm"), func(s string) string { return s })
	for _, how := range []string{"nil-map", "index", "memory"} {
		err := balancers.ensure("crash:" + how)
		if err == nil {
			t.Fatalf("%s: no error", how)
		}
		if _, text, _ := strings.Cut(err.Error(), ": "); !strings.Contains(document, "    "+text+"\n") {
			t.Errorf("guests/DEBUGGING.md does not show\n%s", text)
		}
	}
}

// TestADebugBuildTellsTheLine, of each mistake, by its own words.
func TestADebugBuildTellsTheLine(t *testing.T) {
	source := strings.Split(read(t, filepath.Join("..", "..", "..", "guests", "faulty", "crash.go")), "\n")
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			balancers := crashing(t, e, guestOfTinyGo(t, "faulty-debug.wasm"), func(s string) string { return s })
			for how, mistake := range map[string]string{
				"nil-map": `p.owners["first"] = uid`, "index": "p.addresses[len(p.addresses)] = uid", "memory": "page := make(",
			} {
				line := 1 + slices.IndexFunc(source, func(text string) bool { return strings.Contains(text, mistake) })
				err := balancers.ensure("crash:" + how)
				if want := fmt.Sprintf("guests/faulty/crash.go:%d; main.", line); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v\nwant %s", how, err, want)
				}
			}
		})
	}
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// TestACrashWithoutNames: damaged names cost the names and nothing else.
func TestACrashWithoutNames(t *testing.T) {
	e := engines()[0]
	wasm := guestOfTinyGo(t, "faulty.wasm")
	for title, damaged := range map[string][]byte{
		"two sections": append(slices.Clone(wasm), section(0, append(name("name"), 1, 0))...),
		"not UTF-8":    bytes.Replace(wasm, []byte("runtime.runtimePanicAt"), []byte("runtime\xffruntimePanicAt"), 1),
	} {
		balancers := crashing(t, e, damaged, func(s string) string { return s })
		err := balancers.ensure("crash:nil-map")
		if want := `panic: runtime error: assignment to entry in nil map"; in function \d+ < function \d+`; err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v\nwant %s", title, err, want)
		}
		if warnings := strings.Join(balancers.generation.Warnings(), "; "); !strings.Contains(warnings, "no names of functions are told after a crash: meter: the section of names") {
			t.Errorf("%s: the warnings are %q", title, warnings)
		}
	}
}

// TestTheWordsOfACrashAreScrubbed, and are not told at all where nothing
// scrubs.
func TestTheWordsOfACrashAreScrubbed(t *testing.T) {
	e := engines()[0]
	wasm := guestOfTinyGo(t, "faulty.wasm")
	hidden := crashing(t, e, wasm, func(s string) string { return strings.ReplaceAll(s, "annotation", "[scrubbed]") }).ensure("trap")
	if hidden == nil || !strings.Contains(hidden.Error(), `"panic: as the [scrubbed] of the Service asks"`) {
		t.Errorf("%v", hidden)
	}
	if mute := crashing(t, e, wasm, nil).ensure("trap"); mute == nil || strings.Contains(mute.Error(), "it wrote") || !strings.Contains(mute.Error(), "unreachable; in runtime.") {
		t.Errorf("%v", mute)
	}
}

// balancers are those of a guest that crashes when its Service asks for it.
type balancers struct {
	tb         testing.TB
	slot       *plugin.Slot
	generation *plugin.Generation
}

func crashing(t *testing.T, e engineCase, wasm []byte, scrub func(string) string) balancers {
	t.Helper()
	made := e.make(cacheOf(t))
	loader := newWorld(true).loader(made, defaultLimits(time.Minute), abi.Capabilities())
	loader.Scrub = scrub
	g, err := loader.Load(t.Context(), plugin.Bundle{Module: wasm})
	if err != nil {
		t.Fatal(err)
	}
	slot := plugin.NewSlot()
	slot.Swap(t.Context(), g)
	t.Cleanup(func() {
		slot.Close(context.Background())
		if err := made.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return balancers{t, slot, g}
}

func cacheOf(tb testing.TB) string {
	dir := tb.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// ensure makes the load balancer of a Service with the annotation. What spins
// is given less time: what crashes needs more on a busy machine.
func (b balancers) ensure(annotation string) error {
	s := aService()
	s.Annotations = map[string]string{"faulty.example.com/ensure": annotation}
	balancer, ok := provider.New(b.slot).LoadBalancer()
	if !ok {
		b.tb.Fatal("the guest has no load balancers")
	}
	ctx := b.tb.Context()
	if annotation == "spin" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
	}
	_, err := balancer.EnsureLoadBalancer(ctx, "hostile", s, nil)
	return err
}
