package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

var errSyncTimeout = errors.New("it was not filled in time (see Config.CacheSyncTimeout)")

// cachePoll is how often a cache is asked whether it has synced.
const cachePoll = 20 * time.Millisecond

// fill starts a client's cache and waits until it has synced. It runs until the client is closed, or those who used it
// were removed. That of a bucket which may be opened later is not waited for: the controllers that cannot do without it
// wait themselves.
func (c *registered) fill(ctx context.Context) error {
	c.fills(true)
	defer c.fills(false)
	if err := c.keepWarm(); err != nil {
		if c.Closed() {
			return nil // by its user
		}
		return err
	}
	if c.Config().OpenLater {
		return nil
	}
	poll := time.NewTicker(cachePoll)
	defer poll.Stop()
	for !c.Closed() {
		missing, why := c.missing()
		if missing == "" {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w: bucket %q", context.Cause(ctx), missing), why)
		}
	}
	return nil
}

// fills notes whether the cache is being filled: then it is for what was added, and does not end.
func (c *registered) fills(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beingFilled = now
}

func (c *registered) keepWarm() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire, err = c.warm()
	return err
}

// end stops a cache that is kept, where nothing else uses it any more; one that was never used, if unused is true.
func (c *registered) end(unused bool) {
	c.mu.Lock()
	retire := c.retire
	if c.beingFilled {
		retire = nil
	}
	c.mu.Unlock()
	if retire == nil || !retire(unused) { // without the lock: it waits for the end
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
}

// missing is the bucket whose cache has not synced, and why; "" if there is none.
func (c *registered) missing() (bucket string, why error) {
	if documents := c.Informer(); !documents.HasSynced() {
		return c.Config().Bucket, documents.Status().Err
	}
	if records := c.Records(); records != nil && !records.Informer().HasSynced() {
		return c.Config().StatusBucket, records.Informer().Status().Err
	}
	return "", nil
}

func (c *registered) name() string {
	cfg := c.Config()
	return fmt.Sprintf("cache of %s (bucket %q, status bucket %q)", cfg.Kind, cfg.Bucket, cfg.StatusBucket)
}

// Synced says which caches Run has not filled yet; nil when all are, and so what was added is started. It is for a
// readiness probe: see AddCheck of package probes.
func (m *Manager) Synced() error {
	missing := m.unfilled.names()
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not filled yet: %s", strings.Join(missing, ", "))
}

// notBegun stands for all caches before Run.
const notBegun = "all caches (Run was not called)"

// unfilled are the names of caches that are not filled yet, each as often as there are such caches.
type unfilled struct {
	mu   sync.Mutex
	list []string
}

func (u *unfilled) add(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, name)
}

func (u *unfilled) remove(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.list, name); i >= 0 {
		u.list = slices.Delete(u.list, i, i+1)
	}
}

func (u *unfilled) names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}
