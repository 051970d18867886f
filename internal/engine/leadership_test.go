package engine

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// returning is the primaries of an engine whose key comes back as it is asked whether it exists.
type returning struct {
	primary
	comesBack func()
}

func (r *returning) Exists(key string) bool {
	comes := r.comesBack
	r.comesBack = nil
	exists := r.primary.Exists(key)
	if comes != nil {
		comes()
	}
	return exists
}

// TestAKeyThatComesBackAsAReplicaBeginsToStandByStaysDue: it takes over warm only if it keeps what came meanwhile.
func TestAKeyThatComesBackAsAReplicaBeginsToStandByStaysDue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := engineOfSites(t, Options{})
		noticed := make(chan struct{})
		notice := func() {
			defer close(noticed)
			e.queue.Add("home", operation.Of(operation.Put), queue.Live) // as Notice does of a key that exists
		}
		e.primary = &returning{e.primary, func() {
			if !e.leadership.mu.TryRLock() {
				go func() { // Notice waits
					e.leadership.mu.RLock()
					defer e.leadership.mu.RUnlock()
					notice()
				}()
				return
			}
			defer e.leadership.mu.RUnlock()
			notice()
		}}
		e.queue.Add("home", operation.Of(operation.Secondary), queue.Secondary) // a secondary was listed first
		e.standBy()
		<-noticed
		if e.queue.Counts().Ready[queue.BandLive] != 1 {
			t.Errorf("due: %+v", e.queue.Counts())
		}
	})
}

// TestATermBeginsWithoutWhatIsGone: a standby had heard of a delete while it took an own write for the record, which then
// went with its stream. Nothing told of that, and the key was remembered until there was a document again.
func TestATermBeginsWithoutWhatIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := engineOfSites(t, DefaultOptions())
		held := `{"holderIdentity":"another","leaseDurationSeconds":5}`
		if _, err := e.records.PutReserved(t.Context(), record.KeyLease, []byte(held), 0); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(time.Second)
		e.keys.ObserveDelete("home", keytable.ObservedDelete{})
		time.Sleep(10 * time.Second)
		if !e.Leads() || e.keys.Of("home").Deleted != nil {
			t.Errorf("it leads: %v, and remembers %+v", e.Leads(), e.keys.Of("home"))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
