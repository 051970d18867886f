package entity_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// replaced puts other streams in the place of a bucket's, under the running process: an older backup, or an empty one.
func replaced(t *testing.T, js jetstream.JetStream, bucket string) map[string]func() {
	t.Helper()
	snapshot, err := natstest.TakeSnapshot(t.Context(), js.Conn(), "KV_"+bucket)
	must(t, err)
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	must(t, err)
	cfg := stream.CachedInfo().Config
	gone := func() { must(t, js.DeleteStream(t.Context(), "KV_"+bucket)) }
	return map[string]func(){
		"restored": func() { gone(); must(t, snapshot.Restore(t.Context(), js.Conn())) },
		"made anew": func() {
			gone()
			_, err := js.CreateStream(t.Context(), cfg)
			must(t, err)
		},
	}
}

// TestAListerReadsItsOwnWritesToAnotherStreamAtOnce: its sequences are lower than what the cache has of the one before.
// Once the new stream was listed the lister has what that stream has, and no write of the one before.
func TestAListerReadsItsOwnWritesToAnotherStreamAtOnce(t *testing.T) {
	for _, how := range []string{"restored", "made anew"} {
		t.Run(how, virtually(func(t *testing.T) {
			js := newServer(t)
			client := newClient[*Website](t, js, websites)
			start(t, client)
			ctx := t.Context()
			put := func(key string, n int) *Website {
				site, err := client.Get(ctx, key)
				if err != nil {
					site = website(key)
					site.Spec.Replicas = n
					must(t, client.Create(ctx, site))
					return site
				}
				site.Spec.Replicas = n
				must(t, client.Update(ctx, site))
				return site
			}
			for _, key := range []string{"a", "gone", "patched", "broken"} {
				put(key, 1)
			}
			time.Sleep(time.Second)
			replace := replaced(t, js, "websites")[how]
			for i := range 5 {
				for _, key := range []string{"a", "gone", "patched", "lost"} {
					put(key, 100+i)
				}
				_, err := keyValue(t, js, "websites").PutString(ctx, "broken", "{")
				must(t, err)
			}
			time.Sleep(time.Second)
			replace()

			mine := []*Website{put("a", 7), put("new", 7), put("broken", 7)}
			if how == "restored" {
				must(t, client.Patch(ctx, "patched", []byte(`{"spec":{"replicas":7}}`)))
				must(t, client.Delete(ctx, "gone"))
			}
			lister := client.Lister()
			for began := time.Now(); time.Since(began) < 30*time.Second; {
				var wrong []string
				for _, site := range mine {
					got, err := lister.Get(site.Name)
					if err != nil || got.ResourceVersion != site.ResourceVersion || got.Spec.Replicas != 7 {
						wrong = append(wrong, fmt.Sprintf("%s is %+v (%v)", site.Name, got, err))
					}
				}
				if how == "restored" {
					if got, err := lister.Get("patched"); err != nil || got.Spec.Replicas != 7 {
						wrong = append(wrong, fmt.Sprintf("patched is %+v (%v)", got, err))
					}
					if got, err := lister.Get("gone"); !apierrors.IsNotFound(err) {
						wrong = append(wrong, fmt.Sprintf("gone is %+v (%v)", got, err))
					}
				}
				if st := client.Informer().Status(); st.StreamChanges > 0 && !st.Relisting {
					if got, err := lister.Get("lost"); !apierrors.IsNotFound(err) {
						wrong = append(wrong, fmt.Sprintf("lost is %+v (%v)", got, err))
					}
				}
				if len(wrong) > 0 {
					t.Fatalf("%v after the writes: %v", time.Since(began), wrong)
				}
				if client.Informer().Status().Relisting {
					time.Sleep(10 * time.Microsecond) // also between two steps of the change
				} else {
					time.Sleep(time.Millisecond)
				}
			}
			if client.Informer().Status().StreamChanges != 1 {
				t.Errorf("the informer has noticed %d other streams", client.Informer().Status().StreamChanges)
			}
			_, err := keyValue(t, js, "websites").PutString(ctx, "a", `{"spec":{"replicas":8}}`)
			must(t, err)
			time.Sleep(time.Second)
			if got, err := lister.Get("a"); err != nil || got.Spec.Replicas != 8 {
				t.Errorf("another writer's: %+v (%v)", got, err)
			}
		}))
	}
}

// TestStatusesAreReadAndWrittenOverStreams: an own status shows at once where the stream of records was replaced, and the
// next one is written over what that stream has, not over what the one before had at the same revision.
func TestStatusesAreReadAndWrittenOverStreams(t *testing.T) {
	for _, how := range []string{"restored", "made anew"} {
		t.Run(how, virtually(func(t *testing.T) {
			js := newServer(t)
			client := newClient[*Website](t, js, websites)
			start(t, client)
			ctx := t.Context()
			must(t, client.Create(ctx, website("a")))
			must(t, client.Create(ctx, website("b")))
			status := func(key, url string) {
				site, err := client.Get(ctx, key)
				must(t, err)
				site.Status.URLs = []string{url}
				must(t, client.UpdateStatus(ctx, site))
			}
			status("b", "first")
			time.Sleep(time.Second)
			replace := replaced(t, js, "websites-status")[how]
			for i := range 5 {
				status("a", fmt.Sprint("old", i))
			}
			time.Sleep(time.Second)
			replace()
			status("a", "mine")
			must(t, client.Records().Put(ctx, "c", &entity.Record{Controller: "sites"}))
			for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(time.Millisecond) {
				got, err := client.Lister().Get("a")
				if err != nil || len(got.Status.URLs) != 1 || got.Status.URLs[0] != "mine" {
					t.Fatalf("%v after the write: %+v (%v)", time.Since(began), got, err)
				}
				if c, ok := client.Records().Cached("c"); !ok || c.Controller != "sites" {
					t.Fatalf("%v after the write the record of c is %+v", time.Since(began), c)
				}
			}
		}))
	}
}

// TestARecordOfTheStreamBeforeIsNotWrittenOver by what this process remembers of it: another program's record has its
// revision in the stream of now.
func TestARecordOfTheStreamBeforeIsNotWrittenOver(t *testing.T) {
	virtually(func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		ctx := t.Context()
		must(t, client.Create(ctx, website("a")))
		rec := &entity.Record{Controller: "sites", DeletionPolicy: "before"}
		must(t, client.Records().Put(ctx, "a", rec))
		time.Sleep(time.Second)
		replaced(t, js, "websites-status")["made anew"]()
		for n := uint64(0); n < rec.Revision; {
			var err error
			n, err = keyValue(t, js, "websites-status").PutString(ctx, "a",
				`{"schemaVersion":1,"controller":"sites","deletionPolicy":"now"}`)
			must(t, err)
		}
		time.Sleep(time.Minute)
		site, err := client.Lister().Get("a")
		must(t, err)
		site.Status.URLs = []string{"mine"}
		must(t, client.UpdateStatus(ctx, site))
		got, err := client.Records().Get(ctx, "a")
		must(t, err)
		if got.DeletionPolicy != "now" {
			t.Errorf("the record is %+v", got)
		}
	})(t)
}

// TestAWaitForOwnWritesIsForTheStreamThatTheyAreIn, and not for the sequence alone.
func TestAWaitForOwnWritesIsForTheStreamThatTheyAreIn(t *testing.T) {
	virtually(func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		for i := range 5 {
			must(t, client.Create(t.Context(), website(fmt.Sprint("old", i))))
		}
		time.Sleep(time.Second)
		replaced(t, js, "websites")["made anew"]()
		log := &ownwrites.Log{}
		ctx := ownwrites.WithLog(t.Context(), log)
		must(t, client.Create(ctx, website("new")))
		if log.Reached() {
			t.Error("reached by the cache of the stream before")
		}
		wait, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, log.Wait(wait))
		if _, exists, _ := client.Informer().GetStore().GetByKey("new"); !exists {
			t.Error("the cache does not have it")
		}
	})(t)
}

// TestAWriteToAStreamThatWasNeverListedHidesNothing: another stream was noticed and could not be listed, and then it was
// replaced too: by a backup of the stream before that has its time of creation and its end, or by a third one. What was
// written between shows no more, and what is written to the last one shows at once.
func TestAWriteToAStreamThatWasNeverListedHidesNothing(t *testing.T) {
	for _, by := range []string{"the stream of before", "a third stream"} {
		t.Run(by, virtually(func(t *testing.T) {
			server := natstest.Start(t)
			proxy := natstest.StartProxy(t, server.URL())
			_, admin := natstest.Connect(t, server.URL())
			_, js := natstest.Connect(t, proxy.URL())
			ctx := t.Context()
			client, other := newClient[*Website](t, js, websites), newClient[*Website](t, admin, websites)
			start(t, client)
			must(t, other.Create(ctx, website("a")))
			time.Sleep(time.Second)
			snapshot, err := server.TakeOldSnapshot(ctx, admin.Conn(), "KV_websites")
			must(t, err)
			natstest.Eventually(t, "the server answers", func() bool {
				_, err := admin.Stream(ctx, "KV_websites")
				return err == nil && js.Conn().IsConnected()
			})
			makeAnew := replaced(t, admin, "websites")["made anew"]

			proxy.Tamper(natstest.Each(natstest.To("$JS.API.CONSUMER.CREATE.KV_websites.>"), natstest.Fate{Lost: true}))
			makeAnew()
			time.Sleep(3 * time.Second)
			if st := client.Informer().Status(); st.StreamsNoticed != 1 || st.StreamsShown != 0 {
				t.Fatalf("the informer has noticed %d streams and shows number %d", st.StreamsNoticed, st.StreamChanges)
			}
			for range 5 {
				must(t, client.Create(ctx, website("between")))
				must(t, client.Delete(ctx, "between"))
			}
			must(t, client.Create(ctx, website("between")))
			mine := website("a")
			mine.Spec.Replicas = 7
			must(t, client.Create(ctx, mine))
			if by == "a third stream" {
				makeAnew()
				time.Sleep(3 * time.Second) // until that is noticed
				must(t, other.Create(ctx, website("a")))
			} else {
				must(t, admin.DeleteStream(ctx, "KV_websites"))
				must(t, snapshot.Restore(ctx, admin.Conn()))
			}
			must(t, client.Create(ctx, website("b")))
			proxy.Tamper(nil)
			for began := time.Now(); time.Since(began) < 12*time.Second; time.Sleep(time.Millisecond) {
				if b, err := client.Lister().Get("b"); err != nil {
					t.Fatalf("%v after it was written b is %+v (%v)", time.Since(began), b, err)
				}
			}
			if got, err := client.Lister().Get("a"); err != nil || got.Spec.Replicas != 0 {
				t.Errorf("in the last stream a is %+v (%v)", got, err)
			}
			if got, err := client.Lister().Get("between"); !apierrors.IsNotFound(err) {
				t.Errorf("what was written between is %+v (%v)", got, err)
			}
			theirs, err := other.Get(ctx, "a")
			must(t, err)
			theirs.Spec.Replicas = 99
			must(t, other.Update(ctx, theirs))
			time.Sleep(100 * time.Millisecond)
			if got, err := client.Lister().Get("a"); err != nil || got.Spec.Replicas != 99 {
				t.Errorf("another writer's: %+v (%v)", got, err)
			}
			if st := client.Informer().Status(); st.StreamsNoticed != 2 || st.StreamsShown != 2 || st.Relisting {
				t.Errorf("the informer is %+v", st)
			}
		}))
	}
}

// overTwoWires is a client behind a wire, and another one that no fault of the wire disturbs.
type overTwoWires struct {
	js            jetstream.JetStream
	wire          *natstest.Proxy
	client, other *entity.Client[*Website]
}

func newOverTwoWires(t *testing.T) *overTwoWires {
	t.Helper()
	server := natstest.Start(t)
	w := &overTwoWires{wire: natstest.StartProxy(t, server.URL())}
	_, w.js = natstest.Connect(t, server.URL())
	_, js := natstest.Connect(t, w.wire.URL())
	w.client, w.other = newClient[*Website](t, js, websites), newClient[*Website](t, w.js, websites)
	start(t, w.client)
	return w
}

// TestAnOwnWriteToARestoredStreamShowsWhileTheCacheTakesWhatTheOneBeforeHadSent: the sequence of the write lies behind
// what the cache had, and before what is still on the way to it.
func TestAnOwnWriteToARestoredStreamShowsWhileTheCacheTakesWhatTheOneBeforeHadSent(t *testing.T) {
	virtually(func(t *testing.T) {
		w, ctx := newOverTwoWires(t), t.Context()
		must(t, w.client.Create(ctx, website("a")))
		time.Sleep(time.Second)
		restore := replaced(t, w.js, "websites")["restored"]
		site, err := w.client.Get(ctx, "a")
		must(t, err)
		site.Spec.Replicas = 7
		w.wire.Delay(300*time.Millisecond, natstest.FromServer)
		for i := range 5 {
			must(t, w.other.Create(ctx, website(fmt.Sprint("theirs", i))))
		}
		time.Sleep(10 * time.Millisecond) // so that they arrive before the acknowledgements
		restore()
		updated := make(chan error, 1)
		go func() { updated <- w.client.Update(ctx, site) }()
		must(t, w.client.Create(ctx, website("mine")))
		must(t, <-updated)
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
			if _, err := w.client.Lister().Get("mine"); err != nil {
				t.Fatalf("%v after it was created: %v", time.Since(began), err)
			}
			if got, err := w.client.Lister().Get("a"); err != nil || got.Spec.Replicas != 7 {
				t.Fatalf("%v after its update: %+v (%v)", time.Since(began), got, err)
			}
		}
	})(t)
}

// TestAnOwnWriteThatWasLostWithItsStreamGoes, also where its acknowledgement comes after the next stream was listed: it
// could be that one's.
func TestAnOwnWriteThatWasLostWithItsStreamGoes(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "late": time.Second} {
		t.Run(name, virtually(func(t *testing.T) {
			w, ctx := newOverTwoWires(t), t.Context()
			must(t, w.client.Create(ctx, website("a")))
			time.Sleep(time.Second)
			restore := replaced(t, w.js, "websites")["restored"]
			site, err := w.client.Get(ctx, "a")
			must(t, err)
			site.Spec.Replicas = 7
			w.wire.Tamper(natstest.Each(natstest.AnswersTo("$KV.websites.>"), natstest.Fate{Late: late}))
			acknowledged := make(chan error, 1)
			go func() { acknowledged <- w.client.Update(ctx, site) }()
			natstest.Eventually(t, "the stream has the write", func() bool {
				got, err := w.other.Get(ctx, "a")
				return err == nil && got.Spec.Replicas == 7
			})
			if late == 0 {
				must(t, <-acknowledged)
			}
			restore()
			if late > 0 {
				must(t, <-acknowledged)
			}
			natstest.Eventually(t, "the cache shows the restored stream", func() bool {
				st := w.client.Informer().Status()
				return st.StreamChanges == 1 && !st.Relisting
			})
			time.Sleep(6 * time.Second)
			if got, err := w.client.Lister().Get("a"); err != nil || got.Spec.Replicas != 0 {
				t.Errorf("a is %+v (%v)", got, err)
			}
		}))
	}
}
