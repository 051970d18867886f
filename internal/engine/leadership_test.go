package engine

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
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
		if e.queue.Counts().Ready[queue.Live] != 1 {
			t.Errorf("due: %+v", e.queue.Counts())
		}
	})
}
