package owner

import (
	"cmp"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Named is whom an object names as its owner. Each part is what the annotation says, and where that is gone what the
// label says.
type Named struct{ kind, key, instance mark }

// NamedBy reads the marks of obj.
func NamedBy(obj metav1.Object) Named {
	annotations, labels := obj.GetAnnotations(), obj.GetLabels()
	return Named{
		kind:     mark{annotations[entity.OwnerKindAnnotation], labels[entity.OwnerKindLabel]},
		key:      mark{annotations[entity.OwnerKeyAnnotation], labels[entity.OwnerKeyLabel]},
		instance: mark{annotations[entity.OwnerInstanceAnnotation], labels[entity.OwnerInstanceLabel]},
	}
}

// mark is one part of an owner's name.
type mark struct{ annotation, label string }

func (m mark) none() bool { return m.annotation == "" && m.label == "" }

func (m mark) is(value string) bool {
	if m.annotation != "" {
		return m.annotation == value
	}
	return m.label != "" && entity.IsOwnerLabel(m.label, value)
}

// denies reports whether m is there and names another value.
func (m mark) denies(value string) bool { return !m.none() && !m.is(value) }

// contradicts lets a label say the value itself, as a person may write it by hand; but not where it then says what
// stands for another value.
func (m mark) contradicts() bool {
	return m.annotation != "" && m.label != "" && !entity.IsOwnerLabel(m.label, m.annotation)
}

// Owner returns what is named. Where a label alone names the key, that may be a hash.
func (n Named) Owner() Owner {
	value := func(m mark) string { return cmp.Or(m.annotation, m.label) }
	return Owner{value(n.kind), value(n.key), value(n.instance)}
}

// Allows reports whether o owns what names n. An owner that is named without an installation is of every one.
func (n Named) Allows(o Owner) bool {
	return n.kind.is(o.Kind) && n.key.is(o.Key) && !n.instance.denies(o.Instance)
}

// Denies reports whether what is left of the marks names another owner than o.
func (n Named) Denies(o Owner) bool {
	return n.kind.denies(o.Kind) || n.key.denies(o.Key) || n.instance.denies(o.Instance)
}

// IsNone reports whether the object names no owner that could be made out: the kind or the key is missing.
func (n Named) IsNone() bool { return n.kind.none() || n.key.none() }

// Key returns the key of the owner; "" if there is none, or only a hash of it. Then hash is that.
func (n Named) Key() (key, hash string) {
	switch {
	case n.key.annotation != "":
		return n.key.annotation, ""
	case strings.HasPrefix(n.key.label, HashPrefix):
		return "", n.key.label
	}
	return n.key.label, ""
}

// HashPrefix is what entity.OwnerLabelValue puts before the hash of a key that is no value of a label.
const HashPrefix = "sha256-"

// Contradicts reports whether annotations and labels name different owners or installations. It cannot be told then
// whose the object is.
func (n Named) Contradicts() bool {
	return n.kind.contradicts() || n.key.contradicts() || n.instance.contradicts()
}

// Claim says which objects are those of a controller's primaries.
type Claim struct {
	Kind     string // of the primaries
	Instance string // of the installation; "" while it is not known
	// Unnamed claims what names no installation, too: what the original Kumori runtime has made. That knows of no
	// contradictions, and its controllers delete by themselves, so then the annotations win.
	Unnamed bool
	// Proofs, where they are wanted, are what says whether marks are true; nil believes them. Then nothing may be
	// deleted before In or At has said where.
	Proofs *Secrets
	// Strict takes what names no installation for another one's.
	Strict bool

	resource     Resource // see At
	anyNamespace bool     // see In
}

// At is the claim on the objects of a resource.
func (c Claim) At(resource Resource) Claim {
	c.resource = resource
	return c
}

// MayDelete reports whether obj is, for certain, one of the primaries' and of this installation. It is the one place
// where that is decided.
func (c Claim) MayDelete(obj metav1.Object) bool { return c.isMarked(obj) && !c.lacksProof(obj) }

// IsUnproven reports whether MayDelete refuses obj for the lack of a proof alone.
func (c Claim) IsUnproven(obj metav1.Object) bool { return c.isMarked(obj) && c.lacksProof(obj) }

// isMarked reports whether the marks of obj say so.
func (c Claim) isMarked(obj metav1.Object) bool {
	n := NamedBy(obj)
	if n.IsNone() || !n.kind.is(c.Kind) || n.Contradicts() && !c.Unnamed {
		return false
	}
	if n.instance.none() {
		return c.Unnamed && !c.Strict
	}
	return c.Instance != "" && n.instance.is(c.Instance)
}

// OwnerOf returns what obj names as its owner, if that is of the kind of the primaries; ok is false if it is not.
func (c Claim) OwnerOf(obj metav1.Object) (n Named, ok bool) {
	n = NamedBy(obj)
	return n, !n.IsNone() && n.kind.is(c.Kind)
}

// IsForeign reports whether what names n is another installation's.
func (c Claim) IsForeign(n Named) bool {
	return n.instance.denies(c.Instance) || c.Strict && n.instance.none()
}
