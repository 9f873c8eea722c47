package statusapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/lifecycle/rollout"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>javascript:`

// hostileStatus has hostile in every text that a module, a cloud or a user can set.
func hostileStatus() *v1alpha1.Status {
	object := v1alpha1.Object{Kind: v1alpha1.KindService, Namespace: hostile, Name: hostile}
	stuck := []v1alpha1.Explanation{{Object: object, State: v1alpha1.StateStuck, Cause: hostile, Message: hostile, WaitsFor: hostile}}
	module := &v1alpha1.Module{Name: hostile, Version: hostile, Digest: hostile}
	return &v1alpha1.Status{
		Manager: v1alpha1.Manager{Version: hostile, Host: hostile, Holder: hostile},
		Nobodys: stuck,
		Providers: []v1alpha1.Provider{{
			Name: hostile, Phase: hostile, Reason: hostile, Message: hostile, Paused: true, Source: &object, Serving: module, Offered: module, Candidate: module, Good: module,
			Conditions: []metav1.Condition{{Type: hostile, Reason: hostile, Message: hostile}},
			Loops:      []v1alpha1.Loop{{Name: hostile, Reason: hostile}},
			Hosts:      []v1alpha1.Host{{Host: hostile, Breaker: hostile, Until: metav1.NewTime(time.Now().Add(time.Minute)), LastFault: hostile}},
			Brake:      &v1alpha1.Brake{Engaged: true, Gone: 2, Nodes: 3}, Stuck: stuck,
		}},
	}
}

// pagesOf returns the pages of a source with hostile texts.
func pagesOf(t *testing.T) map[string]string {
	t.Helper()
	op := &v1alpha1.Op{Name: hostile, Code: hostile, Message: hostile}
	f := &fake{
		status:      hostileStatus(),
		explanation: &v1alpha1.Explanation{Object: v1alpha1.Object{Kind: hostile, Name: hostile}, Provider: hostile, Cause: hostile, Message: hostile, WaitsFor: hostile, Asked: op, Next: []v1alpha1.Step{{What: hostile, Command: hostile}}, Also: []v1alpha1.Finding{{Cause: hostile, Message: hostile}}},
		calls:       &v1alpha1.Calls{Latest: []v1alpha1.Call{{Provider: hostile, CallKind: v1alpha1.CallKind{Op: hostile, Path: hostile}, Object: hostile}}, Counts: []v1alpha1.CallCount{{Provider: hostile}}},
	}
	pages := map[string]string{}
	for _, path := range []string{v1alpha1.PagePath, v1alpha1.WhyPagePath + "?kind=Node&name=a", v1alpha1.CallsPagePath} {
		w := get(t, serve(f), http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "alert(1)") {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
		pages[path] = w.Body.String()
	}
	f.err = apierrors.NewServiceUnavailable(hostile)
	w := get(t, serve(f), http.MethodGet, v1alpha1.PagePath)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("an error: %d", w.Code)
	}
	pages["an error"] = w.Body.String()
	return pages
}

// Every text of a module, a cloud or a user stays text on the page: a browser
// finds only the page's own elements and attributes.
func TestTextsStayTexts(t *testing.T) {
	elements := strings.Fields("a article body br code dd div dl dt h1 h2 h3 head header html li meta ol p pre section span style table tbody td th thead title tr ul")
	attributes := strings.Fields("charset class content data-of href id lang name")
	for path, page := range pagesOf(t) {
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && !slices.Contains(elements, n.Data) {
				t.Errorf("%s has an element %s", path, n.Data)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Errorf("%s has an attribute %s of %s", path, a.Key, n.Data)
				}
				if a.Key == "href" && !regexp.MustCompile(`^(why|calls|status)([?#]|$)`).MatchString(a.Val) {
					t.Errorf("%s has a link to %q", path, a.Val)
				}
			}
		}
	}
}

// A browser loads only the page's own style for it.
func TestThePageLoadsNothing(t *testing.T) {
	w := get(t, serve(&fake{}), http.MethodGet, v1alpha1.PagePath)
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(w.Body.String())
	if style == nil {
		t.Fatalf("no style:\n%s", w.Body)
	}
	sum := sha256.Sum256([]byte(style[1]))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := w.Header().Get("Content-Security-Policy"); got != want {
		t.Errorf("the policy is %q, want %q", got, want)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Each phase has its tone.
func TestTonesOfPhases(t *testing.T) {
	for phase, want := range map[rollout.Phase]string{
		rollout.Waiting: "busy", rollout.Loading: "busy", rollout.Probed: "busy", rollout.Shadowed: "busy",
		rollout.Serving: "good", rollout.Kept: "good",
		rollout.Rejected: "bad", rollout.Held: "bad", rollout.RolledBack: "bad",
	} {
		if got := tone(string(phase)); got != want {
			t.Errorf("%s is shown as %s, want %s", phase, got, want)
		}
	}
}
