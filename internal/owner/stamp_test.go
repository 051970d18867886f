package owner_test

import (
	"maps"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stamped is an object with a text for a stamp; none with "".
func stamped(text string) *metav1.ObjectMeta {
	obj := &metav1.ObjectMeta{Name: "settings"}
	if text != "" {
		obj.Annotations = map[string]string{entity.OwnerRevisionAnnotation: text}
	}
	return obj
}

func TestAStampIsReadAsItWasSet(t *testing.T) {
	stamp := owner.Stamp{Stream: "2026-11-23T17:34:26Z", Revision: 152}
	obj := stamped("")
	stamp.Set(obj)
	if text := obj.Annotations[entity.OwnerRevisionAnnotation]; text != "152@2026-11-23T17:34:26Z" {
		t.Errorf("it carries %q", text)
	}
	if got := owner.StampOf(obj); got != stamp || got.IsNone() {
		t.Errorf("got %+v, want %+v", got, stamp)
	}
}

func TestWhatIsNoStampIsNone(t *testing.T) {
	for _, text := range []string{"", "152", "@first", "0@first", "-1@first", "152@", "99999999999999999999@first"} {
		if got := owner.StampOf(stamped(text)); !got.IsNone() {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestAStampStaysWhileItIsTrue: else each revision of an owner would be a write of all that it owns.
func TestAStampStaysWhileItIsTrue(t *testing.T) {
	now := owner.Stamp{Stream: "first", Revision: 10}
	for text, want := range map[string]struct {
		stamp  owner.Stamp
		stands bool
	}{
		"":          {now, true},
		"garbage":   {now, true},
		"7@first":   {owner.Stamp{Stream: "first", Revision: 7}, true},
		"10@first":  {now, true},
		"11@first":  {now, false},
		"7@another": {now, false},
	} {
		obj := stamped(text)
		if got := now.Over(obj); got != want.stamp || now.StandsOn(obj) != want.stands {
			t.Errorf("over %q: %+v, stands: %v; want %+v", text, got, now.StandsOn(obj), want)
		}
		// An owner without a document has no stamp, and leaves what is there.
		if got := (owner.Stamp{}).Over(obj); got != owner.StampOf(obj) || !(owner.Stamp{}).StandsOn(obj) {
			t.Errorf("none over %q: %+v", text, got)
		}
	}
}

func TestSettingAStampLeavesSharedAnnotationsAlone(t *testing.T) {
	shared := map[string]string{"team": "a"}
	obj := &metav1.ObjectMeta{Annotations: shared}
	owner.Stamp{Stream: "first", Revision: 10}.Set(obj)
	if !maps.Equal(shared, map[string]string{"team": "a"}) || len(obj.Annotations) != 2 {
		t.Errorf("shared %v, set %v", shared, obj.Annotations)
	}
	owner.Stamp{}.Set(obj)
	if got := owner.StampOf(obj); got.Revision != 10 {
		t.Errorf("got %+v", got)
	}
}

// TestAContestedOwnerWritesAnewWhatHasNotItsStamp, once.
func TestAContestedOwnerWritesAnewWhatHasNotItsStamp(t *testing.T) {
	now := owner.Stamp{Stream: "s", Revision: 7, ContestedFrom: 7}
	for _, held := range []string{"", "garbage", "6@s", "7@t"} {
		obj := stamped(held)
		if now.StandsOn(obj) {
			t.Errorf("over %q: it need not be written", held)
		}
		now.Over(obj).Set(obj)
		if !now.StandsOn(obj) {
			t.Errorf("over %q: it has to be written twice", held)
		}
		if got := owner.StampOf(obj); got != (owner.Stamp{Stream: "s", Revision: 7}) {
			t.Errorf("over %q: it carries %v", held, got)
		}
	}
}
