package keytable

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Parked is the state of the primary whose reconcile failed for good. Any other state deserves another attempt. It
// holds the object and not the revision: in a stream that was recreated another document may have the same revision.
type Parked struct {
	Presence source.Presence
	Object   metav1.Object
	Since    time.Time
	// RestsUntil is when events of what the key owns or reads may wake it. Such events can come all the time.
	RestsUntil time.Time
}

func (p *Parked) isAt(v source.View) bool { return p.Presence == v.Presence && p.Object == v.Object }

// StaysParked reports whether a parked key must not be tried now. again is when it may be, if an event asks for it too
// soon after the failure; 0: nothing has asked. If its primary changed, or ops ask for an attempt, the key is parked no
// longer. One worker at a time asks about a key.
func (k *Table) StaysParked(key string, v source.View, ops operation.Operations) (stays bool, again time.Duration) {
	parked := k.Of(key).Parked
	if parked == nil {
		return false, 0
	}
	if stays, again = parked.stays(v, ops); !stays {
		k.Amend(key, func(s *State) { s.Parked = nil })
	}
	return stays, again
}

func (p *Parked) stays(v source.View, ops operation.Operations) (stays bool, again time.Duration) {
	switch {
	case !p.isAt(v) || ops.WakesParked():
		return false, 0
	case !ops.StirsParked():
		return true, 0
	}
	again = max(time.Until(p.RestsUntil), 0)
	return again > 0, again
}

// WouldStayParked is StaysParked of the Table, and changes nothing.
func (s *State) WouldStayParked(v source.View, ops operation.Operations) bool {
	if s.Parked == nil {
		return false
	}
	stays, _ := s.Parked.stays(v, ops)
	return stays
}
