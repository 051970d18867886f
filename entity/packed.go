package entity

import (
	"hash/maphash"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/intern"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// packed is how a cache holds an object whose labels and annotations are its own, because they name its owner. Go's
// smallest map takes 336 bytes; here a string takes 16. Nobody outside the cache sees it: packer.unpack makes the
// object again. It is shared, and only natsinformer changes one, a copy for those who hear of a delete.
type packed struct {
	IEntity // the object without labels and annotations, or a bareMeta
	shape   *shape
	values  []string // of the labels, then of the annotations
}

var _ IEntity = (*packed)(nil)

// shape has the names of labels and annotations, which many objects have in common.
type shape struct{ labels, annotations []string }

func (p *packed) GetLabels() map[string]string { return zip(p.shape.labels, p.values) }

func (p *packed) GetAnnotations() map[string]string {
	return zip(p.shape.annotations, p.values[len(p.shape.labels):])
}

func (p *packed) SetLabels(labels map[string]string)           { p.set(labels, p.GetAnnotations()) }
func (p *packed) SetAnnotations(annotations map[string]string) { p.set(p.GetLabels(), annotations) }

func (p *packed) set(labels, annotations map[string]string) {
	p.shape = newShape(labels, annotations)
	p.values, _ = p.shape.values(labels, annotations)
}

// label is GetLabels()[name].
func (p *packed) label(name string) string { return valueOf(name, p.shape.labels, p.values) }

// annotation is GetAnnotations()[name].
func (p *packed) annotation(name string) string {
	return valueOf(name, p.shape.annotations, p.values[len(p.shape.labels):])
}

func (p *packed) DeepCopyObject() runtime.Object {
	return &packed{p.IEntity.DeepCopyObject().(IEntity), p.shape, p.values}
}

func zip(names, values []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
	m := make(map[string]string, len(names))
	for i, name := range names {
		m[name] = values[i]
	}
	return m
}

func valueOf(name string, names, values []string) string {
	if i := slices.Index(names, name); i >= 0 {
		return values[i]
	}
	return ""
}

func newShape(labels, annotations map[string]string) *shape {
	s := &shape{make([]string, 0, len(labels)), make([]string, 0, len(annotations))}
	for name := range labels {
		s.labels = append(s.labels, name)
	}
	for name := range annotations {
		s.annotations = append(s.annotations, name)
	}
	return s
}

// values returns the values of the names; ok is false if there are others.
func (s *shape) values(labels, annotations map[string]string) (values []string, ok bool) {
	if len(labels) != len(s.labels) || len(annotations) != len(s.annotations) {
		return nil, false
	}
	values = make([]string, len(labels)+len(annotations))
	for i, name := range s.labels {
		if values[i], ok = labels[name]; !ok {
			return nil, false
		}
	}
	for i, name := range s.annotations {
		if values[len(labels)+i], ok = annotations[name]; !ok {
			return nil, false
		}
	}
	return values, true
}

// bareMeta is an object of a cache with Config.OnlyMetadata, but for labels and annotations. Its methods tell what an
// informer asks for, and no more.
type bareMeta struct {
	noMeta
	namespace, name string
	revision        uint64 // the resourceVersion
	generation      int64
	typed           *metav1.TypeMeta
	more            *metav1.ObjectMeta // all else; nil: there is nothing
}

func (m *bareMeta) GetNamespace() string       { return m.namespace }
func (m *bareMeta) GetName() string            { return m.name }
func (m *bareMeta) GetGeneration() int64       { return m.generation }
func (m *bareMeta) GetResourceVersion() string { return strconv.FormatUint(m.revision, 10) }

// SetResourceVersion ignores what is no revision.
func (m *bareMeta) SetResourceVersion(version string) {
	if revision, err := strconv.ParseUint(version, 10, 64); err == nil {
		m.revision = revision
	}
}

func (m *bareMeta) SetNamespace(namespace string)     { m.namespace = namespace }
func (m *bareMeta) SetName(name string)               { m.name = name }
func (m *bareMeta) GetAnnotations() map[string]string { return nil }
func (m *bareMeta) SetAnnotations(map[string]string)  {}

func (m *bareMeta) GetObjectKind() schema.ObjectKind {
	typed := *m.typed
	return &typed
}

func (m *bareMeta) DeepCopyObject() runtime.Object {
	out := *m
	return &out
}

// packer packs the objects of one cache.
type packer[T IEntity] struct {
	meta   []int // index of T's ObjectMeta
	make   func() T
	pool   *intern.Pool
	shapes [1 << 8]atomic.Pointer[shape] // those seen last
	typed  atomic.Pointer[metav1.TypeMeta]
}

// newPacker returns nil for a type that does not keep its metadata as most do.
func newPacker[T IEntity](c *codec[T], pool *intern.Pool) *packer[T] {
	if !c.flat {
		return nil
	}
	field, _ := c.elem.FieldByName("ObjectMeta")
	p := &packer[T]{meta: field.Index, make: c.new, pool: pool}
	probe := c.new()
	p.metaOf(probe).Labels, p.metaOf(probe).Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
	if typeMeta(probe) == nil || probe.GetLabels()["a"] != "b" || probe.GetAnnotations()["c"] != "d" {
		return nil // it has methods of its own
	}
	return p
}

func (p *packer[T]) metaOf(obj T) *metav1.ObjectMeta {
	return reflect.ValueOf(obj).Elem().FieldByIndex(p.meta).Addr().Interface().(*metav1.ObjectMeta)
}

// pack returns what the cache holds of obj, which is the packer's from now on. metadataOnly says that it has no more
// than its metadata.
func (p *packer[T]) pack(obj T, metadataOnly bool) IEntity {
	meta := p.metaOf(obj)
	out := &packed{IEntity: obj}
	out.shape, out.values = p.shapeOf(meta.Labels, meta.Annotations)
	for i, value := range out.values {
		out.values[i] = p.pool.String(value)
	}
	meta.Labels, meta.Annotations = nil, nil
	if metadataOnly {
		out.IEntity = p.bare(meta, typeMeta(obj))
	}
	return out
}

func (p *packer[T]) shapeOf(labels, annotations map[string]string) (*shape, []string) {
	var hash uint64
	for name := range labels {
		hash += maphash.String(shapeSeed, name)
	}
	for name := range annotations {
		hash += maphash.String(shapeSeed, name) * 3
	}
	slot := &p.shapes[hash%uint64(len(p.shapes))]
	if held := slot.Load(); held != nil {
		if values, ok := held.values(labels, annotations); ok {
			return held, values
		}
	}
	made := newShape(labels, annotations)
	for _, names := range [][]string{made.labels, made.annotations} {
		for i, name := range names {
			names[i] = p.pool.String(name)
		}
	}
	slot.Store(made)
	values, _ := made.values(labels, annotations)
	return made, values
}

var shapeSeed = maphash.MakeSeed()

func (p *packer[T]) bare(meta *metav1.ObjectMeta, typed *metav1.TypeMeta) *bareMeta {
	held := p.typed.Load()
	if held == nil || *held != *typed {
		held = &metav1.TypeMeta{Kind: typed.Kind, APIVersion: typed.APIVersion}
		p.typed.Store(held)
	}
	out := &bareMeta{namespace: meta.Namespace, name: meta.Name, generation: meta.Generation, typed: held}
	out.SetResourceVersion(meta.ResourceVersion)
	more := *meta
	more.Namespace, more.Name, more.Generation, more.ResourceVersion = "", "", 0, ""
	if !reflect.ValueOf(more).IsZero() {
		out.more = &more
	}
	return out
}

// unpack returns an object as it was before pack, with maps of its own; it shares the rest with the cache. Of what is
// not packed it returns the argument.
func (p *packer[T]) unpack(item any) any {
	o, is := item.(*packed)
	if !is {
		return item
	}
	out := p.make()
	meta := p.metaOf(out)
	switch held := o.IEntity.(type) {
	case *bareMeta:
		if held.more != nil {
			*meta = *held.more
		}
		*typeMeta(out) = *held.typed
		meta.Namespace, meta.Name, meta.Generation = held.namespace, held.name, held.generation
		meta.ResourceVersion = held.GetResourceVersion()
	default:
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(held).Elem())
	}
	meta.Labels, meta.Annotations = o.GetLabels(), o.GetAnnotations()
	return out
}
