package reconcilectx

import (
	"fmt"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// ReasonNoOwner is the reason of the event about a secondary that a reconcile wrote without an owner.
const ReasonNoOwner = "NoOwner"

var _ ownwrites.Observer = (*Context)(nil)

// Wrote implements ownwrites.Observer. It warns, once for each source, of an entity that is to be a secondary and names
// no owner. The primary itself needs none, where its bucket has its secondaries too.
func (c *Context) Wrote(bucket string, obj metav1.Object) {
	if !owner.NamedBy(obj).IsNone() {
		return
	}
	place, key := source.Place{Bucket: bucket}, source.ObjectKey(obj)
	sources := c.config.Host.Sources()
	if primary, ok := sources[0].(source.Placed); ok && primary.Place() == place && key == c.key {
		return
	}
	kind, first := source.NoteUnowned(sources, place)
	if !first {
		return
	}
	klog.FromContext(c.WithLogger()).Info("Secondary written without an owner: write it with CreateOrUpdate, "+
		"or name its owner before with SetOwner", "secondary", kind, "object", key)
	c.Warn(ReasonNoOwner, fmt.Sprintf("%s %s was written without an owner, so it does not go with this primary, and "+
		"its changes do not make the primary due: write it with CreateOrUpdate, or name its owner before with "+
		"SetOwner; others of this kind are not told of", printable.Text(kind), printable.Quote(key)))
}
