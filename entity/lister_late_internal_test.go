package entity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// failing is an informer that reports an error.
type failing struct {
	followed
	err error
}

func (f *failing) Status() natsinformer.Status { return natsinformer.Status{Err: f.err} }

// A server that answers late may still answer: a lister waits for it. Any other error ends the wait at once.
func TestAnAnswerThatIsLateIsNoFailureOfACache(t *testing.T) {
	type thing = Object[struct{}, struct{}]
	late := fmt.Errorf("bucket %q: %w", "things", natsinformer.ErrUnanswered)
	missing := errors.New("the bucket does not exist")
	for _, test := range []struct{ documents, records, want error }{
		{nil, nil, nil}, {late, nil, nil}, {nil, late, nil}, {late, late, nil},
		{missing, nil, missing}, {nil, missing, missing}, {late, missing, missing}, {missing, late, missing},
	} {
		g := &generation[*thing]{
			client: &Client[*thing]{documents: &bucket{}, records: &Records{bucket: &bucket{}}},
			docs:   &failing{err: test.documents}, records: &recordCache{store: &failing{err: test.records}},
			began: time.Now(),
		}
		if got := g.failure(); got != test.want {
			t.Errorf("documents: %v, records: %v: the failure is %v", test.documents, test.records, got)
		}
		g.began = g.began.Add(-listerAnswerTimeout) // it has had the time to come
		if got := g.failure(); (got == nil) != (test.documents == nil && test.records == nil) {
			t.Errorf("documents: %v, records: %v: the failure after a while is %v", test.documents, test.records, got)
		}
	}
}
