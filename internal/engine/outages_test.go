package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
)

var errAway = errors.New("503")

// pages is a source in NATS.
type pages struct{ source.Source }

func (pages) String() string { return "Owns Page (bucket pages)" }

// newOutages are those of a controller with an API, whose name is api, and what was told of them.
func newOutages() (o *outages, told func() []string, api string) {
	var mu sync.Mutex
	var all []string
	told = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
	disks := &apisource.Source{}
	api = disks.String()
	return &outages{
		Self: func(eventType, reason, message string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, eventType+" "+reason+" "+message)
		},
		Sources:      func() source.Group { return source.Group{pages{}, disks} },
		StatusBucket: "sites-status",
	}, told, api
}

func TestAnOutageIsTwoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, told, api := newOutages()
		o.Changed(api, errAway)
		o.Changed(api, errors.New("504")) // for another reason
		time.Sleep(time.Hour)
		o.Changed(api, nil)
		for _, name := range []string{
			pages{}.String(), "records (bucket sites-status)", "lease (bucket sites-status)", "calls of " + api,
		} {
			o.Changed(name, errAway)
			time.Sleep(1500 * time.Millisecond)
			o.Changed(name, nil)
		}
		for _, name := range []string{"brake", "teardown", "end of the term", "stuck reconcile"} { // they have events of their own
			o.Changed(name, errAway)
			o.Changed(name, nil)
		}
		want := []string{
			"Warning APIAway " + api + ": 503", "Normal APIBack " + api + " works again after 1h0m0s",
			"Warning SourceDegraded Owns Page (bucket pages): 503",
			"Normal SourceRecovered Owns Page (bucket pages) works again after 2s",
			"Warning SourceDegraded records (bucket sites-status): 503",
			"Normal SourceRecovered records (bucket sites-status) works again after 2s",
			"Warning SourceDegraded lease (bucket sites-status): 503",
			"Normal SourceRecovered lease (bucket sites-status) works again after 2s",
			"Warning SourceDegraded calls of " + api + ": 503",
			"Normal SourceRecovered calls of " + api + " works again after 2s",
		}
		if !slices.Equal(told(), want) {
			t.Errorf("told %q\nwant %q", told(), want)
		}
	})
}

// TestWhatComesAndGoesIsToldOfRarely: a recorder throttles the events of an object, and the brake's are on it, too.
func TestWhatComesAndGoesIsToldOfRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, told, api := newOutages()
		for range 3600 {
			o.Changed(api, errAway)
			time.Sleep(time.Second / 2)
			o.Changed(api, nil)
			time.Sleep(time.Second / 2)
		}
		if n := len(told()); n < 8 || n > 20 {
			t.Errorf("%d events within an hour: %q", n, told())
		}
		counted := slices.ContainsFunc(told(), func(event string) bool { return strings.Contains(event, "it came and went") })
		if !counted {
			t.Errorf("no event has the count: %q", told())
		}
		before := len(told())
		time.Sleep(24 * time.Hour)
		o.Changed(api, errAway)
		o.Changed(api, nil)
		time.Sleep(2 * time.Minute)
		o.Changed(api, errAway)
		if n := len(told()) - before; n != 3 {
			t.Errorf("%d events after a calm day, want 3: %q", n, told()[before:])
		}
	})
}

// TestWhatStaysAwayIsToldAfterThePause, although nothing changes any more.
func TestWhatStaysAwayIsToldAfterThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, told, api := newOutages()
		o.Changed(api, errAway)
		o.Changed(api, nil)
		o.Changed(api, errAway)
		if len(told()) != 2 {
			t.Errorf("told %q", told())
		}
		time.Sleep(leastPause + time.Second)
		synctest.Wait()
		if len(told()) != 3 || !strings.HasPrefix(told()[2], "Warning APIAway") {
			t.Errorf("told %q", told())
		}
		o.Changed(api, nil)
		if len(told()) != 4 {
			t.Errorf("told %q", told())
		}
	})
}

func TestATermIsToldOnceAndItsLossAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, told, _ := newOutages()
		e := &Engine{name: "sites", recorder: recorderOf(o.Self)}
		runs, stop := context.WithCancel(t.Context())
		release := make(chan struct{})
		lead := e.tellTerms(runs, "host_1", func(ctx context.Context, _ *lease.Term) {
			<-ctx.Done()
			<-release // it returns late
		})
		term, lose := context.WithCancelCause(runs)
		done := make(chan struct{})
		go func() { defer close(done); lead(term, nil) }()
		synctest.Wait()
		lose(errors.New("lease taken"))
		synctest.Wait()
		want := []string{
			"Normal LeaseWon host_1 holds the lease and works",
			"Warning LeaseLost host_1 works no more: lease taken",
		}
		if !slices.Equal(told(), want) {
			t.Errorf("told %q\nwant %q", told(), want)
		}
		close(release)
		<-done
		go func() { time.Sleep(time.Second); stop() }()
		again, end := context.WithCancel(runs)
		defer end()
		lead(again, nil) // until the controller stops
		if len(told()) != 3 {
			t.Errorf("a stop is told as a loss: %q", told())
		}
	})
}

type recorderOf func(eventType, reason, message string)

func (f recorderOf) Event(object runtime.Object, eventType, reason, message string) {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "Controller" {
		reason = kind + " " + reason
	}
	f(eventType, reason, message)
}
