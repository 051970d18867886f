package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// The program under test, and the browser that all tests share. Each tab has cookies and a cache of its own.
var (
	program string
	browser context.Context
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	klog.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "nagi-browser")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Chromium leaves its profile and the folder of a socket behind: they go with dir.
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return failed(err)
	}
	program = filepath.Join(dir, "nagi")
	build := exec.Command("go", "build", "-o", program, "./cmd/nagi")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		return failed(fmt.Errorf("nagi is not built: %w\n%s", err, said))
	}
	chromium, err := findChromium()
	if err != nil {
		return failed(err)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options(chromium)...)
	defer stop()
	var close context.CancelFunc
	browser, close = chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	defer close()
	if err := chromedp.Do(browser); err != nil {
		return failed(fmt.Errorf("%s does not start: %w", chromium, err))
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// findChromium is $CHROMIUM, or what a distribution calls it.
func findChromium() (string, error) {
	if name := os.Getenv("CHROMIUM"); name != "" {
		return name, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium: install it (as root: apt-get install chromium), or name one as CHROMIUM=/path")
}

// options are those of a browser that asks nothing of the internet and keeps nothing.
func options(chromium string) []chromedp.ExecAllocatorOption {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	return append(options, chromedp.ExecPath(chromium), chromedp.DisableGPU,
		chromedp.NoSandbox, // of root there is no other way
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", false),
		chromedp.Flag("font-render-hinting", "none"))
}
