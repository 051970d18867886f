package brake

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// A few primaries may own many objects. So what suspects own is counted, too: the brake engages if at least Least
// objects, and more than half of all that there are, would go with primaries of which the leader does not say that
// they were deleted. One that was deleted while no replica ran has its marker there.

// leaderPatience bounds one question to the leader.
const leaderPatience = 2 * time.Second

// weighed is what suspects own.
type weighed struct {
	objects map[string]int // of suspects without a known delete
	reason  string         // why they must not go; "" if they may
	came    int            // how many sources had come late before
	again   bool           // the leader did not answer: they are to be judged again
}

// mostAsked bounds how many keys the leader is asked about at once.
const mostAsked = 1000

// weigh counts what suspects own, and asks the leader about them where that is much.
func (b *Brake) weigh(ctx context.Context, suspects sets.Set[string]) weighed {
	b.mu.Lock()
	engaged, first, came := b.state.Engaged, b.collection.first, b.came
	before := b.objectsGone(suspects)
	b.unlock()
	if engaged || len(suspects) == 0 {
		return weighed{came: came}
	}
	w := weighed{objects: b.OwnedBy(suspects), came: came}
	if sum(w.objects)+before < Least {
		return w
	}
	known := b.Owned() + before
	asked := 0
	for key := range w.objects {
		if !massive(sum(w.objects)+before, known) {
			return w
		}
		if asked++; asked > mostAsked {
			break
		}
		bounded, cancel := context.WithTimeout(ctx, leaderPatience)
		marked, err := b.Marked(bounded, key)
		cancel()
		switch {
		case err != nil && time.Since(first) < askPatience:
			w.again = true
			return w
		case err != nil:
			w.reason = fmt.Sprintf("%d of %d objects would go with %d primaries that vanished, and the leader does "+
				"not answer whether somebody deleted them: %v", sum(w.objects)+before, known, len(suspects), err)
			return w
		case marked:
			delete(w.objects, key)
		}
	}
	if massive(sum(w.objects)+before, known) {
		w.reason = fmt.Sprintf("%d of %d objects would go with primaries that vanished without a delete being seen "+
			"within %v: %d of them now", sum(w.objects)+before, known, b.Window, len(suspects))
	}
	return w
}

// objectsGone counts what primaries owned that went within the window and are not among the suspects. What of it is
// still there cannot be told, so all of it counts among the known.
func (b *Brake) objectsGone(suspects sets.Set[string]) (before int) {
	b.gone.expire(time.Now())
	for key, n := range b.objects {
		if _, went := b.gone.went[key]; !went {
			delete(b.objects, key)
		} else if !suspects.Has(key) {
			before += n
		}
	}
	return before
}

// noteObjects notes what a primary owned that goes. It needs b.mu.
func (b *Brake) noteObjects(key string, n int) {
	if b.objects == nil {
		b.objects = map[string]int{}
	}
	b.objects[key] = n
}

func sum(objects map[string]int) (n int) {
	for _, owned := range objects {
		n += owned
	}
	return n
}
