package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// crashStep is a moment between two steps of a teardown, at which a process kills itself, and what it leaves.
type crashStep struct {
	name   string
	pages  int  // of three
	anchor bool // without one nobody has to be told of the delete again
}

// crashSteps are the moments of the teardown of a site with three pages, in order.
var crashSteps = []crashStep{
	{"before the reconciler", 3, true},
	{"at the reconciler's end", 3, true},
	{"before the leader is asked", 3, true},
	{"after the leader was asked", 3, true},
	{"before delete 1", 3, true},
	{"after delete 1", 2, true},
	{"before delete 2", 2, true},
	{"after delete 2", 1, true},
	{"before delete 3", 1, true},
	{"after delete 3", 0, true},
	{"before the anchor's removal is sent", 0, true},
	{"after the anchor's removal was sent", 0, false},
	{"after the anchor was removed", 0, false},
}

// suicide kills the process when the teardown of a site comes to a moment.
type suicide struct {
	moment    string
	tearsDown atomic.Bool
	deletes   atomic.Int64
}

func (s *suicide) at(moment string) {
	if moment == s.moment && s.tearsDown.Load() {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// Dial watches what the process sends: the engine has no place of its own where the removal of an anchor could be
// caught.
func (s *suicide) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, patience)
	return &watchedConn{Conn: conn, suicide: s}, err
}

type watchedConn struct {
	net.Conn
	suicide *suicide
}

func (c *watchedConn) Write(p []byte) (int, error) {
	removal := bytes.Contains(p, []byte("$KV.sites-status.home ")) && bytes.Contains(p, []byte("PURGE"))
	if removal {
		c.suicide.at("before the anchor's removal is sent")
	}
	n, err := c.Conn.Write(p)
	if removal {
		c.suicide.at("after the anchor's removal was sent")
	}
	return n, err
}

// askedBefore is a client that also tells when the leader is about to be asked.
type askedBefore struct {
	*hooked
	suicide *suicide
}

func (a *askedBefore) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	a.suicide.at("before the leader is asked")
	return a.hooked.Confirm(ctx, key)
}

// teardownChild is the process that kills itself: a controller whose sites own as many pages as their spec says.
func teardownChild(url, moment string) error {
	s := &suicide{moment: moment}
	nc, err := nats.Connect(url, nats.SetCustomDialer(s))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	siteClient, err := entity.NewClient[*site](ctx, js, crashConfig("Site", "sites"))
	if err != nil {
		return err
	}
	pageClient, err := entity.NewClient[*page](ctx, js, crashConfig("Page", "pages"))
	if err != nil {
		return err
	}
	sites, pages := &askedBefore{&hooked{Client: siteClient}, s}, &hooked{Client: pageClient}
	sites.afterConfirm = func(string, entity.Presence) { s.at("after the leader was asked") }
	pages.onDelete = func(_ string, remove func() error) error {
		n := s.deletes.Add(1)
		s.at(fmt.Sprint("before delete ", n))
		err := remove()
		s.at(fmt.Sprint("after delete ", n))
		return err
	}
	work := pagesOf(sites, pages)
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		gone := req.Operations.Has(OperationDelete)
		s.tearsDown.Store(gone)
		s.at("before the reconciler")
		result, err := work(ctx, req)
		s.at("at the reconciler's end")
		return result, err
	}), Owns(pages), WithOnResult(func(r ReconcileResult) {
		s.at("after the anchor was removed")
	}))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// killsItself runs a teardownChild that is to die at a moment of the teardown of a site, and returns when it is dead.
func killsItself(t *testing.T, w *world, moment string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(slices.Clone(os.Environ()), childEnv+"=teardown", "NAGI_TEST_URL="+w.server.URL(),
		"NAGI_TEST_MOMENT="+moment)
	child.Stderr = os.Stderr
	must(t, child.Start())
	died := make(chan error, 1)
	go func() { died <- child.Wait() }()
	done := false
	defer func() {
		if !done {
			_ = child.Process.Kill()
			<-died
		}
	}()
	sites := w.sites()
	must(t, sites.Create(t.Context(), siteWithPages("home", 3)))
	eventuallyReason(t, sites, "home", entity.ReasonSynced)
	must(t, sites.Delete(t.Context(), "home"))
	select {
	case err := <-died:
		done = true
		exit, is := errors.AsType[*exec.ExitError](err)
		if !is || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child ended with %v, not by its SIGKILL", err)
		}
	case <-time.After(patience):
		t.Fatal("the teardown never came there")
	}
}

// TestATeardownSurvivesACrashAtEachStep lets a process kill itself between each two steps of a teardown, and another
// one finish: nothing that the site owned is left, nor a record, and the reconciler is told Delete once more where
// the anchor stood, and nothing where it did not.
func TestATeardownSurvivesACrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range crashSteps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			killsItself(t, w, step.name)
			sites, pages := w.sites(), w.pages()
			eventually(t, fmt.Sprintf("it left an anchor: %v", step.anchor), func() bool {
				return noRecord(t, sites, "home")() != step.anchor
			})
			takeLeaseAway(t, sites)
			if n := count(t, pages); n != step.pages {
				t.Fatalf("it left %d pages, want %d", n, step.pages)
			}
			var seen calls
			c, err := New("sites", sites, seen.reconciler(pagesOf(sites, pages)), Owns(pages))
			must(t, err)
			w.run(c)
			eventually(t, "the teardown is finished", func() bool {
				return noRecord(t, sites, "home")() && count(t, pages) == 0
			})
			must(t, sites.Create(t.Context(), siteWithPages("other", 1)))
			eventuallyReason(t, sites, "other", entity.ReasonSynced)
			idle(t, c)
			told, want := seen.of("home"), 0
			if step.anchor {
				want = 1
			}
			// The delete may come together with an event of a page.
			if len(told) != want || seen.with("home", OperationDelete) != want {
				t.Errorf("the second process was told %v, want %d deletes", told, want)
			}
			if n := count(t, pages); n != 1 {
				t.Errorf("%d pages are there, want the one of the other site", n)
			}
			if held := c.Stats().Brake; held.Engaged {
				t.Errorf("the brake is engaged: %+v", held)
			}
		})
	}
}
