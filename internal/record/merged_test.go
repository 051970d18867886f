package record_test

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// contested are records of which somebody else updates the status just before each first put.
type contested struct {
	record *entity.Record
	beaten bool
}

func (c *contested) Get(context.Context, string) (*entity.Record, error) {
	return c.record.Clone(), nil
}

func (c *contested) DropsSecrets() bool { return false }

func (c *contested) Cached(string) (*entity.Record, bool) { return c.record, true }

func (c *contested) Put(_ context.Context, key string, ours *entity.Record) error {
	if !c.beaten {
		c.beaten = true
		theirs := c.record.Clone()
		theirs.StatusRevision++
		theirs.Revision++
		c.record = theirs
	}
	if ours.Revision != c.record.Revision {
		return apierrors.NewConflict(schema.GroupResource{}, key, nil)
	}
	c.record = ours.Clone()
	c.record.Revision++
	return nil
}

type primary struct{}

func (primary) Encode(context.Context, runtime.Object) ([]byte, error) { return []byte("{}"), nil }
func (primary) StreamID() string                                       { return "s" }
func (primary) Stream() source.Stream                                  { return source.Stream{} }

// TestATeardownIsToldOfAlthoughSomebodyUpdatesTheStatus at the same time, and its end too.
func TestATeardownIsToldOfAlthoughSomebodyUpdatesTheStatus(t *testing.T) {
	records := &contested{record: &entity.Record{Controller: "c", Stream: "s", DocumentRevision: 3, Revision: 7,
		SchemaVersion: entity.RecordSchemaVersion}}
	anchors := &record.Anchors{
		Controller: "c", Kind: "Site", Limit: 1 << 10, Records: records, Primary: primary{},
		Written: func(context.Context, string) {},
	}
	condition := record.Condition(metav1.ConditionFalse, entity.ReasonTerminal, "why", 3)
	if err := anchors.Annotate(t.Context(), "a", source.View{}, record.Note{Condition: condition, Deleting: true}); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(records.record.Conditions, entity.ConditionDeleting) || records.record.StatusRevision != 1 {
		t.Errorf("the record does not tell of the teardown: %+v", records.record)
	}

	records.beaten = false
	obj := &entity.Object[struct{}, struct{}]{}
	with, err := anchors.For(t.Context(), records.record, source.View{Object: obj, Revision: 9}, "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := anchors.Put(t.Context(), "a", with); err != nil {
		t.Fatal(err)
	}
	if meta.FindStatusCondition(records.record.Conditions, entity.ConditionDeleting) != nil {
		t.Errorf("the record of a document that is there again says that it is deleted: %+v", records.record)
	}
}

// TestAnAnchorSaysNothingOfARevisionThatIsNotThere, in a stream that was made again or went back: revision 90 was given
// up, and who waits for revision 3 would be told so.
func TestAnAnchorSaysNothingOfARevisionThatIsNotThere(t *testing.T) {
	anchors := &record.Anchors{Controller: "c", Kind: "Site", Limit: 1 << 10, Primary: primary{}}
	obj := &entity.Object[struct{}, struct{}]{}
	for _, stream := range []string{"before", "s"} {
		for _, reason := range []string{entity.ReasonTerminal, entity.ReasonRetrying, entity.ReasonSuspended} {
			before := &entity.Record{
				Controller: "c", Stream: stream, DocumentRevision: 90, ObservedRevision: 80,
				Conditions: []metav1.Condition{record.Condition(metav1.ConditionFalse, reason, "why", 90)},
			}
			with, err := anchors.For(t.Context(), before, source.View{Object: obj, Revision: 3}, "s")
			if err != nil {
				t.Fatal(err)
			}
			if with.Phase() != entity.PhasePending || len(with.Conditions) > 0 {
				t.Errorf("%s in stream %s: %s, %+v", reason, stream, with.Phase(), with.Conditions)
			}
			with, err = anchors.For(t.Context(), before, source.View{Object: obj, Revision: 91}, stream)
			if err != nil {
				t.Fatal(err)
			}
			if with.Phase() != entity.PhasePending || len(with.Conditions) != 1 {
				t.Errorf("%s in the same stream: %s, %+v", reason, with.Phase(), with.Conditions)
			}
		}
	}
}

// TestAnOutcomeIsNewsInAnotherStream, at the same revision and with the same condition: a cache that is late may still
// have the record of the stream before, and the one that was written since says nothing of a reconcile.
func TestAnOutcomeIsNewsInAnotherStream(t *testing.T) {
	anchors := &record.Anchors{Controller: "c", Kind: "Site", Limit: 1 << 10, Primary: primary{}}
	v := source.View{Object: &entity.Object[struct{}, struct{}]{}, Revision: 3}
	condition := record.Condition(metav1.ConditionTrue, entity.ReasonSynced, "", 3)
	for stream, news := range map[string]bool{"s": false, "before": true} {
		before := &entity.Record{
			Controller: "c", Stream: stream, DocumentRevision: 3, ObservedRevision: 3,
			Conditions: []metav1.Condition{condition},
		}
		written, err := anchors.Outcome(t.Context(), before, v, "s", condition, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (written != nil) != news {
			t.Fatalf("after a record of stream %q the outcome is %+v", stream, written)
		}
		if news && (written.Stream != "s" || written.ObservedRevision != 3) {
			t.Errorf("it says revision %d of stream %q", written.ObservedRevision, written.Stream)
		}
	}
}
