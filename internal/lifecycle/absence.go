package lifecycle

import (
	"cmp"
	"context"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// absence says that a primary has no document, while what it owned is deleted. A cascade may take long, and the
// document may be put back meanwhile: from then on nothing more may go.
type absence struct {
	*deletes.Round
	teardown *Teardown
	key      string
	spared   bool                          // something that it owned stays: external.ObserveOnly
	neverWas bool                          // nothing but the objects themselves says that the primary was
	left     [verdicts]map[string]struct{} // what stays, by source and key
	held     error                         // what is being deleted and does not go; nil if nothing is
	// stale are sources in which nothing is to be deleted: the last list is older than the teardown, and what it
	// shows may be another owner's by now; or an operation goes on; or the source is outdated.
	stale []source.Owned
}

// absence begins the deletes of what a primary owns that is gone.
func (t *Teardown) absence(key string) *absence {
	a := &absence{teardown: t, key: key}
	a.Round = t.Guard.OfGone(key, a.letsGo)
	return a
}

// letsGo is the brake's word, right before an object goes. A delete that is owed is evidenced, or the brake has let it
// go as a whole. Of an owner that a sweep found the brake counts each object by itself.
func (a *absence) letsGo(ctx context.Context, s deletes.Source, obj metav1.Object) bool {
	if record.IsAnchor(a.teardown.Anchors.Cached(a.key)) {
		return a.teardown.Brake.LetsGo(a.key)
	}
	return a.teardown.Brake.AdmitSwept(ctx, a.key, s.String(), source.ObjectKey(obj), versionOf(obj))
}

// lookWhetherItWas finds out whether a primary without a record, which was asked for by hand, ever was: what names one
// that never was stays, here as in a sweep.
func (a *absence) lookWhetherItWas(ctx context.Context) (err error) {
	t := a.teardown
	if record.IsAnchor(t.Anchors.Cached(a.key)) || t.Brake.WasLetGo(a.key) {
		return nil
	}
	marked, err := t.Marked(ctx, a.key)
	a.neverWas = !marked
	return err
}

// versionOf tells an object from what is made anew under its name.
func versionOf(obj metav1.Object) string {
	return cmp.Or(string(obj.GetUID()), obj.GetResourceVersion())
}
