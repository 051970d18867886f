package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// sent collects the writes to the record of a key, refused ones included. The marker of a delete has no data.
func (w *world) sent(key string) (all func() []*nats.Msg) {
	w.t.Helper()
	var mu sync.Mutex
	var sent []*nats.Msg
	sub, err := w.js.Conn().Subscribe("$KV.sites-status."+key, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, m)
	})
	must(w.t, err)
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	must(w.t, w.js.Conn().Flush())
	return func() []*nats.Msg {
		mu.Lock()
		defer mu.Unlock()
		return append([]*nats.Msg(nil), sent...)
	}
}

// TestADocumentPutBackAtTheVeryEndKeepsItsAnchor: a document comes back while the last of its secondaries is deleted.
// The teardown does not go on, and the anchor is never removed: a crash without it would forget what the new document
// owns.
func TestADocumentPutBackAtTheVeryEndKeepsItsAnchor(t *testing.T) {
	for _, test := range []struct {
		name   string
		cached bool
	}{
		{"the cache knows", true},
		{"only the leader knows", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				behind, relay := w.behindRelay()
				ctx := t.Context()
				sites := behind.sites()
				pages := &hooked{Client: behind.pages()}
				teardown := make(chan struct{})
				ended := sync.OnceFunc(func() { close(teardown) })
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					if req.Operations.Has(OperationDelete) {
						return Result{}, nil
					}
					s, err := sites.Lister().Get(req.Key)
					if err != nil {
						return Result{}, err
					}
					_, err = CreateOrUpdate(ctx, pages, &page{ObjectMeta: newPage(req.Key, "").ObjectMeta},
						func(p *page) error {
							p.Spec.Title = s.Spec.Title
							return nil
						})
					return Result{}, err
				}), Owns(pages), WithOnResult(func(r ReconcileResult) {
					if r.Operations.Has(OperationDelete) {
						ended()
					}
				}))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, newSite("home", "old")))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				sent := w.sent("home")

				var once sync.Once
				pages.hook(func() {
					pages.onDelete = func(_ string, remove func() error) error {
						err := remove()
						once.Do(func() {
							if !test.cached {
								relay.mute("sites")
							}
							must(t, sites.Create(ctx, newSite("home", "new")))
							if test.cached {
								natstest.Eventually(t, "the cache knows", func() bool {
									return sites.Informer().Exists("home")
								})
								return
							}
							time.Sleep(absenceTrustedAtMost) // so that the leader's last answer is too old to be acted on
						})
						return err
					}
				})
				must(t, sites.Delete(ctx, "home"))
				receive(t, "the teardown has tried to end", teardown)
				relay.mute("")
				natstest.Eventually(t, "the new document is reconciled", func() bool {
					p, err := pages.Get(ctx, "home")
					return err == nil && p.Spec.Title == "new"
				})
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				for _, m := range sent() {
					if len(m.Data) == 0 {
						t.Errorf("the anchor was removed: %v", m.Header)
					}
				}
				if n := c.Stats().TornDown; n != 0 {
					t.Errorf("%d primaries were torn down", n)
				}
			})
		})
	}
}

// absenceTrustedAtMost is longer than a teardown acts on the leader's last word that a document is gone.
const absenceTrustedAtMost = 150 * time.Millisecond
