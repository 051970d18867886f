package denials

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// atOnce fails unless the condition holds as soon as nothing works any more, without a wait.
func atOnce(t *testing.T, what string, holds func() bool) {
	t.Helper()
	synctest.Wait()
	if !holds() {
		t.Fatalf("not at once: %s", what)
	}
}

// withRights makes a user who may not publish or subscribe to these subjects.
func withRights(noPublish, noSubscribe []string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "user", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{">"}, Deny: noPublish},
				Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: noSubscribe},
			}},
		}
	}
}

var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

func connect(t *testing.T, s *natstest.Server, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, _ := natstest.Connect(t, s.URL(), append([]nats.Option{nats.UserInfo(user, "x"), quiet}, opts...)...)
	return nc
}

// answering answers requests to "answered" and "denied.*".
func answering(t *testing.T, s *natstest.Server) {
	t.Helper()
	nc := connect(t, s, "admin")
	for _, subject := range []string{"answered", "denied.*"} {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte("yes")) })
		must(t, err)
	}
	must(t, nc.Flush())
}

// told returns what a watch is told at once.
func told(t *testing.T, errs <-chan error) *Error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-errs:
		denied, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, nats.ErrPermissionViolation) {
			t.Fatalf("told %v", err)
		}
		return denied
	default:
		t.Fatal("told nothing")
	}
	return nil
}

func TestEachOfManyDenialsAtOnceIsToldToItsOwnRequest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied.>"}, []string{"secret.>"})))
		nc := connect(t, s, "user")
		d := Of(nc)
		const n = 50
		tell := func() (chan error, func(error)) {
			errs := make(chan error, 2)
			return errs, func(err error) { errs <- err }
		}
		denied := map[string]chan error{}
		var granted []*Watch
		for i := range n {
			subject := fmt.Sprintf("denied.%dx", i)
			errs, tell := tell()
			denied[subject] = errs
			defer d.Publish(subject, tell).Stop()
			// Subjects that contain the denied one, or are contained in it, and a subscription of the same name.
			granted = append(granted, d.Publish("not."+subject, nil), d.Publish(subject+".more", nil),
				d.Publish(subject[:len(subject)-1], nil), d.Subscribe(subject, nil))
		}
		inbox, tellInbox := tell()
		defer d.Subscribe("secret.inbox", tellInbox).Stop()
		for subject := range denied {
			must(t, nc.Publish(subject, nil))
		}
		_, err := nc.SubscribeSync("secret.inbox")
		must(t, err)
		for subject, errs := range denied {
			got := told(t, errs)
			if got.Subject != subject || got.Subscription || !got.Dropped || !strings.Contains(got.Error(), subject) {
				t.Errorf("the watch of %s was told %+v", subject, got)
			}
		}
		if got := told(t, inbox); got.Subject != "secret.inbox" || !got.Subscription || got.Dropped {
			t.Errorf("the watch of the subscription was told %+v", got)
		}
		for _, w := range granted {
			if err := w.Err(); err != nil {
				t.Errorf("the watch of %q was told %v", w.Subject(), err)
			}
			w.Stop()
			w.Stop() // does nothing
		}
		for _, errs := range denied {
			if len(errs) > 0 {
				t.Errorf("told twice: %v", <-errs)
			}
		}
	})
}

// TestADenialThatMayBeAnothersProvesNothing: one of two messages to a subject may have been taken.
func TestADenialThatMayBeAnothersProvesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied"}, nil)))
		nc := connect(t, s, "user")
		d := Of(nc)
		first := d.Publish("denied", nil)
		second := d.Publish("denied", nil)
		defer first.Stop()
		second.Stop() // the denial may still be under way
		must(t, nc.Publish("denied", nil))
		atOnce(t, "it is told", func() bool { return first.Err() != nil })
		if got := first.denied(); got.Dropped {
			t.Errorf("told %+v", got)
		}
		alone := d.Publish("denied", nil)
		defer alone.Stop()
		if err := alone.Err(); err != nil {
			t.Errorf("told of a denial before it: %v", err)
		}
	})
}

func TestTheUsersErrorHandlerGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied"}, nil)))
		theirs := make(chan error, 10)
		nc := connect(t, s, "user", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			theirs <- err
		}))
		for range 3 { // one handler is enough
			defer Of(nc).Publish("denied", nil).Stop()
		}
		must(t, nc.Publish("denied", nil))
		if err := <-theirs; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the user's handler was told %v", err)
		}
		must(t, nc.Flush())
		nc.Close()
		if len(theirs) > 0 {
			t.Errorf("the user's handler was told again: %v", <-theirs)
		}
	})
}

// TestAnotherErrorHandlerIsNoObstacle: a watch made later is told, one made before knows if it is asked.
func TestAnotherErrorHandlerIsNoObstacle(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied.*"}, nil)))
		nc := connect(t, s, "user")
		d := Of(nc)
		var theirs atomic.Int64
		for round := range int64(3) {
			before, other := d.Publish("denied.before", nil), d.Publish("denied.befor", nil)
			// Twice the user sets a handler of his own, and then one that calls the one before.
			previous := nc.ErrorHandler()
			nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
				theirs.Add(1)
				if round == 2 {
					previous(nc, sub, err)
				}
			})
			must(t, nc.Publish("denied.before", nil))
			atOnce(t, "the watch knows", func() bool { return before.Err() != nil })
			if err := other.Err(); err != nil {
				t.Errorf("the watch of another subject knows %v", err)
			}
			before.Stop()
			other.Stop()
			errs := make(chan error, 2)
			after := d.Publish("denied.after", func(err error) { errs <- err })
			called := theirs.Load()
			must(t, nc.Publish("denied.after", nil))
			told(t, errs)
			after.Stop()
			atOnce(t, "the user's handler is called", func() bool { return theirs.Load() > called })
		}
	})
}

func TestADeniedRequestFailsAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied.>"}, nil)))
		answering(t, s)
		d := Of(connect(t, s, "user"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := d.Request(ctx, nats.NewMsg("denied.a"))
		denied, ok := errors.AsType[*Error](err)
		if !ok || denied.Subject != "denied.a" || !denied.Dropped || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		answer, err := d.Request(ctx, nats.NewMsg("answered"))
		must(t, err)
		if string(answer.Data) != "yes" {
			t.Errorf("answered %q", answer.Data)
		}
	})
}

// TestRequestsWorkAgainWhenTheInboxIsGrantedAgain: nats.go does not subscribe its inbox again.
func TestRequestsWorkAgainWhenTheInboxIsGrantedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights(nil, nil)))
		answering(t, s)
		nc := connect(t, s, "user")
		d := Of(nc)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := d.Request(ctx, nats.NewMsg("answered"))
		must(t, err)
		must(t, s.Reload(withRights(nil, []string{"_INBOX.>"})))
		for i := range 3 { // the first may still be sent with the old inbox
			began := time.Now()
			_, err = d.Request(ctx, nats.NewMsg("answered"))
			denied, ok := errors.AsType[*Error](err)
			if !ok || !denied.Subscription || !strings.Contains(err.Error(), "_INBOX.>") || time.Since(began) != 0 {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			if i > 0 && !denied.Dropped {
				t.Error("it was sent, though nobody could hear the answer")
			}
		}
		must(t, s.Reload(withRights(nil, nil)))
		_, err = d.Request(ctx, nats.NewMsg("answered"))
		must(t, err)
		if !d.deaf() {
			t.Error("the library hears again: requests need no inboxes of their own")
		}
		must(t, nc.ForceReconnect())
		natstest.Eventually(t, "the connection is back", func() bool {
			return nc.IsConnected() && nc.Stats().Reconnects == 1
		})
		if d.deaf() {
			t.Error("after a reconnect the library has subscribed again")
		}
		_, err = d.Request(ctx, nats.NewMsg("answered"))
		must(t, err)
	})
}

// TestARequestWithoutAnInboxIsNotSentThoughTheLibraryTellsOfThatLate: the user's error handler holds it up, and
// meanwhile the connection's last error is the denial of something else.
func TestARequestWithoutAnInboxIsNotSentThoughTheLibraryTellsOfThatLate(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied"}, []string{"_INBOX.>"})))
		admin := connect(t, s, "admin")
		sent, err := admin.SubscribeSync("answered")
		must(t, err)
		must(t, admin.Flush())
		var slow atomic.Bool
		held, release := make(chan struct{}, 1), make(chan struct{})
		nc := connect(t, s, "user", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
			if slow.Load() {
				held <- struct{}{}
				<-release
			}
		}))
		d := Of(nc)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = d.Request(ctx, nats.NewMsg("answered")) // the library subscribes its inbox with the first request
		must(t, sentOnce(err, sent))
		atOnce(t, "the library is deaf", d.deaf)
		slow.Store(true)
		must(t, nc.Publish("denied", nil))
		<-held // the handler is busy from now on

		ended := make(chan error, 1)
		subscriptions := nc.NumSubscriptions()
		go func() {
			_, err := d.Request(ctx, nats.NewMsg("answered"))
			ended <- err
		}()
		atOnce(t, "the request has subscribed an inbox", func() bool {
			return nc.NumSubscriptions() > subscriptions || len(ended) > 0
		})
		for range 100 { // one of these is the last error when the request looks
			must(t, nc.Publish("denied", nil))
			must(t, nc.Flush())
		}
		slow.Store(false)
		close(release)
		var denied *Error
		if err := <-ended; !errors.As(err, &denied) || !denied.Dropped {
			t.Errorf("got %v, want a denial of the inbox", err)
		}
		must(t, nc.Flush())
		must(t, admin.Flush())
		if n, _, err := sent.Pending(); n != 0 || err != nil {
			t.Errorf("it was sent all the same: %d, %v", n, err)
		}
	})
}

// sentOnce is of a first request whose answer is denied: it was sent, and is taken from the subscription.
func sentOnce(err error, sent *nats.Subscription) error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return fmt.Errorf("the first request: %w", err)
	}
	_, err = sent.NextMsg(time.Second)
	return err
}

func TestAnInboxThatWasDeniedBeforeIsKnown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights(nil, []string{"_INBOX.>"})))
		nc := connect(t, s, "user")
		_, err := nc.Request("answered", nil, 100*time.Millisecond)
		if !errors.Is(err, nats.ErrTimeout) {
			t.Fatalf("a request of the user: %v", err)
		}
		atOnce(t, "the connection has heard of it", func() bool {
			_, ok := parse(nc.LastError())
			return ok
		})
		if !Of(nc).deaf() {
			t.Error("not known")
		}
	})
}

func TestOtherErrorsAreNoDenials(t *testing.T) {
	for _, text := range []string{
		"Permissions Violation for Publish with Reply of \"a\"", "Permissions Violation for Publish to a",
		`Permissions Violation for Publish to "a`, "",
	} {
		if denied, ok := parse(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text)); ok {
			t.Errorf("%s: read as %+v", text, denied)
		}
	}
	if _, ok := parse(errors.New(`Permissions Violation for Publish to "a"`)); ok {
		t.Error("another error was read as a denial")
	}
	if _, ok := parse(nil); ok {
		t.Error("no error was read as a denial")
	}
	want := target{"é\"\x01", true}
	got, ok := parse(fmt.Errorf(`%w: Permissions Violation for Subscription to %q using queue "q" (sid "3")`,
		nats.ErrPermissionViolation, want.subject))
	if !ok || got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestABookEndsWithItsConnection(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied"}, nil)))
		there := func(key weak.Pointer[nats.Conn]) bool {
			books.Lock()
			defer books.Unlock()
			return books.of[key] != nil
		}
		key := func() weak.Pointer[nats.Conn] {
			nc, err := nats.Connect(s.URL(), nats.UserInfo("user", "x"), quiet, natstest.Dialer())
			must(t, err)
			defer nc.Close()
			w := Of(nc).Publish("denied", nil)
			defer w.Stop()
			must(t, nc.Publish("denied", nil))
			atOnce(t, "it is told", func() bool { return w.Err() != nil })
			key := weak.Make(nc)
			if !there(key) {
				t.Error("there is no book")
			}
			return key
		}()
		for there(key) { // the runtime cleans up beside the collector, outside of virtual time
			time.Sleep(time.Minute) // until nothing works that has the connection
			runtime.GC()
		}
	})
}

// TestADenialThatIsToldLateIsOfNoLaterMessage: a slow error handler of the user holds it up.
func TestADenialThatIsToldLateIsOfNoLaterMessage(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied", "other"}, nil)))
		admin := connect(t, s, "admin")
		got, err := admin.SubscribeSync("denied")
		must(t, err)
		must(t, admin.Flush())
		hold := make(chan struct{})
		nc := connect(t, s, "user", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { <-hold }))
		d := Of(nc)
		must(t, nc.Publish("other", nil)) // the user's handler is slow
		w1 := d.Publish("denied", nil)
		must(t, nc.Publish("denied", []byte("1")))
		atOnce(t, "w1 knows", func() bool { return w1.Err() != nil })
		w1.Stop()
		must(t, s.Reload(withRights(nil, nil)))
		w2 := d.Publish("denied", nil)
		must(t, nc.Publish("denied", []byte("2")))
		_, err = got.NextMsg(time.Second)
		must(t, err)
		told := make(chan struct{})
		last := d.Publish("other", func(error) { close(told) })
		must(t, s.Reload(withRights([]string{"other"}, nil)))
		must(t, nc.Publish("other", nil))
		close(hold) // errors come in order: when the last is told, the others have been
		<-told
		last.Stop()
		if err := w2.Err(); err != nil {
			t.Errorf("it was delivered, and is told of an earlier denial: %v", err)
		}
	})
}

// TestALateWordOfADeniedInboxIsForTheNextRequest, too: what the library takes its answers on stays denied.
func TestALateWordOfADeniedInboxIsForTheNextRequest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"denied.>"}, nil)))
		answering(t, s)
		entered, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		nc := connect(t, s, "user", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
			once.Do(func() {
				close(entered)
				<-release // so that the next error is told late
			})
		}))
		d := Of(nc)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := d.Request(ctx, nats.NewMsg("answered"))
		must(t, err)
		must(t, nc.Publish("denied.first", nil))
		<-entered
		must(t, s.Reload(withRights(nil, []string{"_INBOX.>"})))
		atOnce(t, "the connection has heard of it", func() bool {
			denied, ok := parse(nc.LastError())
			return ok && denied == d.replies
		})
		failed := make(chan error, 1)
		go func() {
			_, err := d.Request(ctx, nats.NewMsg("answered"))
			failed <- err
		}()
		atOnce(t, "the request waits", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.watches[d.replies] != nil
		})
		close(release)
		if got := told(t, failed); !got.Subscription || got.Grant != "_INBOX.>" {
			t.Errorf("it failed with %+v", got)
		}
	})
}
