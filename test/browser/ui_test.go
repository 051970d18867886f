package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// ui is a running nagi ui.
type ui struct {
	url  string
	stop func() // interrupts it, and waits for its end
}

// ui starts the program with flags, and waits for its address.
func (w *world) ui(flags ...string) *ui {
	w.Helper()
	cmd := exec.Command(program, append([]string{"--server", w.srv.URL(), "ui"}, flags...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	var once sync.Once
	stop := func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				w.Errorf("nagi ui: %v", err)
			}
		})
	}
	w.Cleanup(stop)
	line, err := bufio.NewReader(text).ReadString('\n')
	w.must(err)
	return &ui{strings.TrimSpace(line), stop}
}

// tab is a tab of the browser, and all that it complains about.
type tab struct {
	*testing.T
	ctx  context.Context
	base string

	mu         sync.Mutex
	complaints []string
}

// tab opens an empty tab for the page, as wide as a window is that has so many pixels. At the end of the test there must
// be no complaint.
func (u *ui) tab(t *testing.T, width int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{T: t, ctx: ctx, base: u.url}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, audits.Enable, cdp.Empty{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: reports})
	b.resize(width)
	t.Cleanup(func() {
		for _, complaint := range b.heard() {
			t.Errorf("the browser complains: %s", complaint)
		}
		cancel()
	})
	return b
}

// reports collects what the policy of the page forbids.
const reports = `addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " +
	e.blockedURI + " " + e.sample), true);`

func (b *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var said []string
		for _, arg := range e.Args {
			said = append(said, string(arg.Value), arg.Description)
		}
		b.complain("console.%s: %s", e.Type, strings.Join(said, " "))
	case *runtime.EventExceptionThrown:
		b.complain("exception: %s", e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.complain("log: %s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		said, _ := json.Marshal(e.Issue)
		b.complain("issue: %s", said)
	case *page.EventJavascriptDialogOpening:
		b.complain("a dialog: %s", e.Message)
		go func() { // who listens must not wait
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.base+"/") && url != "about:blank" {
			b.complain("it asks for %s", url)
		}
	}
}

func (b *tab) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// heard are the complaints up to now, which are forgotten.
func (b *tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.complaints
	b.complaints = nil
	return all
}

// patience is how long a step of the browser may take.
const patience = 30 * time.Second

// run runs steps of chromedp.
func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// call gives the browser a command of its protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// eval is the value of an expression of JavaScript, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%v\n%s", err, expression)
	}
	return value
}

// open opens a path, and waits until it is loaded.
func (b *tab) open(path string) {
	b.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

func (b *tab) resize(width int64) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1,
	})
}

// scheme is light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// script lets the page have scripts, or not.
func (b *tab) script(on bool) {
	b.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// do evaluates what has no value.
func (b *tab) do(statement string) {
	b.Helper()
	eval[chromedp.Void](b, statement)
}

// text is the value of an expression that is a text, and texts of one that is a list of them.
func (b *tab) text(expression string) string {
	b.Helper()
	return eval[string](b, expression)
}

func (b *tab) texts(expression string) []string {
	b.Helper()
	return eval[[]string](b, expression)
}

// says is the text of the page, as it is seen.
func (b *tab) says() string {
	b.Helper()
	return b.text(`document.body.innerText`)
}

// until waits for an expression to be true; meanwhile another page may be loaded.
func (b *tab) until(what, expression string) time.Duration {
	b.Helper()
	began := time.Now()
	var failed error
	for time.Since(began) < patience {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if holds {
			return time.Since(began)
		}
		failed = err
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatalf("not within %v: %s (%v)\n%s", patience, what, failed, b.says())
	return 0
}

// live waits until the page follows changes.
func (b *tab) live() {
	b.Helper()
	b.until("the page is live", `document.getElementById("following").textContent.startsWith("Live")`)
}

// press presses keys: text, or constants of package kb.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until an element that a selector names has the focus.
func (b *tab) tabTo(selector string) {
	b.Helper()
	quoted, _ := json.Marshal(selector)
	for range 100 {
		b.press(kb.Tab)
		if eval[bool](b, fmt.Sprintf(`document.activeElement.matches(%s)`, quoted)) {
			return
		}
	}
	b.Fatalf("the key Tab does not lead to %s", selector)
}

// loaded waits until what the keyboard began has loaded another page.
func (b *tab) loads(do func()) {
	b.Helper()
	b.do(`window.before = true`)
	do()
	b.until("another page is loaded", `!window.before && document.readyState == "complete"`)
}

// shoot makes a picture of the whole page, light and dark, where $SHOTS says: for people.
func (b *tab) shoot(name string) {
	b.Helper()
	dir := os.Getenv("SHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		b.do(`document.activeElement.blur(); scrollTo(0, 0)`)
		picture := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
		file := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "-").Replace(name)+"-"+scheme+".png")
		if err := os.WriteFile(file, picture.Data, 0o600); err != nil {
			b.Error(err)
		}
	}
}
