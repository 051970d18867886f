package natsinformer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestDeleteOfForeignObjectsIsInferred(t *testing.T) {
	last := &thing{ObjectMeta: metav1.ObjectMeta{Name: "k", ResourceVersion: "7"}}
	gone := deleted(last, PurgeMarker, 9)
	if d := DeleteOf(gone); d != (Deletion{true, PurgeMarker}) {
		t.Errorf("of a purge: %+v", d)
	}
	if last.Annotations != nil || last.ResourceVersion != "7" {
		t.Error("the object in the store was changed")
	}
	if d := DeleteOf(deleted(last, expiredByAge, 9)); d != (Deletion{false, ExpiryMarker}) {
		t.Errorf("of an expiry by age: %+v", d)
	}
	forged := &thing{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "10", Annotations: gone.(*thing).Annotations}}
	for name, obj := range map[string]any{
		"nil":                   nil,
		"no object":             "k",
		"an ordinary object":    last,
		"a forged annotation":   forged,
		"a final state lost":    cache.DeletedFinalStateUnknown{Key: "k", Obj: last},
		"a final state wrapped": cache.DeletedFinalStateUnknown{Key: "k", Obj: gone},
	} {
		if d := DeleteOf(obj); d != (Deletion{}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestParseDelivery(t *testing.T) {
	want := delivery{consumer: "C", streamSeq: 42, consSeq: 7, created: 1700000000000000001, pending: 3}
	for _, reply := range []string{
		"$JS.ACK.S.C.1.42.7.1700000000000000001.3",
		"$JS.ACK.hub.acchash.S.C.1.42.7.1700000000000000001.3",
		"$JS.ACK._.acchash.S.C.1.42.7.1700000000000000001.3.token",
	} {
		if got, err := parseDelivery(reply); err != nil || got != want {
			t.Errorf("%s: %+v, %v", reply, got, err)
		}
	}
	for _, reply := range []string{
		"", "x", "_INBOX.a.b", "$JS.ACK.S.C.1.42.7.17", "$JS.ACK.S.C.1.x.7.1700000000000000001.3",
		"$JS.ACK.S.C.1.42.7.1700000000000000001.x", "$JS.ACK.a.b.c.d.e.f.g.h",
	} {
		if got, err := parseDelivery(reply); err == nil {
			t.Errorf("%q: %+v", reply, got)
		}
	}
}
