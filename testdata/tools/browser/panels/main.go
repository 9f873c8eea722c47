// Command panels opens the page of testdata/dashboard in a real Chromium: the chart's
// dashboard with the data of a Prometheus. It fails where a panel shows nothing, or
// not what it should.
//
//	panels [-o DIR] URL
//
// DIR gets a picture of the dashboard, and one of each panel.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// A page that is not drawn within this time is not drawn.
const patience = time.Minute

func main() {
	out := flag.String("o", ".", "the directory for pictures")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: panels [-o DIR] URL")
		os.Exit(2)
	}
	if err := run(*out, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// panel is what the page says that it shows (Shown in testdata/dashboard/src/data.ts).
type panel struct {
	ID     int
	Title  string
	Unit   string
	Errors []string
	Series []struct {
		Name, Target string
		Samples      int
	}
	Targets []string
}

func run(out, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	for _, action := range []chromedp.Action[chromedp.Void]{chromedp.EmulateViewport(1616, 1200), chromedp.Navigate(url)} {
		if _, err := chromedp.Run(ctx, action); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
	}
	panels, err := shown(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return errors.Join(check(panels), pictures(ctx, out, panels))
}

// shown waits until everything is drawn.
func shown(ctx context.Context) ([]panel, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		failed, err := chromedp.Run(ctx, chromedp.Evaluate[string](`window.failed || ""`))
		if err != nil || failed != "" {
			return nil, errors.Join(err, errors.New(failed))
		}
		panels, err := chromedp.Run(ctx, chromedp.Evaluate[[]panel](`window.panels || []`))
		if err != nil || len(panels) > 0 {
			return panels, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// check finds panels that say nothing, or that say it badly.
func check(panels []panel) error {
	var all []error
	for _, p := range panels {
		complain := func(format string, args ...any) {
			all = append(all, fmt.Errorf("panel %d, %s: %s", p.ID, p.Title, fmt.Sprintf(format, args...)))
		}
		for _, e := range p.Errors {
			complain("%s", e)
		}
		if p.Unit == "" {
			complain("it has no unit")
		}
		drawn := map[string]bool{}
		for _, s := range p.Series {
			if strings.Contains(s.Name, "{{") || strings.TrimSpace(s.Name) == "" {
				complain("its legend says %q", s.Name)
			}
			if s.Samples == 0 { // one of these spoils the scale for the others
				complain("the series %q has nothing but NaN", s.Name)
			}
			drawn[s.Target] = drawn[s.Target] || s.Samples > 0
		}
		for _, target := range p.Targets {
			if !drawn[target] {
				complain("its query %s has no data", target)
			}
		}
		fmt.Printf("panel %d, %s (%s): %d series\n", p.ID, p.Title, p.Unit, len(p.Series))
		for _, s := range p.Series {
			fmt.Printf("  %s: %d samples\n", s.Name, s.Samples)
		}
	}
	return errors.Join(all...)
}

func pictures(ctx context.Context, out string, panels []panel) error {
	whole, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "dashboard.png"), whole, 0o644)
	}
	for _, p := range panels {
		if err != nil {
			return err
		}
		var picture []byte
		if picture, err = chromedp.Run(ctx, chromedp.Screenshot(fmt.Sprintf("#panel-%d", p.ID))); err == nil {
			err = os.WriteFile(filepath.Join(out, fmt.Sprintf("dashboard-%d.png", p.ID)), picture, 0o644)
		}
	}
	return err
}
