package statusapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page's template and style
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/klog/v2"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
)

// pages are the status page, and one for each object: the API's values in a
// form for people. They have no script and load nothing.
type pages struct {
	template *template.Template
	// policy is the Content-Security-Policy: only the page's own style.
	policy string
	now    func() time.Time
}

func newPages() *pages {
	p := &pages{now: time.Now}
	sum := sha256.Sum256([]byte(pageCSS))
	p.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	p.template = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":  func() template.CSS { return template.CSS(pageCSS) }, // from this file, not from a cloud
		"ago":    p.ago,
		"digest": text.Digest,
		"tone":   tone,
		"took":   func(d metav1.Duration) string { return d.Round(10 * time.Millisecond).String() },
		"link":   link,
	}).Parse(pageHTML))
	return p
}

// install adds the pages, which share their turns with the API.
func (p *pages) install(mux Mux, turns chan struct{}, source Source) {
	mux.Handle(v1alpha1.PagePath, p.answering(turns, "status", func(ctx context.Context, _ url.Values) (any, error) { return source.Status(ctx) }))
	mux.Handle(v1alpha1.WhyPagePath, p.answering(turns, "why", why(source)))
	mux.Handle(v1alpha1.CallsPagePath, p.answering(turns, "calls", calls(source)))
}

// answering makes the handler of one page. An error is a page, too.
func (p *pages) answering(turns chan struct{}, name string, answer func(context.Context, url.Values) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		code, shown := http.StatusOK, name
		object, err := inTurn(ctx, turns, r, answer)
		if err != nil {
			failed := statusOf(err)
			object, shown, code = failed, "error", int(failed.Code)
		}
		var page bytes.Buffer
		if err := p.template.ExecuteTemplate(&page, shown, object); err != nil || page.Len() > v1alpha1.MaxAnswer {
			klog.FromContext(ctx).Error(err, "The status page cannot be written", "bytes", page.Len())
			http.Error(w, "the page cannot be written: ask for "+v1alpha1.StatusPath, http.StatusInternalServerError)
			return
		}
		p.write(w, r, code, page.Bytes())
	})
}

// write sends a page.
//
// Invariant V5 (host/SECURITY.md): a page runs and loads nothing, whatever a text in
// it says; no other page may frame it, and no cache keeps it.
func (p *pages) write(w http.ResponseWriter, r *http.Request, code int, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if _, err := w.Write(page); err != nil {
		klog.FromContext(r.Context()).V(2).Info("A page was not read to its end", "path", r.URL.Path, "err", err)
	}
}

// ago formats the time since a moment, or until a future one.
func (p *pages) ago(t metav1.Time) string {
	switch d := p.now().Sub(t.Time); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + duration.HumanDuration(-d)
	default:
		return duration.HumanDuration(d) + " ago"
	}
}

// tone is the presentation of a word of the API, beside the word itself, so
// that colours are optional: good, bad, or in progress. Phases are a rollout's.
func tone(word any) string {
	switch fmt.Sprint(word) {
	case "Done", v1alpha1.PhaseServing, v1alpha1.PhaseKept, "closed":
		return "good"
	case "Stuck", v1alpha1.PhaseRejected, v1alpha1.PhaseHeld, v1alpha1.PhaseRolledBack, "Removed", "open":
		return "bad"
	case "Ignored", "":
		return "none"
	default:
		return "busy"
	}
}

// link is the page of an object, relative to the status page.
func link(o v1alpha1.Object) string {
	return v1alpha1.WhyPagePath[strings.LastIndexByte(v1alpha1.WhyPagePath, '/')+1:] + "?" +
		url.Values{"kind": {o.Kind}, "namespace": {o.Namespace}, "name": {o.Name}}.Encode()
}
