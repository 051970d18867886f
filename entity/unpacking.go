package entity

import (
	"iter"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/client-go/tools/cache"
)

// unpacking is an informer whose handlers, store and indexes have objects, though its cache holds them packed. Each
// handler, and each read, gets an object of its own.
type unpacking struct {
	natsinformer.Informer
	unpack func(any) any
	store  *unpackingStore
}

func newUnpacking(informer natsinformer.Informer, unpack func(any) any) *unpacking {
	return &unpacking{informer, unpack, &unpackingStore{informer.GetIndexer(), unpack}}
}

func (i *unpacking) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(unpackingHandler{h, i.unpack})
}

func (i *unpacking) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithResyncPeriod(unpackingHandler{h, i.unpack}, period)
}

func (i *unpacking) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(unpackingHandler{h, i.unpack}, options)
}

func (i *unpacking) AddIndexers(indexers cache.Indexers) error { return i.store.AddIndexers(indexers) }
func (i *unpacking) GetStore() cache.Store                     { return i.store }
func (i *unpacking) GetIndexer() cache.Indexer                 { return i.store }

type unpackingHandler struct {
	to     cache.ResourceEventHandler
	unpack func(any) any
}

func (h unpackingHandler) OnAdd(obj any, isInInitialList bool) {
	h.to.OnAdd(h.unpack(obj), isInInitialList)
}
func (h unpackingHandler) OnUpdate(before, after any) {
	h.to.OnUpdate(h.unpack(before), h.unpack(after))
}

func (h unpackingHandler) OnDelete(obj any) {
	if unknown, is := obj.(cache.DeletedFinalStateUnknown); is {
		unknown.Obj = h.unpack(unknown.Obj)
		h.to.OnDelete(unknown)
		return
	}
	h.to.OnDelete(h.unpack(obj))
}

type unpackingStore struct {
	cache.Indexer
	unpack func(any) any
}

func (s *unpackingStore) List() []any { return s.all(s.Indexer.List()) }

func (s *unpackingStore) Get(obj any) (item any, exists bool, err error) {
	return s.one(s.Indexer.Get(obj))
}

func (s *unpackingStore) GetByKey(key string) (item any, exists bool, err error) {
	return s.one(s.Indexer.GetByKey(key))
}

func (s *unpackingStore) Index(index string, obj any) ([]any, error) {
	items, err := s.Indexer.Index(index, obj)
	return s.all(items), err
}

func (s *unpackingStore) ByIndex(index, value string) ([]any, error) {
	items, err := s.Indexer.ByIndex(index, value)
	return s.all(items), err
}

func (s *unpackingStore) AddIndexers(indexers cache.Indexers) error {
	added := make(cache.Indexers, len(indexers))
	for name, values := range indexers {
		added[name] = func(obj any) ([]string, error) { return values(s.unpack(obj)) }
	}
	return s.Indexer.AddIndexers(added)
}

func (s *unpackingStore) all(items []any) []any {
	for i, item := range items {
		items[i] = s.unpack(item)
	}
	return items
}

func (s *unpackingStore) one(item any, exists bool, err error) (any, bool, error) {
	return s.unpack(item), exists, err
}

func (d *documentCache[T]) unpack(item any) any {
	if d.packer == nil {
		return item
	}
	return d.packer.unpack(item)
}

// each are the objects of a cache, one at a time: together they may be larger than the cache itself.
func (d *documentCache[T]) each() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, item := range d.held.GetStore().List() {
			if obj, ok := d.unpack(item).(T); ok && !yield(obj) {
				return
			}
		}
	}
}
