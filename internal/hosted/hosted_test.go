package hosted

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
		if err := WhileElected(t.Context(), func(context.Context) error { calls++; return nil }); err != nil || calls != 1 {
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
	err := WhileElected(With(ctx, host), func(context.Context) error {
		if released != terms-1 {
			t.Errorf("%d terms, and %d are released", terms, released)
		}
		if terms == 3 {
			stop()
		}
		return nil
	})
	if err != nil || terms != 3 || released != 3 {
		t.Error(err, terms, released)
	}

	broken := errors.New("broken")
	if err := WhileElected(With(t.Context(), host), func(context.Context) error { return broken }); err != broken {
		t.Error(err)
	}
}
