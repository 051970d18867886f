package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithoutAHostTheControllersWordHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		grace, cancel := Grace(t.Context(), time.Second)
		defer cancel()
		<-grace.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the grace period was %v", took)
		}
		calls := 0
		apply := Candidate{Apply: func(context.Context) error { calls++; return nil }}
		if err := WhileElected(t.Context(), apply); err != nil || calls != 1 {
			t.Error(err, calls)
		}
	})
}

func TestAHostOnlyShortensTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ own, hosts, want time.Duration }{
			{-1, time.Second, time.Second},
			{time.Minute, time.Second, time.Second},
			{time.Second, time.Minute, time.Second},
		} {
			host, end := context.WithTimeout(context.Background(), test.hosts)
			began := time.Now()
			grace, cancel := Grace(With(t.Context(), Host{Grace: host}), test.own)
			<-grace.Done()
			if took := time.Since(began); took != test.want {
				t.Errorf("own %v, host's %v: it was %v", test.own, test.hosts, took)
			}
			cancel()
			end()
		}
	})
}

func TestItAppliesOncePerTermOfTheHost(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	terms, released := 0, 0
	host := Host{Elect: func(ctx context.Context) (context.Context, func(), error) {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		terms++
		return ctx, func() { released++ }, nil
	}}
	err := WhileElected(With(ctx, host), Candidate{Apply: func(context.Context) error {
		if released != terms-1 {
			t.Errorf("%d terms, and %d are released", terms, released)
		}
		if terms == 3 {
			stop()
		}
		return nil
	}})
	if err != nil || terms != 3 || released != 3 {
		t.Error(err, terms, released)
	}

	broken := errors.New("broken")
	failing := Candidate{Apply: func(context.Context) error { return broken }}
	if err := WhileElected(With(t.Context(), host), failing); err != broken {
		t.Error(err)
	}
}

// TestACandidateIsToldOfTheLeaseOfTheProcess: of its health always, and of its holder while it waits. When it applies
// for a lease of its own, that one tells.
func TestACandidateIsToldOfTheLeaseOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := NewLease("lease (bucket leases)")
		unread := errors.New("unread")
		known.Report(unread)
		known.Held("another")
		elected, over := make(chan struct{}), make(chan struct{})
		host := Host{Lease: known, Elect: func(ctx context.Context) (context.Context, func(), error) {
			select {
			case <-elected:
				return ctx, func() {}, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}}
		var health error
		var holder string
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- WhileElected(With(ctx, host), Candidate{
				Apply:  func(context.Context) error { <-over; return nil },
				Health: func(_ context.Context, name string, err error) { health = err },
				Holder: func(identity string) { holder = identity },
			})
		}()
		is := func(when string, wantHealth error, wantHolder string) {
			t.Helper()
			synctest.Wait()
			if health != wantHealth || holder != wantHolder {
				t.Errorf("%s: health %v, holder %q", when, health, holder)
			}
		}
		is("at first", unread, "another")
		known.Report(nil)
		known.Held("a third")
		is("while it waits", nil, "a third")
		elected <- struct{}{}
		synctest.Wait()
		known.Held("this process")
		known.Report(unread)
		is("while it applies", unread, "a third")
		close(over)
		is("when it waits again", unread, "this process")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		known.Report(nil)
		known.Held("nobody asks")
		is("after the end", unread, "this process")
	})
}
