// Command browser opens pages of the manager in a real Chromium, as people see them,
// and fails where they could not read them. It is a module of its own, since only
// this test needs what drives a browser.
//
//	browser [-o DIR] URL LINK
//
// It opens URL at the sizes of a desktop and of a phone, light and dark, then clicks
// the link with the text LINK there. Each page is checked (see checks.js), and
// DIR gets a screenshot of each.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

//go:embed checks.js
var checks string

// view is how a page is seen.
type view struct {
	name          string
	width, height int64
	phone         bool
	scheme        string
}

func views() []view {
	return []view{
		{"desktop-light", 1280, 900, false, "light"},
		{"desktop-dark", 1280, 900, false, "dark"},
		{"phone-light", 390, 844, true, "light"},
		{"phone-dark", 390, 844, true, "dark"},
	}
}

func main() {
	out := flag.String("o", ".", "the directory for screenshots")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: browser [-o DIR] URL LINK")
		os.Exit(2)
	}
	if err := run(*out, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out, url, link string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	var all complaints
	if err := chromedp.Listen(ctx, all.hear); err != nil {
		return fmt.Errorf("is Chromium there? %w", err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		return err
	}
	for _, v := range views() {
		if err := v.look(ctx, out, url, link); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return all.err()
}

// look opens the page and the one behind the link.
func (v view) look(ctx context.Context, out, url, link string) error {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	if err := do(ctx, chromedp.EmulateViewport(v.width, v.height, v.emulated), chromedp.Navigate(url)); err != nil {
		return err
	}
	if err := v.check(ctx, filepath.Join(out, v.name+".png")); err != nil {
		return err
	}
	// A click as a person makes it: the link must be visible, and not under another.
	if err := do(ctx, chromedp.Click(chromedp.Search(fmt.Sprintf("//a[contains(., %q)]", link))), chromedp.WaitVisible("//ol")); err != nil {
		return fmt.Errorf("the link %q: %w", link, err)
	}
	if err := v.check(ctx, filepath.Join(out, v.name+"-why.png")); err != nil {
		return fmt.Errorf("the page of %q: %w", link, err)
	}
	return nil
}

func do(ctx context.Context, actions ...chromedp.Action[chromedp.Void]) error {
	for _, a := range actions {
		if _, err := chromedp.Run(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (v view) emulated(p *emulation.SetDeviceMetricsOverrideParams, t *emulation.SetTouchEmulationEnabledParams) {
	p.Mobile, t.Enabled = v.phone, v.phone
}

// check looks for what people could not read, and keeps a picture.
func (v view) check(ctx context.Context, file string) error {
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf("(%s)(%q)", checks, v.scheme)))
	if err != nil {
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	var all []error
	for _, one := range found {
		all = append(all, errors.New(one))
	}
	return errors.Join(append(all, os.WriteFile(file, picture, 0o644))...)
}

// complaints are what the browser itself writes into its console: refused styles,
// failed requests, and errors.
type complaints struct {
	mu  sync.Mutex
	all []error
}

func (c *complaints) hear(event any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, said := event.(*log.EventEntryAdded); said {
		c.all = append(c.all, fmt.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL))
	}
}

func (c *complaints) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.all...)
}
