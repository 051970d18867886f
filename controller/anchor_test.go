package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// titleOf digs the title out of the last document of a raw record.
func titleOf(record map[string]any) any {
	document, _ := record["lastDocument"].(map[string]any)
	spec, _ := document["spec"].(map[string]any)
	return spec["title"]
}

// TestTheRecordIsThereBeforeEachReconcileOfARevision looks, inside the reconcile, for the record and its document:
// for keys of the initial list, for live ones, and for each new revision.
func TestTheRecordIsThereBeforeEachReconcileOfARevision(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite("early", "one")))
		var seen calls
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			defer seen.add(req) // afterwards: the next write must not overtake what is read here
			record := w.raw("sites-status", req.Key)
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			if record == nil || record["controller"] != "sites" || titleOf(record) != s.Spec.Title {
				t.Errorf("the record of %s in its reconcile is %v, want controller and the document %q", req.Key, record,
					s.Spec.Title)
			}
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "the initial list is reconciled", func() bool { return seen.count("early") > 0 })
		must(t, sites.Create(ctx, newSite("live", "one")))
		natstest.Eventually(t, "the live key is reconciled", func() bool { return seen.count("live") > 0 })
		for _, title := range []string{"two", "three"} {
			before := seen.count("live")
			must(t, sites.Patch(ctx, "live", []byte(`{"spec":{"title":"`+title+`"}}`)))
			natstest.Eventually(t, "the new revision is reconciled", func() bool { return seen.count("live") > before })
		}
	})
}

func TestTheRecordsFieldNamesArePinned(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			s.Status.Ready = true
			return Result{}, sites.UpdateStatus(ctx, s)
		}))
		must(t, err)
		w.run(c)
		s := newSite("home", "one")
		must(t, sites.Create(ctx, s))
		must(t, entity.WaitReconciled(ctx, sites, "home", uint64(s.Generation)))

		record := w.raw("sites-status", "home")
		if record["schemaVersion"] != 1.0 || record["controller"] != "sites" ||
			record["observedRevision"] != float64(s.Generation) {
			t.Errorf("record: %v", record)
		}
		info, err := w.js.Stream(ctx, "KV_sites")
		must(t, err)
		if record["stream"] != entity.StreamIdentity(info.CachedInfo().Created) {
			t.Errorf("stream is %v, want the creation time of the stream", record["stream"])
		}
		if status, _ := record["status"].(map[string]any); status["ready"] != true {
			t.Errorf("status is %v", record["status"])
		}
		if titleOf(record) != "one" {
			t.Errorf("lastDocument is %v", record["lastDocument"])
		}
		conditions, _ := record["conditions"].([]any)
		if len(conditions) != 1 {
			t.Fatalf("conditions are %v", record["conditions"])
		}
		condition := conditions[0].(map[string]any)
		if condition["type"] != "Reconciled" || condition["status"] != "True" || condition["reason"] != "Synced" {
			t.Errorf("condition is %v", condition)
		}
	})
}

// TestNoReconcileWithoutARecord has the server refuse the records of some keys: those are not reconciled, the trouble
// is told, others go on, and once records can be written none is lost.
func TestNoReconcileWithoutARecord(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		large := strings.Repeat("x", 8000)
		must(t, sites.Create(ctx, newSite("early", large)))
		var seen calls
		told := make(chan error, 1024)
		c, err := New("sites", sites, seen.reconciler(nil), WithBackoff(5*time.Millisecond, 50*time.Millisecond),
			WithOnSourceError(func(source string, err error) {
				if strings.HasPrefix(source, "records") {
					told <- err
				}
			}))
		must(t, err)
		w.limitMessages("sites-status", 4000)
		w.run(c)
		must(t, sites.Create(ctx, newSite("live", large)))
		natstest.Eventually(t, "both keys were tried several times", func() bool { return c.Stats().RecordErrors > 5 })
		if err := <-told; err == nil {
			t.Error("the first thing told is that records work")
		}
		natstest.Eventually(t, "Stats tells of it", degradedNow(c, "records"))
		must(t, sites.Create(ctx, newSite("small", "one")))
		natstest.Eventually(t, "a key whose record fits is reconciled", func() bool { return seen.count("small") > 0 })
		if n := seen.count("early") + seen.count("live"); n > 0 {
			t.Errorf("%d reconciles without a record", n)
		}
		w.limitMessages("sites-status", -1)
		natstest.Eventually(t, "none is lost", func() bool { return seen.count("early") > 0 && seen.count("live") > 0 })
		natstest.Eventually(t, "the records work again", func() bool { return !degradedNow(c, "records")() })
	})
}

// TestALargeStatusDoesNotKeepTheAnchorFromBeingWritten fills the record with status, so that there is no room for the
// last document.
func TestALargeStatusDoesNotKeepTheAnchorFromBeingWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t, natstest.WithMaxPayload(4096))
		_, js := natstest.Connect(t, server.URL())
		w := &world{t: t, server: server, js: js}
		sites := w.sites()
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil || s.Status.Ready {
				return Result{}, err
			}
			s.Status = siteStatus{Ready: true, Note: strings.Repeat("n", 1500)}
			return Result{}, sites.UpdateStatus(ctx, s)
		}), WithBackoff(5*time.Millisecond, 50*time.Millisecond))
		must(t, err)
		w.run(c)
		s := newSite("home", "small")
		must(t, sites.Create(ctx, s))
		must(t, entity.WaitReconciled(ctx, sites, "home", uint64(s.Generation)))
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"`+strings.Repeat("t", 2000)+`"}}`)))
		natstest.Eventually(t, "the large revision is reconciled", func() bool {
			now, err := sites.Get(ctx, "home")
			must(t, err)
			record, err := sites.Record(ctx, "home")
			return err == nil && record.ObservedRevision == uint64(now.Generation) && record.Anchor()
		})
	})
}

// TestARecordDeletedByHandIsWrittenAgain holds for keys that are reconciled, and for those that rest.
func TestARecordDeletedByHandIsWrittenAgain(t *testing.T) {
	prepare := map[string]func(t *testing.T, w *world, sites *entity.Client[*site]){
		"reconciled": func(*testing.T, *world, *entity.Client[*site]) {},
		"suspended": func(t *testing.T, w *world, sites *entity.Client[*site]) {
			must(t, sites.Patch(t.Context(), "home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
			eventuallyReason(t, sites, "home", entity.ReasonSuspended)
		},
		"parked": func(t *testing.T, w *world, sites *entity.Client[*site]) {
			must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"terminal"}}`)))
			eventuallyReason(t, sites, "home", entity.ReasonTerminal)
		},
		"invalid": func(t *testing.T, w *world, sites *entity.Client[*site]) {
			_, err := w.kv("sites").Put(t.Context(), "home", []byte(`{"spec":`))
			must(t, err)
			eventuallyReason(t, sites, "home", entity.ReasonInvalid)
		},
	}
	for name, prepare := range prepare {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				ctx := t.Context()
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					s, err := sites.Lister().Get(req.Key)
					if err == nil && s.Spec.Title == "terminal" {
						err = TerminalError(errors.New("never"))
					}
					if apierrors.IsNotFound(err) {
						err = nil
					}
					return Result{}, err
				}))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, newSite("home", "one")))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				prepare(t, w, sites)

				must(t, w.kv("sites-status").Delete(ctx, "home"))
				natstest.Eventually(t, "the record is an anchor again", func() bool {
					record, err := sites.Record(ctx, "home")
					return err == nil && record.Anchor() && len(record.LastDocument) > 0
				})
				if err := sites.Delete(ctx, "home"); err != nil {
					t.Fatal(err)
				}
				natstest.Eventually(t, "the teardown was owed, and removes the anchor", noRecord(t, sites, "home"))
				natstest.Eventually(t, "it is counted", func() bool { return c.Stats().TornDown == 1 })
			})
		})
	}
}

func eventuallyReason(t *testing.T, sites *entity.Client[*site], key, reason string) {
	t.Helper()
	natstest.Eventually(t, "the condition of "+key+" is "+reason, func() bool {
		record, err := sites.Record(t.Context(), key)
		if err != nil {
			return false
		}
		condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled)
		return condition != nil && condition.Reason == reason
	})
}

func TestAStatusBucketBelongsToOneController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		first, err := New("first", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}))
		must(t, err)
		r := w.run(first)
		natstest.Eventually(t, "the first works", func() bool { return first.Stats().Leading })
		r.halt()

		other, err := New("second", w.sites(), ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}))
		must(t, err)
		err = other.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), "StatusBucket") {
			t.Fatalf("Run of another controller: %v, want whose bucket it is and what to do", err)
		}
		var seen calls
		own := w.client("Site", "sites", func(cfg *entity.Config) { cfg.StatusBucket = "sites-second" })
		third, err := New("second", own, seen.reconciler(nil))
		must(t, err)
		w.run(third)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "with a status bucket of its own it works", func() bool {
			return seen.count("home") > 0
		})
	})
}

// TestAKeyNeverReconciledOwesNothing deletes a document that was suspended from the start.
func TestAKeyNeverReconciledOwesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		w.run(c)
		s := newSite("home", "one")
		s.Annotations = map[string]string{SuspendAnnotation: "true"}
		must(t, sites.Create(ctx, s))
		eventuallyReason(t, sites, "home", entity.ReasonSuspended)
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "its record goes with it", noRecord(t, sites, "home"))
		time.Sleep(time.Minute)
		if n := seen.count("home"); n != 0 {
			t.Errorf("reconciled %d times: %v", n, seen.of("home"))
		}
	})
}

func TestAPrimarysOwnStatusDoesNotWakeIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			s.Status.Note += "."
			return Result{}, sites.UpdateStatus(ctx, s)
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		// A status written by somebody else does not wake it either.
		s, err := w.away().sites().Get(ctx, "home")
		must(t, err)
		s.Status.Note = "by hand"
		must(t, sites.UpdateStatus(ctx, s))
		natstest.Eventually(t, "the cache has the status", func() bool {
			s, err := sites.Lister().Get("home")
			return err == nil && s.Status.Note == "by hand"
		})
		time.Sleep(time.Minute)
		if n := seen.count("home"); n != 1 {
			t.Errorf("reconciled %d times, want once: %v", n, seen.of("home"))
		}
	})
}

// TestTheStatusBucketMayBeLost deletes the whole status bucket under a running controller: nothing is reconciled
// without it, that is told, and once there is one again the anchors are written anew, by the same installation.
func TestTheStatusBucketMayBeLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", quickCompare)
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithLeaseTiming(quickLease),
			WithBackoff(5*time.Millisecond, 50*time.Millisecond))
		must(t, err)
		w.run(c)
		w.make(sites, 3)
		w.settled(c, sites, 3)
		instance := c.engine.InstanceID()

		must(t, w.js.DeleteStream(ctx, "KV_sites-status"))
		must(t, sites.Create(ctx, newSite("later", "one")))
		natstest.Eventually(t, "the loss is told", func() bool {
			return degradedNow(c, "lease")() || degradedNow(c, "records")()
		})
		natstest.Eventually(t, "the lease is lost", func() bool { return !c.Stats().Leading })
		if n := seen.count("later"); n > 0 {
			t.Fatalf("reconciled %d times without a record", n)
		}
		w.sites() // creates the bucket again
		natstest.Eventually(t, "none is lost", func() bool { return seen.count("later") > 0 })
		w.settled(c, sites, 3)
		natstest.Eventually(t, "the bucket belongs to the same controller and installation", func() bool {
			kv := w.kv("sites-status")
			name, err1 := kv.Get(ctx, record.KeyController)
			id, err2 := kv.Get(ctx, record.KeyInstance)
			return err1 == nil && err2 == nil && string(name.Value()) == "sites" && string(id.Value()) == instance
		})
		natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}
