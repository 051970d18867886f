package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forbid is a server that denies.
func forbid(context.Context, func() reply) reply {
	return reply{err: apierrors.NewForbidden(resource, "lease", errors.New("denied"))}
}

// TestThatTheLeaseMayNotBeWrittenStaysReported while it can be read, until it may be written.
func TestThatTheLeaseMayNotBeWrittenStaysReported(t *testing.T) {
	reads := delayed(latency, latency)
	working := func(err error) bool { return err == nil }
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.use(reads, forbid)
		first.run(t)
		after(10 * latency)
		first.reported() // a read before the first write
		for range 2 {    // as a candidate, and as the holder
			after(time.Minute)
			if got := first.reported(); len(got) < 4 || slices.ContainsFunc(got, working) {
				t.Errorf("reported %v", got)
			}
			first.heal()
			after(2 * usual.RetryPeriod * 2)
			if got := first.reported(); !first.leads() || !working(got[len(got)-1]) {
				t.Errorf("then reported %v", got)
			}
			first.use(reads, forbid)
			after(2 * usual.RetryPeriod)
			first.reported()
		}
		second := k.join("second").run(t)
		after(time.Minute)
		if got := first.reported(); !second.leads() || !working(got[len(got)-1]) {
			t.Errorf("while another holds the lease: reported %v", got)
		}
	})
}

// TestAnOutageHasOneReason, however its requests fail: a write, the look after it, and the looks of a replica that has
// lost the lease. They took turns in the log.
func TestAnOutageHasOneReason(t *testing.T) {
	says := func(err error) route { return func(context.Context, func() reply) reply { return reply{err: err} } }
	unread, gone := says(errors.New("not read")), says(errors.New("no such stream"))
	noStream := func(ctx context.Context, _ func() reply) reply {
		<-ctx.Done()
		return reply{err: errors.Join(nats.ErrNoResponders, ctx.Err())}
	}
	overtaken := says(apierrors.NewConflict(resource, "lease", errors.New("it is at another revision")))
	for name, outage := range map[string]struct {
		loads, puts route
		says        string // the first report
	}{
		"denied and not read":       {unread, forbid, "denied"},
		"denied and not answered":   {lost, forbid, "denied"},
		"overtaken and not read":    {unread, overtaken, "not read"},
		"the stream is gone":        {gone, noStream, "no such stream"},
		"no stream has a leader":    {noStream, noStream, "no responders"},
		"the network swallows both": {lost, lost, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				first := firstLeads(t, k)
				for range 2 {
					first.reported()
					first.use(outage.loads, outage.puts)
					after(2 * time.Minute) // it loses the lease, and can only look
					got := first.reported()
					if len(got) > 0 && got[0] == nil {
						got = got[1:] // of a renewal that was under way
					}
					if len(got) < 4 || got[0] == nil || !strings.Contains(got[0].Error(), outage.says) {
						t.Fatalf("reported %v, want %q first", got, outage.says)
					}
					for _, err := range got {
						if notify.Reason(err) != notify.Reason(got[0]) {
							t.Errorf("%v is another reason than %v", err, got[0])
						}
					}
					first.heal()
					after(time.Minute)
				}
			})
		})
	}
}

// TestAnAnswerIsNewsOfAnOutage of which only was known that no answer came.
func TestAnAnswerIsNewsOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.use(lost, lost)
		after(time.Minute)
		unanswered := notify.Reason(lastOf(first.reported()))
		first.use(forbid, lost)
		after(time.Minute)
		if denied := lastOf(first.reported()); notify.Reason(denied) == unanswered || !apierrors.IsForbidden(denied) {
			t.Errorf("then %v is reported, for the reason %q", denied, notify.Reason(denied))
		}
	})
}
