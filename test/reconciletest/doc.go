// Package reconciletest runs one reconcile by hand, as the engine would, and hands back what came of it.
//
// A reconciler that a test calls by itself has no controller around it: SetStatus fails, what it writes names no owner,
// and nothing is refused that another primary owns. A [Runner] is that controller, without its loops. Each call of
// [Runner.Reconcile] is one run of one key, in the goroutine of the test, with the engine's own code: the record is
// written before it and after it, the context is a reconcile's, a panic is an error. Nothing runs that the test did
// not ask for, so a test says in which order things happen, and waits for nothing.
//
// # A whole test
//
//	func TestASiteHasItsPages(t *testing.T) {
//		ctx := t.Context()
//		_, js := natstest.Connect(t, natstest.Start(t).URL())
//		sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
//		pages, err2 := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
//		if err := errors.Join(err, err2); err != nil {
//			t.Fatal(err)
//		}
//		run := reconciletest.New(t, sites, &Reconciler{sites, pages}, controller.Owns(pages))
//		shop := &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: SiteSpec{Pages: []string{"home"}}}
//		if err := sites.Create(ctx, shop); err != nil {
//			t.Fatal(err)
//		}
//		got := run.Reconcile(ctx, "shop", controller.OperationPut)
//		if got.Err != nil || got.Status.Status.Pages != 1 || fmt.Sprint(got.Written) != "[created Page shop.home]" {
//			t.Errorf("wrote %v: %v", got.Written, got.Err)
//		}
//		if got = run.Reconcile(ctx, "shop", controller.OperationResync); len(got.Written) > 0 {
//			t.Errorf("it is not calm: wrote %v", got.Written)
//		}
//		if got = run.Delete(ctx, "shop"); !got.TornDown || fmt.Sprint(got.Written) != "[deleted Page shop.home]" {
//			t.Errorf("deleted %v: %v", got.Written, got.Err)
//		}
//	}
//
// # What is as in a controller
//
// Options are those of [controller.New], and mean the same: what is owned, who may own it, prunes, proofs, the recorder
// of events, the timeout, the callbacks. Secondaries name their owner. What the primary does not own is refused. A
// terminal error parks the key, which is woken as controller.TerminalError says. A document that is gone and was
// reconciled before is torn down: the reconciler is called with OperationDelete, what is still owned is deleted, the
// record goes. Runner.Controller gives LastKnown and SetOwner.
//
// # What is not
//
// There is no lease, no resync, no sweep, and no queue: nothing is reconciled because of an event or a retry. A
// reconcile is asked for by hand, as with Controller.Enqueue: so OperationDelete also reaches the reconciler for a key
// that was never reconciled. The brake lets everything go, because it counts many keys, and here there is one.
// Handlers, mappers and predicates are called, and make nothing due.
//
// All buckets of the account are read, message by message, to tell what was written: a test's buckets are small.
//
// # Kubernetes
//
// Handles of package kube work as in a controller. client-go's fake dynamic client will do for CreateOrUpdate and for
// deletes, with [GiveIdentities]; it knows no server-side apply, so Apply needs a real API server. The informers are
// the test's: start them, and wait for them, before New. Own writes are waited for. What the test itself writes with a
// Kubernetes client an informer may show later: wait for that before the next reconcile.
//
// # APIs
//
// external.Reconcile works as in a controller. Before a teardown ends, it waits until the API has been listed anew, and
// for as long as a list may be behind a write: give the client a short interval (external.Configure), and Reconcile a
// short external.Settle, or Delete gives up before. An API that was away is called again after it has answered a list.
package reconciletest
