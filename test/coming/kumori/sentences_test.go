package kumori

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sentences are those of docs/from-kumori.md that begin with a number, and what they say, each on a server of its own.
var sentences = map[string]func(w *world){
	"SyncHandler is all that a controller has to write.": func(w *world) {
		w.run(NewSiteController(w.Clients))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		if site, err := w.Sites.Get(w.Context(), "home"); err != nil || !site.Status.Published || !w.page("home") {
			w.Errorf("site %+v, error %v, page %v", site, err, w.page("home"))
		}
	},
	"After an error SyncHandler is called again, with backoff.": func(w *world) {
		w.run(w.controller(func(string) error { return errors.New("not yet") }))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		if n := len(w.since()); n < 4 || n > 20 {
			w.Errorf("called %d times in a second", n)
		}
	},
	"There is no cascade: what a primary owned stays until SyncHandler deletes it.": func(w *world) {
		c := w.controller(nil)
		w.run(c)
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		c.syncBy(func(string) error { return nil })
		w.do(w.Sites.Delete(w.Context(), "home"))
		time.Sleep(3 * time.Minute)
		if !w.page("home") {
			w.Error("the page is gone")
		}
	},
	"A primary that was deleted while no controller ran is synced at the next start.": func(w *world) {
		stop := w.run(w.controller(nil))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		stop()
		w.since()
		w.do(w.Sites.Delete(w.Context(), "home"))
		w.run(w.controller(nil))
		if got := w.since(); !slices.Equal(got, []string{"home Delete"}) || w.page("home") {
			w.Errorf("synced %q, page %v", got, w.page("home"))
		}
	},
	"A secondary that changes has its owner synced.": func(w *world) {
		w.run(w.controller(nil))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		w.since()
		w.do(w.Pages.Delete(w.Context(), "home"))
		if got := w.since(); len(got) == 0 || got[0] != "home Secondary" || !w.page("home") {
			w.Errorf("synced %q, page %v", got, w.page("home"))
		}
	},
	"A HandleSecondary of your own takes the place of the default, and only what it enqueues is synced.": func(w *world) {
		c := &deaf{w.controller(nil)}
		c.SetCustomController(c)
		w.run(c)
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		w.since()
		w.do(w.Pages.Delete(w.Context(), "home"))
		if got := w.since(); len(got) != 0 {
			w.Errorf("synced %q", got)
		}
	},
	"A tertiary that changes has nothing synced, unless the controller has HandleTertiary.": func(w *world) {
		stop := w.run(w.controller(nil))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		w.since()
		w.do(w.Themes.Create(w.Context(), &Theme{ObjectMeta: metav1.ObjectMeta{Name: "dark"}}))
		if got := w.since(); len(got) != 0 {
			w.Errorf("without HandleTertiary: synced %q", got)
		}
		stop()
		c := &themed{w.controller(nil)}
		c.SetCustomController(c)
		w.run(c)
		w.since()
		w.do(w.Themes.Delete(w.Context(), "dark"))
		if got := w.since(); !slices.Equal(got, []string{"home Tertiary"}) {
			w.Errorf("with HandleTertiary: synced %q", got)
		}
	},
	"The default GarbageSecondaries has an owner that is missing synced with OperationDelete.": func(w *world) {
		first := w.controller(nil)
		stop := w.run(first)
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		first.syncBy(func(string) error { return nil })
		w.do(w.Sites.Delete(w.Context(), "home")) // and the page stays
		stop()
		w.run(w.controller(nil))
		time.Sleep(2 * time.Minute)
		if got := w.since(); len(got) == 0 || got[len(got)-1] != "home Delete" || w.page("home") {
			w.Errorf("synced %q, page %v", got, w.page("home"))
		}
	},
	"Each primary is synced once in each resync interval, at a turn of its own.": func(w *world) {
		w.run(w.controller(nil))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		time.Sleep(time.Minute)
		w.since()
		time.Sleep(3 * time.Minute)
		if got := w.since(); !slices.Equal(got, []string{"home Resync", "home Resync", "home Resync"}) {
			w.Errorf("synced %q", got)
		}
	},
	"EnqueueKeyAfter has a key synced when its time has come, for the reason that it gives.": func(w *world) {
		c := w.controller(nil)
		w.run(c)
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		w.since()
		c.EnqueueKeyAfter("home", controllerruntime.OperationManual, 2*time.Second)
		time.Sleep(time.Second)
		early := w.since()
		time.Sleep(1001 * time.Millisecond)
		if got := w.since(); len(early) != 0 || !slices.Equal(got, []string{"home Manual"}) {
			w.Errorf("synced early %q, then %q", early, got)
		}
	},
	"What is written with Context belongs to the primary, and what another primary owns is refused.": func(w *world) {
		c, results := w.controller(nil), make(chan error, 10)
		c.syncBy(func(key string) error {
			page := &Page{ObjectMeta: metav1.ObjectMeta{Name: "front"}}
			_, err := controller.CreateOrUpdate(c.Context(key), w.Pages, page, func(*Page) error { return nil })
			results <- err
			return nil
		})
		w.run(c)
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		if err := <-results; err != nil {
			w.Error(err)
		}
		page, err := w.Pages.Get(w.Context(), "front")
		if err != nil {
			w.Fatal(err)
		}
		if kind, key, _ := controller.OwnerOf(page); kind != "Site" || key != "home" {
			w.Errorf("owner %s %s", kind, key)
		}
		for len(results) > 0 {
			<-results // the page's own event has home synced again
		}
		w.do(w.Sites.Create(w.Context(), w.site("shop")))
		var owned *controller.AlreadyOwnedError
		if err := <-results; !errors.As(err, &owned) {
			w.Errorf("error %v", err)
		}
	},
	"An owner may be named by the labels kumori/ownerkind and kumori/ownerkey alone.": func(w *world) {
		w.run(w.controller(nil))
		w.do(w.Sites.Create(w.Context(), w.site("home")))
		w.since()
		w.do(w.Pages.Create(w.Context(), &Page{ObjectMeta: metav1.ObjectMeta{
			Name: "old", Labels: map[string]string{"kumori/ownerkind": "Site", "kumori/ownerkey": "home"}}}))
		if got := w.since(); !slices.Equal(got, []string{"home Secondary"}) {
			w.Errorf("synced %q", got)
		}
	},
	"Run without SetCustomController sends an error to errCh, and returns.": func(w *world) {
		c := w.controller(nil)
		c.SetCustomController(nil)
		errCh := make(chan error, 1)
		c.Run(1, make(chan struct{}), errCh)
		if err := <-errCh; err == nil {
			w.Error("no error")
		}
	},
	"Clean is called once, after the last worker has ended.": func(w *world) {
		c := &cleaning{noting: w.controller(nil)}
		c.SetCustomController(c)
		stop := w.run(c)
		before := c.cleaned
		stop()
		if before != 0 || c.cleaned != 1 {
			w.Errorf("called %d times before the stop, %d in all", before, c.cleaned)
		}
	},
}

type deaf struct{ *noting }

func (*deaf) HandleSecondary(any) {}

type themed struct{ *noting }

func (c *themed) HandleTertiary(any) { c.EnqueueKey("home", controllerruntime.OperationTertiary) }

type cleaning struct {
	*noting
	cleaned int
}

func (c *cleaning) Clean() { c.cleaned++ }

// numbered is a numbered item of the page, over one line or several.
var numbered = regexp.MustCompile(`(?m)^\d+\. (.+(?:\n {3}.+)*)$`)

func TestEachSentenceOfThePageHolds(t *testing.T) {
	page, err := os.ReadFile("../../../docs/from-kumori.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, item := range numbered.FindAllStringSubmatch(string(page), -1) {
		sentence := strings.ReplaceAll(strings.Join(strings.Fields(item[1]), " "), "`", "")
		said[sentence] = true
		holds := sentences[sentence]
		t.Run(sentence, func(t *testing.T) {
			if holds == nil {
				t.Fatal("no test runs this sentence")
			}
			natstest.Test(t, func(t *testing.T) { holds(newWorld(t)) })
		})
	}
	for sentence := range sentences {
		if !said[sentence] {
			t.Errorf("the page does not say: %s", sentence)
		}
	}
}

func TestTheMovedControllerDoesTheSame(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, err := Moved(w.Clients, func(context.Context, *Theme) ([]string, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		natstest.Run(t, c.Run)
		w.do(w.Sites.Create(t.Context(), w.site("home")))
		made := w.page("home")
		w.do(w.Sites.Delete(t.Context(), "home"))
		if !made || w.page("home") {
			t.Errorf("page made %v, and there after the delete %v", made, w.page("home"))
		}
	})
}
