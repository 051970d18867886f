package owner

import (
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plain returns what the marks of an object say that names its owner as the runtime writes it: in annotations and in
// labels, in the namespace of the object, with an installation. stream is that of its stamp, "" if it has none. Of such
// an object nothing has to be known but that, as long as its owner is there. ok is false for others, also those of
// another kind of owner.
func Plain(kind string, obj metav1.Object) (key, instance, stream string, ok bool) {
	n, stamp := NamedBy(obj), StampOf(obj)
	for _, m := range []mark{n.kind, n.key, n.instance} {
		if m.annotation == "" || m.label == "" || m.contradicts() {
			return "", "", "", false
		}
	}
	key = n.key.annotation
	if n.kind.annotation != kind || Crosses(obj.GetNamespace(), key) || obj.GetDeletionTimestamp() != nil {
		return "", "", "", false
	}
	return key, n.instance.annotation, stamp.Stream, true
}

// Division is that of a client whose documents primaries of the kind own.
func Division(of *entity.Division, kind string) *entity.Division {
	if of == nil {
		return nil
	}
	divided := *of
	divided.Owners = kind
	divided.Plain = func(obj metav1.Object) (key, instance, stream string, ok bool) { return Plain(kind, obj) }
	return &divided
}
