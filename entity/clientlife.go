package entity

import (
	"fmt"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// Subscribe registers callbacks. Before it returns, it calls them for all that is invalid, in error or reserved at the
// time. The callbacks must not call Subscribe, cancel, Start or stop.
func (c *Client[T]) Subscribe(hooks Hooks) (cancel func()) {
	ofDocuments := c.shared.hooks.subscribe(c.untilClosed(hooks))
	ofStatus := c.hooks.subscribe(Hooks{
		Readable: hooks.Readable, Error: hooks.Error, Reserved: hooks.Reserved, Arrived: hooks.Arrived,
		Settings: hooks.Settings, ApartRecord: hooks.ApartRecord,
	})
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if g := c.current.Load(); g != nil {
		g.runReserved()
	}
	return func() {
		ofDocuments()
		ofStatus()
	}
}

// untilClosed returns the hooks about documents. The cache may go on for other clients after this one is closed.
func (c *Client[T]) untilClosed(hooks Hooks) (out Hooks) {
	if hooks.Invalid != nil {
		out.Invalid = func(key string, revision uint64, err error) {
			if !c.closed.Load() {
				hooks.Invalid(key, revision, err)
			}
		}
	}
	if hooks.Apart != nil {
		out.Apart = func(key string, change ApartChange) {
			if !c.closed.Load() {
				hooks.Apart(key, change)
			}
		}
	}
	if hooks.ApartGone != nil {
		out.ApartGone = func(key string, how natsinformer.Deletion) {
			if !c.closed.Load() {
				hooks.ApartGone(key, how)
			}
		}
	}
	if hooks.Resolved != nil {
		out.Resolved = func(key string) {
			if !c.closed.Load() {
				hooks.Resolved(key)
			}
		}
	}
	if hooks.Error != nil {
		out.Error = func(bucket string, err error) {
			if !c.closed.Load() {
				hooks.Error(bucket, err)
			}
		}
	}
	if hooks.Settings != nil {
		out.Settings = func(bucket string, err error) {
			if !c.closed.Load() {
				hooks.Settings(bucket, err)
			}
		}
	}
	if hooks.Arrived != nil {
		out.Arrived = func(bucket string, entry natsinformer.Entry) {
			if !c.closed.Load() {
				hooks.Arrived(bucket, entry)
			}
		}
	}
	return out
}

// Informer returns the shared cache of documents: T without status, with resourceVersion and generation, and with the
// index OwnerIndex. It runs while the client has users, see Start; its own Run counts as one. An informer cannot run
// twice: after the last user has stopped, Informer returns another one, which needs its own handlers.
//
// A cache that clients share (WithStatusBucket) runs while one of them has users, and calls the handlers of all. Those
// of a client are taken off when its own last user stops. Start the client before you add handlers: the cache may end
// with another client until then, and the handlers with it.
//
// SetTransform makes the cache keep less of each document, see "Transforms" in the package comment. It is an error
// while the cache runs, and holds for the clients that share it, and for their informers after this one, until it is
// set anew.
func (c *Client[T]) Informer() natsinformer.Informer { return c.generation().public }

// Start adds a user of the caches; the first one starts the informers of documents and records. stop removes the user.
// With the last one it stops the informers and waits for them and their handlers, so a handler must not call it. The
// informer of documents goes on if a client that shares it has users. stop may be called more than once.
func (c *Client[T]) Start() (stop func(), err error) {
	for {
		if c.closed.Load() {
			return nil, fmt.Errorf("entity: the client of kind %s is closed", c.cfg.Kind)
		}
		if stop, err := c.generation().start(); err == nil {
			return stop, nil
		}
		// The generation ended between the two calls; take the next one.
	}
}

// Closed reports whether Close was called.
func (c *Client[T]) Closed() bool { return c.closed.Load() }

// Close stops the informers, used or not, and waits for them. Clients that share the cache of documents keep it; see
// WithStatusBucket. Reads and writes that need no cache still work.
func (c *Client[T]) Close() {
	if !c.closed.Swap(true) {
		defer c.shared.disclaim(c.cfg)
	}
	c.shared.hooks.barrier() // from here on the hooks about documents are silent
	c.shared.mu.Lock()
	g := c.dropLocked()
	c.shared.mu.Unlock()
	if g != nil {
		g.news.setError(c.cfg.Bucket,
			fmt.Errorf("the client of kind %s was closed, nothing is watched any more", c.cfg.Kind))
		g.awaitEnd()
	}
	c.async.close()
}
