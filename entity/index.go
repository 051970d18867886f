package entity

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/notify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Index finds the entities of a client by a value that they have, such as the name of the theme that a site uses. It
// goes into Config.Indexes. WithIndex makes one.
type Index struct {
	name   string
	of     reflect.Type // of the entities
	values func(IEntity) []string
}

// WithIndex makes an index for Config.Indexes of a client of the same T. values returns the values of an entity, such
// as keys of what it refers to, or none. It sees the document without its status; in the cache, as the informer's
// transform has left it. It must not modify it, and must return the same for the same document. It may be called
// concurrently, and while the cache is locked: it must not read a cache or wait for anything. If it panics, that is
// logged, and the entity is not in the index.
//
// The index is there as long as the client is, whenever its informers start and stop. Lister.ByIndex reads it,
// own writes included, and controller.WatchesIndexed wakes by it.
func WithIndex[T IEntity](name string, values func(obj T) []string) Index {
	x := Index{name: name, of: reflect.TypeFor[T]()}
	if values != nil {
		x.values = func(obj IEntity) []string { return values(obj.(T)) }
	}
	return x
}

// Name is the name that the index was made with.
func (x Index) Name() string { return x.name }

// looksLike is as much as can be told of two functions.
func (x Index) looksLike(other Index) bool { return x.name == other.name && x.of == other.of }

// indexes are those of the documents of one kind. The owner index is one of them.
type indexes[T IEntity] map[string]func(obj T) []string

func newIndexes[T IEntity](cfg Config) (indexes[T], error) {
	all := indexes[T]{OwnerIndex: func(obj T) []string { return ownerIndexOf(obj) }}
	for i, x := range cfg.Indexes {
		_, taken := all[x.name]
		switch t := reflect.TypeFor[T](); {
		case x.name == "" || x.values == nil:
			return nil, fmt.Errorf("entity: index %d of kind %s has no name or no function: make it with "+
				`WithIndex("theme", func(s %v) []string { … })`, i+1, cfg.Kind, t)
		case x.of != t:
			return nil, fmt.Errorf("entity: index %q is for %v, and the entities of kind %s are %v",
				x.name, x.of, cfg.Kind, t)
		case taken:
			return nil, fmt.Errorf("entity: index %q of kind %s is there already: take another name", x.name, cfg.Kind)
		}
		var reports notify.Reports
		all[x.name] = func(obj T) (values []string) {
			key := cache.MetaObjectToName(obj).String()
			if err := guard.Call(func() error { values = x.values(obj); return nil }); err != nil {
				log := klog.Background().WithValues("index", x.name, "kind", cfg.Kind)
				reports.Log(klog.NewContext(context.Background(), log), err,
					"The function of an index panicked, the entity is not in the index", key)
				return nil
			}
			reports.Mended(key)
			return values
		}
	}
	return all, nil
}

// indexers are the indexes as client-go has them, over what a cache holds.
func (x indexes[T]) indexers(unpack func(any) any) cache.Indexers {
	indexers := cache.Indexers{}
	for name, values := range x {
		indexers[name] = func(item any) ([]string, error) {
			if held, is := item.(*packed); is && name == OwnerIndex {
				return ownerIndexOf(held), nil
			}
			if obj, ok := unpack(item).(T); ok {
				return values(obj), nil
			}
			return nil, nil
		}
	}
	return indexers
}

func ownerIndexOf(obj metav1.Object) []string {
	if value := OwnerIndexValueOf(obj); value != "" {
		return []string{value}
	}
	return nil
}

// groups are the indexes as the overlay of own writes has them.
func (x indexes[T]) groups(obj T) (groups []string) {
	for name, values := range x {
		for _, value := range values(obj) {
			groups = append(groups, groupOf(name, value))
		}
	}
	return groups
}

func groupOf(index, value string) string { return index + "\x00" + value }

// keysBy returns the keys that an index has, or had before an own write, under one of the values, as far as keep says.
func (d *documentCache[T]) keysBy(index string, keep func(key string) bool, values ...string) (keys []string) {
	for _, value := range values {
		keys = append(keys, d.writes.Group(groupOf(index, value))...) // before the store; lookup says why
	}
	for _, value := range values {
		indexed, _ := d.held.GetIndexer().IndexKeys(index, value) // it fails only for an index that is not there
		keys = append(keys, indexed...)
	}
	if keep != nil {
		keys = slices.DeleteFunc(keys, func(key string) bool { return !keep(key) })
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// by are the documents that an index has under a value, own writes included, by key. They are shared.
func (d *documentCache[T]) by(index, value string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range d.keysBy(index, nil, value) {
			obj, _, found := d.lookup(key)
			if found && slices.Contains(d.shared.indexes[index](obj), value) && !yield(key, obj) {
				return
			}
		}
	}
}

// checkIndex refuses an index that the client does not have.
func (c *Client[T]) checkIndex(name string) error {
	if name == OwnerIndex {
		return fmt.Errorf("kind %s: owners share the values of index %q, so it cannot choose what one of them owns: "+
			"ask Lister.OwnedBy", c.cfg.Kind, name)
	}
	if _, ok := c.shared.indexes[name]; !ok {
		return fmt.Errorf("kind %s has no index %q: name it in Config.Indexes of its client, as in "+
			"entity.WithIndex(%q, func(%v) []string { … })", c.cfg.Kind, name, name, reflect.TypeFor[T]())
	}
	return nil
}

// CheckIndex implements EnginePort.
func (p enginePort[T]) CheckIndex(name string) error { return p.checkIndex(name) }

// KeysByIndex implements EnginePort.
func (p enginePort[T]) KeysByIndex(name, value string) ([]string, error) {
	if err := p.checkIndex(name); err != nil {
		return nil, err
	}
	d := p.runningDocuments()
	if d == nil {
		return nil, nil
	}
	var keys []string
	for key := range d.by(name, value) {
		keys = append(keys, key)
	}
	return keys, nil
}
