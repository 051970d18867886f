package entity_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/cache"
)

// TestHandlersAndStoreHaveObjectsOfTheType, whatever of them the cache holds.
func TestHandlersAndStoreHaveObjectsOfTheType(t *testing.T) {
	for name, cfg := range map[string]entity.Config{"the whole": websites, "only metadata": onlyMetadata} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				client := newClient[*Website](t, newServer(t), cfg)
				events := make(chan *Website, 10)
				informer := client.Informer()
				_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc:    func(obj any) { events <- obj.(*Website) },
					UpdateFunc: func(before, after any) { events <- before.(*Website); events <- after.(*Website) },
					DeleteFunc: func(obj any) { events <- obj.(*Website) },
				})
				must(t, err)
				must(t, informer.AddIndexers(cache.Indexers{"name": func(obj any) ([]string, error) {
					return []string{obj.(*Website).Name + "!"}, nil
				}}))
				start(t, client)
				expect := func(what, revision string) *Website {
					t.Helper()
					w := <-events
					if w.ResourceVersion != revision || w.Labels["app"] != "shop" || w.Annotations["note"] != "ours" ||
						!entity.IsOwnedBy(w, "Shop", "one") || w.UID != someUID {
						t.Errorf("%s: a handler got %+v", what, w.ObjectMeta)
					}
					return w
				}
				w := owned("a", "one")
				must(t, client.Create(ctx, w))
				expect("added", "1")
				w.Spec.Replicas = 7
				must(t, client.Update(ctx, w))
				expect("before", "1")
				expect("after", "2")
				stored, exists, err := informer.GetStore().GetByKey("a")
				must(t, err)
				if w, is := stored.(*Website); !exists || !is || w.ResourceVersion != "2" || w.Labels["app"] != "shop" {
					t.Errorf("the store has %+v", stored)
				}
				for _, index := range []struct{ name, value string }{
					{"name", "a!"}, {entity.OwnerIndex, entity.OwnerIndexValue("Shop", "one")},
				} {
					items, err := informer.GetIndexer().ByIndex(index.name, index.value)
					must(t, err)
					if len(items) != 1 || items[0].(*Website).Labels["app"] != "shop" {
						t.Errorf("index %s has %v", index.name, items)
					}
				}
				if items := informer.GetStore().List(); len(items) != 1 || items[0].(*Website).Name != "a" {
					t.Errorf("the store lists %v", items)
				}
				must(t, client.Delete(ctx, "a"))
				gone := expect("deleted", "3")
				if how := natsinformer.DeleteOf(gone); how.Reason != natsinformer.DeleteMarker || gone.Generation != 2 {
					t.Errorf("it was deleted by %+v, at generation %d", how, gone.Generation)
				}
			})
		})
	}
}
