package entity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels and annotations by which a secondary names its primary. The annotation holds the key itself. The label
// holds OwnerLabelValue of it: the key if that is a valid label value, else a stable hash.
const (
	OwnerKindLabel          = "kumori/ownerkind"
	OwnerKeyLabel           = "kumori/ownerkey"
	OwnerKindAnnotation     = "kumori/ownerkind"
	OwnerKeyAnnotation      = "kumori/ownerkey"
	OwnerInstanceLabel      = "nagi/ownerinstance"
	OwnerInstanceAnnotation = "nagi/ownerinstance"
)

// OwnerRevisionAnnotation is where a secondary has a revision of its primary's document, and the identity of the stream
// that had it, as "152@2026-11-23T17:34:26Z". It is that of the reconcile which wrote the secondary first, or a later
// one. A secondary whose revision the stream has not reached shows that the stream was restored to an earlier state, so
// that what is not in it was not deleted.
const OwnerRevisionAnnotation = "nagi/ownerrevision"

// OwnerStatusBucketAnnotation is where a secondary has the status bucket of the controller that wrote it for its owner.
// A status bucket is one controller's, so this tells two controllers apart that have one id of the installation. What
// older versions wrote has none.
const OwnerStatusBucketAnnotation = "nagi/ownerstatusbucket"

// OwnerProofAnnotation is where a secondary has the proof that the controller itself named its owner, if the controller
// has the option WithOwnerProof. It is for this object, in this place, and for this owner.
const OwnerProofAnnotation = "nagi/ownerproof"

// runtimeAnnotations and runtimeLabels are all those by which the runtime knows whose an object is, who wrote it, and
// what is to become of it. A transform cannot take them away (SetTransform).
var (
	runtimeAnnotations = []string{
		OwnerKindAnnotation, OwnerKeyAnnotation, OwnerInstanceAnnotation, OwnerRevisionAnnotation,
		OwnerStatusBucketAnnotation, OwnerProofAnnotation, SuspendAnnotation, SuspendReasonAnnotation,
		DeletionPolicyAnnotation, ExpiresAnnotation, DocumentHashAnnotation,
	}
	runtimeLabels = []string{OwnerKindLabel, OwnerKeyLabel, OwnerInstanceLabel}
)

// OwnerIndex is the index by owner on the informers of clients. OwnerIndexValues says under which values to look.
const OwnerIndex = "nagi/owner"

// ownerIndexValues are all values of OwnerIndex, one behind the other: 8,192 of four hexadecimal digits. An index
// keeps a set for each of its values, and one for each owner would be as large as a small document.
var ownerIndexValues = sync.OnceValue(func() string {
	all := make([]byte, 0, ownerIndexSize*4)
	for i := range ownerIndexSize {
		all = fmt.Appendf(all, "%04x", i)
	}
	return string(all)
})

const ownerIndexSize = 1 << 13

var ownerIndexSeed = maphash.MakeSeed()

// OwnerIndexValue is the value of OwnerIndex for the secondaries whose annotations name this kind and key. It is one of
// 8,192 in this process, so those of other owners may have it, too: IsOwnedBy tells.
func OwnerIndexValue(kind, key string) string {
	i := ownerHash(kind, key) % ownerIndexSize * 4
	return ownerIndexValues()[i : i+4]
}

// ownerHash stands in this process for a kind and a key.
func ownerHash(kind, key string) uint64 {
	return maphash.String(ownerIndexSeed, kind) ^ bits.RotateLeft64(maphash.String(ownerIndexSeed, key), 1)
}

// OwnerIndexValues are the values of OwnerIndex under which the secondaries of this kind and key are: the second, if
// there is one, is for those that name a hash of the key in labels alone. IsOwnedBy tells whether one that is found is
// really theirs.
func OwnerIndexValues(kind, key string) []string {
	values := []string{OwnerIndexValue(kind, key)}
	hashedKind, hashedKey := OwnerLabelValue(kind), OwnerLabelValue(key)
	if hashed := OwnerIndexValue(hashedKind, hashedKey); hashed != values[0] {
		values = append(values, hashed)
	}
	return values
}

// OwnerIndexValueOf returns the value of OwnerIndex that obj has; "" if it names no owner. Labels count where the
// annotations are gone.
func OwnerIndexValueOf(obj metav1.Object) string {
	kind, key := ownerNamed(obj)
	if kind == "" || key == "" {
		return ""
	}
	return OwnerIndexValue(kind, key)
}

// SameOwner reports whether two objects name the same owner, or both none, in their annotations, or where those are
// gone in their labels.
func SameOwner(a, b metav1.Object) bool {
	aKind, aKey := ownerNamed(a)
	bKind, bKey := ownerNamed(b)
	return aKind == bKind && aKey == bKey || (aKind == "" || aKey == "") && (bKind == "" || bKey == "")
}

func ownerNamed(obj metav1.Object) (kind, key string) {
	return cmp.Or(marksOn(obj, OwnerKindAnnotation, OwnerKindLabel)),
		cmp.Or(marksOn(obj, OwnerKeyAnnotation, OwnerKeyLabel))
}

// marksOn looks one annotation and one label up.
func marksOn(obj metav1.Object, ofAnnotation, ofLabel string) (annotation, label string) {
	if held, is := obj.(*packed); is { // which would make a map for each
		return held.annotation(ofAnnotation), held.label(ofLabel)
	}
	return obj.GetAnnotations()[ofAnnotation], obj.GetLabels()[ofLabel]
}

// IsOwnedBy reports whether obj names this kind and key as its owner, of any installation. Where an annotation is gone
// the label counts.
func IsOwnedBy(obj metav1.Object, kind, key string) bool {
	byAnnotation, byLabel := marksOn(obj, OwnerKeyAnnotation, OwnerKeyLabel)
	if !names(byAnnotation, byLabel, key) {
		return false
	}
	byAnnotation, byLabel = marksOn(obj, OwnerKindAnnotation, OwnerKindLabel)
	return names(byAnnotation, byLabel, kind)
}

// names reports whether an annotation, or where it is gone a label, stands for a value.
func names(annotation, label, value string) bool {
	if annotation != "" {
		return annotation == value
	}
	return label != "" && IsOwnerLabel(label, value)
}

// IsOwnerLabel reports whether the label of an owner's mark stands for value. It is OwnerLabelValue of it, or value
// itself: the original Kumori runtime writes keys as they are, and a document in NATS may have any text in a label. A
// value that reads like a hash is never its own label, so that no key stands for what another one owns.
func IsOwnerLabel(label, value string) bool {
	return label == value && !strings.HasPrefix(label, ownerHashPrefix) || label == OwnerLabelValue(value)
}

// OwnerOf returns the kind and key of the primary that obj names as its owner; ok is false if it names none. The
// annotations say so, and where one is gone, or was never set as by the original Kumori runtime, its label does. ok is
// false, too, where a label has only the hash of a kind or key: IsOwnedBy can tell whose such an object is.
func OwnerOf(obj metav1.Object) (kind, key string, ok bool) {
	annotations, labels := obj.GetAnnotations(), obj.GetLabels()
	kind = named(annotations[OwnerKindAnnotation], labels[OwnerKindLabel])
	key = named(annotations[OwnerKeyAnnotation], labels[OwnerKeyLabel])
	if kind == "" || key == "" {
		return "", "", false
	}
	return kind, key, true
}

// InstanceOf returns the id of the installation that obj's owner belongs to; "" if obj names none. It is in the
// annotation, or where that is gone in the label.
func InstanceOf(obj metav1.Object) string {
	return named(obj.GetAnnotations()[OwnerInstanceAnnotation], obj.GetLabels()[OwnerInstanceLabel])
}

// named is what an annotation says, or where it is gone a label; "" if that is a hash.
func named(annotation, label string) string {
	if annotation == "" && !strings.HasPrefix(label, ownerHashPrefix) {
		return label
	}
	return annotation
}

// SetOwner makes obj name its primary, in labels and annotations. An empty instance removes the instance's name. If obj
// named another one, or none, its OwnerRevisionAnnotation goes, and so do its OwnerStatusBucketAnnotation and its
// OwnerProofAnnotation. SetOwner replaces the maps and never changes them, so obj may share them with another object.
func SetOwner(obj metav1.Object, kind, key, instance string) {
	annotations := map[string]string{
		OwnerKindAnnotation: kind, OwnerKeyAnnotation: key, OwnerInstanceAnnotation: instance,
	}
	held := obj.GetAnnotations()
	for _, name := range []string{OwnerKindAnnotation, OwnerKeyAnnotation, OwnerInstanceAnnotation} {
		if held[name] != annotations[name] {
			annotations[OwnerRevisionAnnotation], annotations[OwnerProofAnnotation] = "", ""
			annotations[OwnerStatusBucketAnnotation] = ""
		}
	}
	obj.SetAnnotations(withOwner(held, annotations))
	obj.SetLabels(withOwner(obj.GetLabels(), map[string]string{
		OwnerKindLabel: OwnerLabelValue(kind), OwnerKeyLabel: OwnerLabelValue(key),
		OwnerInstanceLabel: OwnerLabelValue(instance),
	}))
}

func withOwner(existing, owner map[string]string) map[string]string {
	size := len(existing)
	for name, value := range owner {
		if _, ok := existing[name]; !ok && value != "" {
			size++
		}
	}
	out := make(map[string]string, size)
	for name, value := range existing {
		out[name] = value
	}
	for name, value := range owner {
		if value == "" {
			delete(out, name)
			continue
		}
		out[name] = value
	}
	return out
}

// ownerHashPrefix is what a label value begins with that is a hash.
const ownerHashPrefix = "sha256-"

// OwnerLabelValue returns the label value that stands for key: the key itself if that is a valid label value and does
// not look like a hash, else "sha256-" and the first 40 hexadecimal digits of its SHA-256. So no key can stand for what
// another one owns.
func OwnerLabelValue(key string) string {
	if (isPlain(key) || len(validation.IsValidLabelValue(key)) == 0) && !strings.HasPrefix(key, ownerHashPrefix) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return ownerHashPrefix + hex.EncodeToString(sum[:])[:40]
}

// isPlain accepts most valid label values, and no others, without the regular expression of the validation.
func isPlain(value string) bool {
	for _, c := range []byte(value) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return value != "" && len(value) <= content.LabelValueMaxLength && value[0] != '-' && value[len(value)-1] != '-'
}
