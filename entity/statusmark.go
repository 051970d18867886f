package entity

import (
	"cmp"
	"runtime"
	"strings"
	"sync"
	"unsafe"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
)

// A joined object has to carry the StatusRevision that it was read with, so that UpdateStatus notices another writer,
// and an object that came through a transform has to carry that, so that Update keeps what the transform left out;
// their copies too, because everybody changes copies. It must not show: what an object shows is copied to other
// objects, and compared. An object of the user's type has no room for that, except in what all copies share: the memory
// of its strings. So its kind is a string with the usual text, of which each mark has one of its own.
//
// Whoever sets another kind, or makes an object of JSON, has an object without a mark, as one made by hand.

// mark is what an object carries.
type mark struct {
	revision uint64 // the StatusRevision, if joined
	joined   bool   // with a record
	read     reading
}

// reading is how an object was read.
type reading uint8

const (
	readSomehow     reading = iota // or made by hand
	readWhole                      // live, or written as it is
	readTransformed                // from a cache with a transform
)

// statusMarks are the kinds that stand for a mark. They are of the process, as those of package unique are: an object
// may be read by one client and written by another.
type statusMarks struct {
	mu     sync.RWMutex
	marks  map[statusMark]weak.Pointer[byte] // the first byte of the text
	marked map[uintptr]heldMark              // by its address
}

type statusMark struct {
	kind string
	mark
}

type heldMark struct {
	text weak.Pointer[byte] // an address may be that of another text after this one
	mark mark
}

var marks = &statusMarks{marks: map[statusMark]weak.Pointer[byte]{}, marked: map[uintptr]heldMark{}}

// of returns the mark that a kind stands for; ok is false if it is any other string.
func (m *statusMarks) of(kind string) (stands mark, ok bool) {
	if kind == "" {
		return mark{}, false
	}
	text := unsafe.StringData(kind)
	m.mu.RLock()
	held, ok := m.marked[uintptr(unsafe.Pointer(text))]
	m.mu.RUnlock()
	if !ok || held.text.Value() != text {
		return mark{}, false
	}
	return held.mark, true
}

// kind returns the string with this text that stands for a mark.
func (m *statusMarks) kind(kind string, stands mark) string {
	mark := statusMark{kind, stands}
	m.mu.RLock()
	text := m.marks[mark].Value()
	m.mu.RUnlock()
	if text == nil {
		text = m.make(mark)
	}
	return unsafe.String(text, len(kind))
}

// unshared is more than what Go packs into one block of memory with others, which would then live as long.
const unshared = 16

func (m *statusMarks) make(mark statusMark) *byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if text := m.marks[mark].Value(); text != nil {
		return text
	}
	memory := make([]byte, len(mark.kind), len(mark.kind)+unshared)
	copy(memory, mark.kind)
	text := unsafe.SliceData(memory)
	mark.kind = strings.Clone(mark.kind) // it may be another mark, which must not live for this one
	held := weak.Make(text)
	m.marks[mark], m.marked[uintptr(unsafe.Pointer(text))] = held, heldMark{held, mark.mark}
	runtime.AddCleanup(text, m.forget, forgotten{mark, uintptr(unsafe.Pointer(text)), held})
	return text
}

type forgotten struct {
	mark    statusMark
	address uintptr
	text    weak.Pointer[byte]
}

// forget is called when no object has a text any more. Another one may have taken its place.
func (m *statusMarks) forget(f forgotten) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks[f.mark] == f.text {
		delete(m.marks, f.mark)
	}
	if m.marked[f.address].text == f.text {
		delete(m.marked, f.address)
	}
}

// setMark gives obj a mark. One without a kind gets this one. obj must not be shared.
func setMark(obj k8sruntime.Object, kind string, m mark) {
	setKind(obj, marks.kind(cmp.Or(kindOf(obj), kind), m))
}

// markOf returns the mark of obj, which is zero if it has none.
func markOf(obj k8sruntime.Object) mark {
	m, _ := marks.of(kindOf(obj))
	return m
}

// markStatusRevision makes obj one that was read with this revision. One without a kind gets this one. obj must not be
// shared.
func markStatusRevision(obj k8sruntime.Object, kind string, revision uint64) {
	setMark(obj, kind, mark{revision: revision, joined: true, read: markOf(obj).read})
}

// statusRevisionOf returns the status revision that obj was read with; ok is false if obj was not joined.
func statusRevisionOf(obj k8sruntime.Object) (revision uint64, ok bool) {
	m := markOf(obj)
	return m.revision, m.joined
}

// unmark makes obj one without a mark. plain is the kind that it has most likely.
func unmark(obj k8sruntime.Object, plain string) {
	kind := kindOf(obj)
	if _, marked := marks.of(kind); !marked {
		return
	}
	if kind != plain {
		plain = strings.Clone(kind)
	}
	setKind(obj, plain)
}

// KeepMarks gives obj, which was made of before, what before carries and does not show: the revision of the record that
// it was joined with, and how it was read. So what sets all fields of an object changes no more than its user's.
func KeepMarks(before, obj metav1.Object) {
	from, isObject := before.(k8sruntime.Object)
	to, isToo := obj.(k8sruntime.Object)
	if !isObject || !isToo {
		return
	}
	if m, marked := marks.of(kindOf(from)); marked {
		if kind := kindOf(to); kind == "" || kind == kindOf(from) {
			setKind(to, marks.kind(kindOf(from), m))
		}
	}
}

// typeMeta returns the field that nearly all types have their kind in. Through the interface, setting the kind would
// make the apiVersion anew.
func typeMeta(obj k8sruntime.Object) *metav1.TypeMeta {
	meta, _ := obj.GetObjectKind().(*metav1.TypeMeta)
	return meta
}

func kindOf(obj k8sruntime.Object) string {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.GetKind()
	}
	if meta := typeMeta(obj); meta != nil {
		return meta.Kind
	}
	return obj.GetObjectKind().GroupVersionKind().Kind
}

func setKind(obj k8sruntime.Object, kind string) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetKind(kind)
		return
	}
	if meta := typeMeta(obj); meta != nil {
		meta.Kind = kind
		return
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	gvk.Kind = kind
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}
