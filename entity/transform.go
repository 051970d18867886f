package entity

import (
	"context"
	"fmt"
	"maps"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// transformer is the transform of the informer of documents. It is applied once to each document that the cache reads,
// and to each own write that the lister shows before that. Nil changes nothing.
type transformer[T IEntity] struct {
	codec        *codec[T]
	call         *guard.Transform
	metadataOnly bool // see Config.OnlyMetadata
}

// newTransformer returns nil if there is no transform.
func newTransformer[T IEntity](codec *codec[T], call cache.TransformFunc) *transformer[T] {
	if call == nil {
		return nil
	}
	return &transformer[T]{codec: codec, call: guard.NewTransform(call)}
}

// apply returns what the transform makes of a document. obj is the caller's alone, and stamped. What the client and the
// runtime read themselves is in the result as it is in the document, whatever the transform does to it: name, revision,
// type, and the runtime's own annotations and labels. The error is IsInvalid.
func (t *transformer[T]) apply(key string, obj T) (T, error) {
	var none T
	namespace, name, revision := obj.GetNamespace(), obj.GetName(), uint64(obj.GetGeneration())
	gvk := obj.GetObjectKind().GroupVersionKind()
	annotations, labels := only(runtimeAnnotations, obj.GetAnnotations()), only(runtimeLabels, obj.GetLabels())
	result, err := t.call.Apply(obj)
	if err != nil {
		return none, t.refused(key, err)
	}
	out, ok := result.(T)
	if !ok {
		return none, t.refused(key, fmt.Errorf("%s returned a %T: return a %T, as lister and handlers of the "+
			"client do", t.call.Name(), result, none))
	}
	t.codec.clearStatus(out)
	if out.GetDeletionTimestamp() != nil {
		out.SetDeletionTimestamp(nil)
	}
	if out.GetObjectKind().GroupVersionKind() != gvk {
		out.GetObjectKind().SetGroupVersionKind(gvk)
	}
	t.codec.stamp(out, namespace, name, revision)
	if !t.metadataOnly { // else they are there already
		if with, changed := withOnly(runtimeAnnotations, out.GetAnnotations(), annotations); changed {
			out.SetAnnotations(with)
		}
		if with, changed := withOnly(runtimeLabels, out.GetLabels(), labels); changed {
			out.SetLabels(with)
		}
	}
	setMark(out, t.codec.kind, mark{read: readTransformed})
	return out, nil
}

func (t *transformer[T]) refused(key string, err error) error {
	why := err.Error()
	if t.codec.secrets != nil {
		why = t.call.Name() + " does not take it; more is not told, because the kind has secret fields"
	}
	return newInvalid(t.codec.kind, t.codec.keys.bucket, key, wholeDocument, why)
}

// only returns those of the names that are there; nil if none is.
func only(names []string, all map[string]string) (found map[string]string) {
	for _, name := range names {
		if value, ok := all[name]; ok {
			if found == nil {
				found = make(map[string]string, len(names))
			}
			found[name] = value
		}
	}
	return found
}

// withOnly returns all, of these names with those that are wanted and no others. It does not change all, which a
// transform may share between objects.
func withOnly(names []string, all, wanted map[string]string) (with map[string]string, changed bool) {
	for _, name := range names {
		value, is := wanted[name]
		if was, had := all[name]; had == is && was == value {
			continue
		}
		if !changed {
			if all, changed = maps.Clone(all), true; all == nil {
				all = map[string]string{}
			}
		}
		if delete(all, name); is {
			all[name] = value
		}
	}
	return all, changed
}

// setTransform sets the transform of the cache of documents, and of those after it.
func (g *generation[T]) setTransform(call cache.TransformFunc) error {
	c := g.client
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	switch {
	case c.cfg.OnlyMetadata:
		return fmt.Errorf("the transform was not set: the cache of kind %s keeps only metadata "+
			"(Config.OnlyMetadata)", c.cfg.Kind)
	case c.closed.Load() || c.latest() != g:
		return fmt.Errorf("the transform was not set: the client of kind %s was stopped by its last user, or closed; "+
			"ask the client for another informer", c.cfg.Kind)
	case g.documents.users > 0:
		return fmt.Errorf("the transform was not set: the informer of kind %s has already started: set it before "+
			"Start, Run and the first read of the lister, of each client that shares the cache", c.cfg.Kind)
	}
	if call != nil {
		if err := checkMarkable(c.codec); err != nil {
			return fmt.Errorf("the transform was not set: %w", err)
		}
	}
	c.shared.transform.Store(newTransformer(c.codec, call))
	return nil
}

// noTransform is SetTransform of the informer of records.
func (g *generation[T]) noTransform(cache.TransformFunc) error {
	return fmt.Errorf("the transform was not set: the records of kind %s are shared with the runtime, which reads all "+
		"of them; transform what a handler gets, or the documents (Client.Informer)", g.client.cfg.Kind)
}

// decode decodes an entry for the cache.
func (d *documentCache[T]) decode(c *Client[T], e natsinformer.Entry) (runtime.Object, error) {
	division := c.division()
	if key, _, _, err := c.keys.fromNATS(e.Key); err == nil {
		if a := division.ofKey(key); a != nil {
			return a, nil // whether it decodes, another replica tells
		}
	}
	object, err := c.decodeEntry(e)
	if err != nil {
		return object, err
	}
	if a := division.ofOwner(object.(T)); a != nil {
		return a, nil
	}
	if d.transform == nil {
		return d.hold(object.(T), true), nil
	}
	obj, err := d.transform.apply(c.keys.display(e.Key), object.(T))
	if err != nil {
		return nil, err
	}
	if d.transform.metadataOnly {
		return d.hold(obj, false), nil
	}
	d.intern(obj, false) // and as it is: a transform may keep it, too
	d.originals.put(e.Key, e.Revision, obj, e.Value)
	return obj, nil
}

// hold returns what the cache holds of an object that is its own. plain says that it has the whole of it, and so no
// mark in its kind.
func (d *documentCache[T]) hold(obj T, plain bool) runtime.Object {
	kind, key := ownerNamed(obj)
	if d.packer == nil || plain && (kind == "" || key == "") { // labels that many have are held once
		d.intern(obj, plain)
		return obj
	}
	d.internType(obj, plain)
	return d.packer.pack(obj, !plain)
}

// intern has equal labels, annotations and types of the cache's objects held once. plain says that the object carries
// no mark in its kind.
func (d *documentCache[T]) intern(obj T, plain bool) {
	if !d.internType(obj, plain) {
		return // such as an unstructured object, whose maps are its own
	}
	obj.SetLabels(d.pool.Map(obj.GetLabels()))
	obj.SetAnnotations(d.pool.Map(obj.GetAnnotations()))
}

func (d *documentCache[T]) internType(obj T, plain bool) bool {
	t, ok := obj.GetObjectKind().(*metav1.TypeMeta)
	if !ok {
		return false
	}
	if t.APIVersion = d.pool.String(t.APIVersion); plain {
		t.Kind = d.pool.String(t.Kind)
	}
	return true
}

// wrote shows an own write in the listers, as the cache will. sent is the cache's from now on.
func (d *documentCache[T]) wrote(ctx context.Context, key string, at sequence, sent T) {
	if d.transform != nil {
		shown, err := d.transform.apply(key, sent)
		if err != nil {
			d.writes.refuse(ctx, key, at, err)
			return
		}
		sent = shown
	}
	d.writes.put(ctx, key, at, sent)
}

// IsTransformed reports whether obj, or what it is a copy of, came through a transform of a client's informer
// (SetTransform), or through Config.OnlyMetadata. It may lack members of its document. Update keeps those, Create
// refuses such an object, and Client.Get reads the whole.
func IsTransformed(obj metav1.Object) bool {
	object, ok := obj.(runtime.Object)
	return ok && markOf(object).read == readTransformed
}
