package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// besieged is a controller of namespaced sites, each of which has a page, and a guest who may publish to the documents
// of ns1, and read them.
type besieged struct {
	*world
	guest *nats.Conn
	sites *entity.Client[*site]
	pages *entity.Client[*page]
	seen  calls
	c     *Controller[*site]
	r     *running
}

// newBesieged starts with the site "ns2/home".
func newBesieged(t *testing.T) *besieged {
	t.Helper()
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		allow := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
		o.NoAuthUser = "admin"
		o.Users = []*server.User{{Username: "admin", Password: "admin"}, {
			Username: "guest", Password: "guest", Permissions: &server.Permissions{
				Publish:   allow("$KV.sites.ns1.>", "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.>"),
				Subscribe: allow("_INBOX.guest.>"),
			},
		}}
	}))
	_, js := natstest.Connect(t, srv.URL())
	b := &besieged{world: &world{t: t, server: srv, js: js}}
	b.guest, _ = natstest.Connect(t, srv.URL(), nats.UserInfo("guest", "guest"))
	b.begin()
	b.make("ns2/home")
	return b
}

// begin starts the controller, as a new process.
func (b *besieged) begin() {
	b.t.Helper()
	w := b.away()
	b.sites = w.client("Site", "sites", func(cfg *entity.Config) { cfg.Namespaced = true })
	b.pages = w.pages()
	var c *Controller[*site]
	c, err := New("sites", b.sites, b.seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
		if req.Operations.Has(OperationDelete) || req.Operations.Has(OperationPurge) {
			return Result{}, nil
		}
		p := named(pageOf(req.Key))
		c.SetOwner(p, req.Key)
		err := b.pages.Create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return Result{}, err
	}), Owns(b.pages), WithResyncInterval(time.Second), WithBackoff(5*time.Millisecond, 50*time.Millisecond))
	must(b.t, err)
	b.c = c
	b.r = b.world.run(c)
}

func pageOf(key string) string { return strings.ReplaceAll(key, "/", "-") }

// make makes a site and waits until it has its page.
func (b *besieged) make(key string) {
	b.t.Helper()
	obj := newSite("", "")
	obj.Namespace, obj.Name, _ = strings.Cut(key, "/")
	must(b.t, b.sites.Create(b.t.Context(), obj))
	eventuallyReason(b.t, b.sites, key, entity.ReasonSynced)
	b.hasPage(key)
}

func (b *besieged) hasPage(key string) {
	b.t.Helper()
	if !exists(b.t, b.pages, pageOf(key)) {
		b.t.Errorf("%s has no page", key)
	}
}

func (b *besieged) pageGoes(key string) {
	b.t.Helper()
	natstest.Eventually(b.t, "the page of "+key+" goes", func() bool { return !exists(b.t, b.pages, pageOf(key)) })
}

// natsKeyOf is the key in NATS.
func natsKeyOf(key string) string { return strings.Replace(key, "/", ".", 1) }

// attacks are what the guest has the server write to a key of a bucket. Each returns when it is written.
var attacks = map[string]func(b *besieged, bucket, key string){
	"an acknowledgement": func(b *besieged, bucket, key string) {
		b.send(bucket, key, &nats.Msg{Subject: "$KV.sites.ns1.own", Data: []byte(`{"spec":{}}`)})
	},
	"a document of his own": func(b *besieged, bucket, key string) {
		b.put("sites", "ns1.own", `{"spec":{"title":"chosen"}}`)
		b.send(bucket, key, &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.own"})
	},
	"a record of his own": func(b *besieged, bucket, key string) {
		b.put("sites", "ns1.own", `{"schemaVersion":1,"observedRevision":1,"key":"ns2/home"}`)
		b.send(bucket, key, &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.own"})
	},
	"a delete of his own": func(b *besieged, bucket, key string) {
		b.put("sites", "ns1.own", `{"spec":{}}`)
		must(b.t, b.kv("sites").Delete(b.t.Context(), "ns1.own"))
		b.send(bucket, key, &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.own"})
	},
}

// send has the guest send a request whose answer goes to a key.
func (b *besieged) send(bucket, key string, request *nats.Msg) {
	b.t.Helper()
	before := b.lastSequence(bucket)
	request.Reply = "$KV." + bucket + "." + key
	must(b.t, b.guest.PublishMsg(request))
	own := uint64(0)
	if bucket == "sites" && strings.HasPrefix(request.Subject, "$KV.") {
		own = 1
	}
	natstest.Eventually(b.t, "the server has written", func() bool { return b.lastSequence(bucket) > before+own })
}

// degraded waits until something of Stats().Degraded says all the words.
func (b *besieged) degraded(words ...string) {
	b.t.Helper()
	var all map[string]error
	defer func() {
		if b.t.Failed() {
			b.t.Logf("degraded: %v", all)
		}
	}()
	natstest.Eventually(b.t, fmt.Sprintf("something is degraded with %q", words), func() bool {
		all = b.c.Stats().Degraded
		for _, err := range all {
			missing := func(word string) bool { return !strings.Contains(err.Error(), word) }
			if !slices.ContainsFunc(words, missing) {
				return true
			}
		}
		return false
	})
}

// healthy waits until nothing is degraded.
func (b *besieged) healthy() {
	b.t.Helper()
	isHealthy(b.t, b.c)
}

// sweeps waits for some sweeps that begin now.
func (b *besieged) sweeps() {
	b.t.Helper()
	before := b.c.Stats().Sweeps
	natstest.Eventually(b.t, "some sweeps", func() bool { return b.c.Stats().Sweeps > before+4 })
}

// neverDeleted fails the test if a key was reconciled for a delete.
func (b *besieged) neverDeleted(key string) {
	b.t.Helper()
	if n := b.seen.with(key, OperationDelete) + b.seen.with(key, OperationPurge); n != 0 {
		b.t.Errorf("%s: %d calls for a delete, want none", key, n)
	}
}

// besiegedBy runs a test once for each attack.
func besiegedBy(t *testing.T, test func(b *besieged, attack func(bucket, key string))) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				b := newBesieged(t)
				test(b, func(bucket, key string) { attack(b, bucket, key) })
			})
		})
	}
}

// TestAnAnswerIsNoDocument, whether the controller runs or starts later: the primary exists, is not reconciled as an
// empty one, and nothing of it is deleted.
func TestAnAnswerIsNoDocument(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		attack("sites", "ns2.home")
		eventuallyReason(t, b.sites, "ns2/home", entity.ReasonInvalid)
		before := b.seen.count("ns2/home")
		b.c.Enqueue("ns2/home", OperationManual)
		b.sweeps()
		if _, err := b.sites.Get(ctx, "ns2/home"); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "put the document again") {
			t.Errorf("Get: %v", err)
		}
		if err := b.sites.Patch(ctx, "ns2/home", []byte(`{"spec":{"title":"x"}}`)); !apierrors.IsInvalid(err) {
			t.Errorf("Patch: %v", err)
		}
		if _, err := b.sites.Lister().Get("ns2/home"); !apierrors.IsInvalid(err) {
			t.Errorf("Lister: %v", err)
		}
		b.r.halt()
		b.begin()
		natstest.Eventually(t, "it is reported", func() bool { return b.c.Stats().Invalid > 0 })
		b.sweeps()
		if n := b.seen.count("ns2/home"); n != before {
			t.Errorf("reconciled %d times for what nobody wrote: %v", n-before, b.seen.of("ns2/home"))
		}
		list, err := b.sites.List(ctx)
		must(t, err)
		for _, obj := range list {
			if obj.Name == "home" {
				t.Errorf("it is in the list: %+v", obj)
			}
		}
		b.neverDeleted("ns2/home")
		b.hasPage("ns2/home")
		b.put("sites", "ns2.home", `{"spec":{"title":"again"}}`)
		eventuallyReason(t, b.sites, "ns2/home", entity.ReasonSynced)
		must(t, b.sites.Delete(ctx, "ns2/home"))
		b.pageGoes("ns2/home")
	})
}

// TestAnAnswerOverARecordChangesNothing while the controller runs: the next reconcile of the document puts the record
// back.
func TestAnAnswerOverARecordChangesNothing(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		ctx := b.t.Context()
		attack("sites-status", "ns2.home")
		natstest.Eventually(b.t, "the record is an anchor again", func() bool {
			record, err := b.sites.Record(ctx, "ns2/home")
			return err == nil && record.Anchor() && len(record.LastDocument) > 0
		})
		eventuallyReason(b.t, b.sites, "ns2/home", entity.ReasonSynced)
		b.healthy()
		b.sweeps()
		b.neverDeleted("ns2/home")
		b.hasPage("ns2/home")
	})
}

// TestAnAnswerOverARecordCancelsNoTeardown that is owed, and ends with it.
func TestAnAnswerOverARecordCancelsNoTeardown(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		ctx := b.t.Context()
		must(b.t, b.sites.Patch(ctx, "ns2/home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
		eventuallyReason(b.t, b.sites, "ns2/home", entity.ReasonSuspended) // else a resync puts the record back
		attack("sites-status", "ns2.home")
		b.degraded("ns2/home", "sites-status", "mend or delete it", "nats kv del sites-status")
		b.sweeps()
		b.neverDeleted("ns2/home")
		must(b.t, b.sites.Delete(ctx, "ns2/home"))
		b.pageGoes("ns2/home")
		natstest.Eventually(b.t, "the record is gone", noRecord(b.t, b.sites, "ns2/home"))
		if b.seen.with("ns2/home", OperationDelete) != 1 {
			b.t.Errorf("reconciled for %v, want one delete", b.seen.of("ns2/home"))
		}
		b.healthy()
	})
}

// TestAnAnswerInThePlaceOfARecordIsReplacedAfterARestart, where the document exists.
func TestAnAnswerInThePlaceOfARecordIsReplacedAfterARestart(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		b.r.halt()
		attack("sites-status", "ns2.home")
		b.begin()
		eventuallyReason(b.t, b.sites, "ns2/home", entity.ReasonSynced)
		record, err := b.sites.Record(b.t.Context(), "ns2/home")
		must(b.t, err)
		if !record.Anchor() {
			b.t.Errorf("the record %+v is no anchor", record)
		}
		b.healthy()
		b.neverDeleted("ns2/home")
		b.hasPage("ns2/home")
		must(b.t, b.sites.Delete(b.t.Context(), "ns2/home"))
		b.pageGoes("ns2/home")
	})
}

// TestNobodyKnowsWhatIsOwedUnderAnAnswer after a restart, where the document is gone: nothing is deleted before
// somebody has mended or deleted the record.
func TestNobodyKnowsWhatIsOwedUnderAnAnswer(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		b.make("ns2/mended")
		b.r.halt()
		good, err := b.kv("sites-status").Get(ctx, "ns2.mended")
		must(t, err)
		for _, key := range []string{"ns2/home", "ns2/mended"} {
			must(t, b.sites.Delete(ctx, key))
			attack("sites-status", natsKeyOf(key))
		}
		attack("sites-status", "ns2.never")
		b.begin()
		b.degraded("record of Site", "sites-status", "and 2 others", "mend or delete it")
		for _, key := range []string{"ns2/home", "ns2/mended", "ns2/never"} {
			b.c.Enqueue(key, OperationDelete)
		}
		b.sweeps()
		idle(t, b.c)
		for _, key := range []string{"ns2/home", "ns2/mended", "ns2/never"} {
			b.neverDeleted(key)
			if obj, err := b.c.LastKnown(ctx, key); err == nil {
				t.Errorf("the last known document of %s is %+v", key, obj)
			}
		}
		b.hasPage("ns2/home")
		b.hasPage("ns2/mended")
		_, err = b.kv("sites-status").Put(ctx, "ns2.mended", good.Value())
		must(t, err)
		b.pageGoes("ns2/mended")
		if b.seen.with("ns2/mended", OperationDelete) != 1 || b.seen.count("ns2/never") != 0 {
			t.Errorf("reconciled for %v, and the one that never was for %v",
				b.seen.of("ns2/mended"), b.seen.of("ns2/never"))
		}
		for _, key := range []string{"ns2.home", "ns2.never"} {
			must(t, b.kv("sites-status").Delete(ctx, key))
		}
		b.pageGoes("ns2/home") // the sweep takes it for an orphan
		b.healthy()
	})
}

// TestARestartUnderAnAnswerDoesNotForgetWhatIsOwed, where the document is there and is not reconciled: nobody knows
// what the record was, so no other that owes nothing takes its place.
func TestARestartUnderAnAnswerDoesNotForgetWhatIsOwed(t *testing.T) {
	for name, rest := range map[string]string{
		"suspended": `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{"title":"x"}}`,
		"invalid":   `{"spec":`,
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				b := newBesieged(t)
				ctx := t.Context()
				b.r.halt()
				b.put("sites", "ns2.home", rest)
				good, err := b.kv("sites-status").Get(ctx, "ns2.home")
				must(t, err)
				attacks["an acknowledgement"](b, "sites-status", "ns2.home")
				b.begin()
				b.degraded("ns2/home", "sites-status", "mend or delete it")
				b.sweeps()
				b.sweeps()
				idle(t, b.c)
				b.degraded("ns2/home", "sites-status", "mend or delete it")
				must(t, b.kv("sites").Delete(ctx, "ns2.home"))
				b.sweeps()
				b.neverDeleted("ns2/home")
				b.hasPage("ns2/home")
				_, err = b.kv("sites-status").Put(ctx, "ns2.home", good.Value())
				must(t, err)
				b.pageGoes("ns2/home")
				b.healthy()
			})
		})
	}
}

// TestAnAnswerDoesNotTakeOffTheBrake: nobody knows any more what is owed to a missing owner whose objects are held, and
// so they stay held.
func TestAnAnswerDoesNotTakeOffTheBrake(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		b.r.halt()
		must(t, b.sites.Delete(ctx, "ns2/home"))
		must(t, b.kv("sites-status").Delete(ctx, "ns2.home"))
		b.put("sites-status", "_nagi.brake", `{"engaged":true,"reason":"restored from a backup"}`)
		b.begin()
		natstest.Eventually(t, "the page is held", func() bool { return b.c.Stats().Brake.Swept == 1 })
		attack("sites-status", "ns2.home")
		for _, swept := range []int{1, 0} { // the next term cannot count what it would let go, and stays engaged
			b.degraded("ns2/home", "sites-status", "mend or delete it")
			b.sweeps()
			if state := b.c.Stats().Brake; !state.Engaged || state.Swept != swept {
				t.Errorf("the brake is %+v", state)
			}
			b.r.halt() // the next term does not know what this one held
			b.begin()
		}
		must(t, b.kv("sites-status").Delete(ctx, "ns2.home"))
		b.sweeps()
		b.hasPage("ns2/home")
		must(t, b.c.ReleaseBrake(ctx))
		b.pageGoes("ns2/home")
	})
}

// others are records that somebody wrote, and that this controller must leave alone.
var others = map[string]string{
	"of a newer version":    `{"schemaVersion":2,"controller":"sites","documentRevision":"a string now"}`,
	"of no version":         `{"controller":"sites"}`,
	"of another shape":      `{"schemaVersion":1,"controller":"sites","conditions":"none"}`,
	"of another controller": `{"schemaVersion":1,"controller":"stranger"}`,
}

// TestTheRecordOfAnotherIsLeftAlone, and its key is not reconciled, before and after a restart.
func TestTheRecordOfAnotherIsLeftAlone(t *testing.T) {
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				b := newBesieged(t)
				ctx := t.Context()
				good, err := b.kv("sites-status").Get(ctx, "ns2.home")
				must(t, err)
				b.put("sites-status", "ns2.home", other)
				b.degraded(`record of Site "ns2/home"`, "nats kv del sites-status")
				b.sweeps() // a resync that began before is over
				before := b.seen.count("ns2/home")
				must(t, b.sites.Patch(ctx, "ns2/home", []byte(`{"spec":{"title":"two"}}`)))
				b.sweeps()
				b.r.halt()
				b.begin()
				b.degraded(`record of Site "ns2/home"`, "nats kv del sites-status")
				b.sweeps()
				must(t, b.sites.Delete(ctx, "ns2/home"))
				b.sweeps()
				entry, err := b.kv("sites-status").Get(ctx, "ns2.home")
				must(t, err)
				if n := b.seen.count("ns2/home"); n != before || string(entry.Value()) != other {
					t.Errorf("reconciled %d times more, for %v; the record is %s",
						n-before, b.seen.of("ns2/home"), entry.Value())
				}
				b.hasPage("ns2/home")
				natstest.Eventually(t, "the source alone is degraded, for that record", func() bool {
					degraded := b.c.Stats().Degraded
					for _, err := range degraded {
						return len(degraded) == 1 && strings.Contains(err.Error(), `record of Site "ns2/home"`)
					}
					return false
				})
				_, err = b.kv("sites-status").Put(ctx, "ns2.home", good.Value())
				must(t, err)
				b.pageGoes("ns2/home")
				b.healthy()
			})
		})
	}
}

// TestARecordAheadOfItsBucketIsNotBelieved: it tells of a revision that the bucket has not come to.
func TestARecordAheadOfItsBucketIsNotBelieved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		ctx := t.Context()
		stream, err := b.sites.StreamIdentity(ctx)
		must(t, err)
		forged := fmt.Sprintf(`{"schemaVersion":1,"controller":"sites","stream":%q,"observedRevision":90,`+
			`"documentRevision":90,"lastDocument":{"spec":{"title":"forged"}}}`, stream)
		b.put("sites-status", "ns2.never", forged)
		b.degraded("ns2/never", "revision 90", "not believed")
		b.sweeps()
		b.neverDeleted("ns2/never")
		if obj, err := b.c.LastKnown(ctx, "ns2/never"); err == nil {
			t.Errorf("the last known document is %+v", obj)
		}
		if s := b.c.Stats(); s.Brake.Engaged || s.TornDown != 0 {
			t.Errorf("brake: %+v, torn down: %d", s.Brake, s.TornDown)
		}
		must(t, b.kv("sites-status").Delete(ctx, "ns2.never"))
		b.healthy()
		b.make("ns2/other")
		must(t, b.sites.Delete(ctx, "ns2/other"))
		b.pageGoes("ns2/other")

		// After a restart the brake cannot tell it from a bucket that was restored, and holds.
		b.r.halt()
		b.put("sites-status", "ns2.never", forged)
		b.begin()
		natstest.Eventually(t, "the brake holds", func() bool { return b.c.Stats().Brake.Engaged })
		b.neverDeleted("ns2/never")
		must(t, b.kv("sites-status").Delete(ctx, "ns2.never"))
		natstest.Eventually(t, "the brake is off", func() bool { return !b.c.Stats().Brake.Engaged })
		b.healthy()
	})
}

// TestAForgedRecordObservesNothing: a revision that is above the document's was never reconciled.
func TestAForgedRecordObservesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		ctx := t.Context()
		record, err := b.sites.Record(ctx, "ns2/home")
		must(t, err)
		record.ObservedRevision, record.DocumentRevision = 900, 900
		data, err := json.Marshal(record)
		must(t, err)
		b.put("sites-status", "ns2.home", string(data))
		natstest.Eventually(t, "it is as it was", func() bool {
			now, err := b.sites.Record(ctx, "ns2/home")
			return err == nil && now.ObservedRevision < 900 && now.DocumentRevision < 900
		})
	})
}

// TestAnAnswerThatStandsForWhatWasLeftDeletesNothing: of what was left on purpose, and of what may be under way.
func TestAnAnswerThatStandsForWhatWasLeftDeletesNothing(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		b.r.halt()
		must(t, b.sites.Delete(ctx, "ns2/home"))
		must(t, b.kv("sites-status").Delete(ctx, "ns2.home"))
		attack("sites-status", "_nagi.left.ns2.home")
		b.begin()
		b.degraded("_nagi.left.ns2.home", "nats kv del sites-status")
		b.sweeps()
		b.neverDeleted("ns2/home")
		b.hasPage("ns2/home")
		must(t, b.kv("sites-status").Delete(ctx, "_nagi.left.ns2.home"))
		b.pageGoes("ns2/home")
		b.healthy()
	})
}

func TestATeardownWaitsWhileIntentsAreAnAnswer(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		attack("sites-status", "_nagi.intents.ns2.home")
		b.degraded("_nagi.intents.ns2.home", "nats kv del sites-status")
		must(t, b.sites.Delete(ctx, "ns2/home"))
		b.degraded("the teardown of Site", "_nagi.intents.ns2.home")
		b.sweeps()
		b.hasPage("ns2/home")
		must(t, b.kv("sites-status").Delete(ctx, "_nagi.intents.ns2.home"))
		b.pageGoes("ns2/home")
		b.healthy()
	})
}

// TestAnAnswerInAStatusWakesNoOwner: nobody has changed the status.
func TestAnAnswerInAStatusWakesNoOwner(t *testing.T) {
	besiegedBy(t, func(b *besieged, attack func(bucket, key string)) {
		t, ctx := b.t, b.t.Context()
		p, err := b.pages.Get(ctx, "ns2-home")
		must(t, err)
		p.Status.Ready = true
		b.sweeps() // what its creation woke is over
		before := b.seen.with("ns2/home", OperationSecondary)
		must(t, b.pages.UpdateStatus(ctx, p))
		natstest.Eventually(t, "its owner is woken", func() bool {
			return b.seen.with("ns2/home", OperationSecondary) > before
		})
		b.sweeps()
		before = b.seen.with("ns2/home", OperationSecondary)
		attack("pages-status", "ns2-home")
		b.degraded("record of Page", "pages-status")
		b.sweeps()
		if n := b.seen.with("ns2/home", OperationSecondary); n != before {
			t.Errorf("woken %d times: %v", n-before, b.seen.of("ns2/home"))
		}
	})
}

// TestAnAnswerThatExpiresIsHeld: the guest's own document may have a time to live, and the server then drops the answer
// that took the place of another's document. Nobody has deleted that.
func TestAnAnswerThatExpiresIsHeld(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		must(t, b.guest.PublishMsg(&nats.Msg{
			Subject: "$KV.sites.ns1.own", Data: []byte(`{"spec":{}}`), Header: nats.Header{"Nats-TTL": {"2s"}},
		}))
		natstest.Eventually(t, "his document", func() bool { return b.seen.count("ns1/own") > 0 })
		b.send("sites", "ns2.home", &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.own"})
		natstest.Eventually(t, "the brake holds", func() bool { return b.c.Stats().Brake.Engaged })
		b.sweeps()
		b.neverDeleted("ns2/home")
		b.hasPage("ns2/home")
		b.put("sites", "ns2.home", `{"spec":{"title":"again"}}`)
		eventuallyReason(t, b.sites, "ns2/home", entity.ReasonSynced)
		natstest.Eventually(t, "the brake is off", func() bool { return !b.c.Stats().Brake.Engaged })
		b.hasPage("ns2/home")
	})
}
