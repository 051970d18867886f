package entity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// edge is a client over streams that bring documents and records of websites from elsewhere.
var edge = entity.Config{Kind: "Website", Bucket: "edge", BindOnly: true}

// copied makes streams at the edge of those of websites.
func copied(t testing.TB, js jetstream.JetStream, copies func(from, to string) jetstream.StreamConfig) {
	t.Helper()
	time.Sleep(time.Second) // the identity of a stream is when it was made
	for from, to := range map[string]string{"websites": "edge", "websites-status": "edge-status"} {
		s := copies(from, to)
		s.Name, s.MaxMsgsPerSubject, s.AllowMsgTTL = "KV_"+to, 1, true
		_, err := js.CreateStream(testContext(t), s)
		must(t, err)
	}
}

func mirrorOf(from, _ string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Mirror: &jetstream.StreamSource{Name: "KV_" + from}}
}

// copies are the ways to bring documents to the edge, and where the error of a write says to write.
var copies = map[string]struct {
	of   func(from, to string) jetstream.StreamConfig
	says string
}{
	"a mirror": {mirrorOf, `it is a mirror of KV_websites: write to bucket "websites"`},
	"a mirror that renames": {func(from, to string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Mirror: &jetstream.StreamSource{
			Name: "KV_" + from, SubjectTransforms: []jetstream.SubjectTransformConfig{
				{Source: "$KV." + from + ".>", Destination: "$KV." + to + ".>"},
			},
		}}
	}, `it is a mirror of KV_websites: write to bucket "websites"`},
	"a bucket with a source": {func(from, to string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Subjects: []string{"$KV." + to + ".>"},
			Sources: []*jetstream.StreamSource{{
				Name: "KV_" + from, SubjectTransforms: []jetstream.SubjectTransformConfig{
					{Source: "$KV." + from + ".>", Destination: "$KV." + to + ".>"},
				},
			}},
		}
	}, `it has sources, which write over compare-and-set, and revisions of its own: write to bucket "websites"`},
	"a stream with a source only": {func(from, _ string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Sources: []*jetstream.StreamSource{{Name: "KV_" + from}}}
	}, `it only takes what its sources bring, of KV_websites: write to bucket "websites"`},
}

// TestWhatBringsDocumentsFromElsewhereIsReadAsABucket: Get, List, lister and informer, records included, and deletes.
func TestWhatBringsDocumentsFromElsewhereIsReadAsABucket(t *testing.T) {
	for name, c := range copies {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			origin := newClient[*Website](t, js, websites)
			site := website("a")
			must(t, origin.Create(testContext(t), site))
			site.Status.Ready = true
			must(t, origin.UpdateStatus(testContext(t), site))
			must(t, origin.Create(testContext(t), website("b")))
			copied(t, js, c.of)
			client := newClient[*Website](t, js, edge)
			start(t, client)
			ready := func(w *Website, err error) bool {
				return err == nil && w.Spec.Host == "a.example.com" && w.Status.Ready
			}
			eventually(t, "Get reads it", func() bool { return ready(client.Get(testContext(t), "a")) })
			eventually(t, "the lister has it", func() bool { return ready(client.Lister().Get("a")) })
			all, err := client.List(testContext(t))
			if err != nil || len(all) != 2 {
				t.Errorf("List: %v, %v", all, err)
			}
			if _, err := client.Get(testContext(t), "c"); !apierrors.IsNotFound(err) {
				t.Errorf("Get of what is not there: %v", err)
			}
			gone := make(chan string, 10)
			_, err = client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				DeleteFunc: func(obj any) { gone <- obj.(*Website).Name },
			})
			must(t, err)
			must(t, origin.Delete(testContext(t), "b"))
			if name := <-gone; name != "b" {
				t.Errorf("%s is gone", name)
			}
			if presence, err := client.Confirm(testContext(t), "b"); err != nil || presence.Exists {
				t.Errorf("Confirm of what is gone: %+v, %v", presence, err)
			}
			if presence, err := client.Confirm(testContext(t), "a"); err != nil || !presence.Exists {
				t.Errorf("Confirm: %+v, %v", presence, err)
			}
		}))
	}
}

// TestWritesToWhatBringsDocumentsFromElsewhereSayWhereToWrite: and nothing is written anywhere.
func TestWritesToWhatBringsDocumentsFromElsewhereSayWhereToWrite(t *testing.T) {
	for name, c := range copies {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			origin := newClient[*Website](t, js, websites)
			must(t, origin.Create(testContext(t), website("a")))
			copied(t, js, c.of)
			cfg, called := edge, 0
			cfg.OnWrite = func(ctx context.Context, w entity.Write) (nats.Header, func(error)) {
				called++
				return nil, nil
			}
			client := newClient[*Website](t, js, cfg)
			var site *Website
			eventually(t, "it is there", func() bool {
				var err error
				site, err = client.Get(testContext(t), "a")
				return err == nil
			})
			site.Spec.Host, site.Status.Ready = "changed", true
			seq := infoOf(t, js, "KV_websites").State.LastSeq
			for what, err := range map[string]error{
				"Create": client.Create(testContext(t), website("new")),
				"Update": client.Update(testContext(t), site),
				"Patch":  client.Patch(testContext(t), "a", []byte(`{"spec":{"host":"changed"}}`)),
				"Delete": client.Delete(testContext(t), "a"),
				"Purge":  client.Delete(testContext(t), "a", entity.Purge()),
				"PutRaw": func() error { _, err := client.PutRaw(testContext(t), "raw", []byte(`{}`), 0); return err }(),
			} {
				if err == nil || !strings.Contains(err.Error(), `bucket "edge"`) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", what, err)
				}
				if !errors.Is(err, entity.ErrRefused) || !apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err) {
					t.Errorf("%s: %T is not a refusal", what, err)
				}
			}
			status := strings.ReplaceAll(strings.ReplaceAll(c.says, "KV_websites", "KV_websites-status"),
				`"websites"`, `"websites-status"`)
			if err := client.UpdateStatus(testContext(t), site); err == nil || !strings.Contains(err.Error(), status) {
				t.Errorf("UpdateStatus: %v", err)
			}
			wait := client.Records().PutAsync("a", &entity.Record{})
			if err := wait(testContext(t)); !errors.Is(err, entity.ErrRefused) {
				t.Errorf("PutAsync: %v", err)
			}
			time.Sleep(time.Second)
			if now := infoOf(t, js, "KV_websites").State.LastSeq; now != seq || called != 0 {
				t.Errorf("the origin went from sequence %d to %d, and OnWrite was called %d times", seq, now, called)
			}
		}))
	}
}

// TestAWaitOverAMirrorHearsTheControllerOfTheOrigin: its record names the stream of the origin.
func TestAWaitOverAMirrorHearsTheControllerOfTheOrigin(t *testing.T) {
	for name, c := range copies {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			origin := newClient[*Website](t, js, websites)
			site := website("a")
			must(t, origin.Create(testContext(t), site))
			copied(t, js, c.of)
			client := newClient[*Website](t, js, edge)
			waited := make(chan error, 1)
			ctx := testContext(t)
			go func() { waited <- entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) }()
			if strings.Contains(name, "source") {
				if err := endsAtOnce(t, waited); err == nil || !strings.Contains(err.Error(), "revisions of its own") {
					t.Errorf("got error %v", err)
				}
				return
			}
			report(t, origin, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, 0)
			goesOn(t, waited)
			report(t, origin, "a", uint64(site.Generation), metav1.ConditionTrue, "Synced", site.Generation)
			natstest.Eventually(t, "it ends", func() bool { return len(waited) > 0 })
			must(t, <-waited)
		}))
	}
}

// TestStatusOfItsOwnOverAMirror: a controller at the edge keeps its own records of what it is sent.
func TestStatusOfItsOwnOverAMirror(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		must(t, newClient[*Website](t, js, websites).Create(testContext(t), website("a")))
		copied(t, js, mirrorOf)
		cfg := edge
		cfg.BindOnly, cfg.StatusBucket = false, "of-the-edge"
		client := newClient[*Website](t, js, cfg)
		var site *Website
		eventually(t, "it is there", func() (ok bool) {
			var err error
			site, err = client.Get(testContext(t), "a")
			return err == nil
		})
		site.Status.Ready = true
		must(t, client.UpdateStatus(testContext(t), site))
		site, err := client.Get(testContext(t), "a")
		if err != nil || !site.Status.Ready {
			t.Errorf("%v, %v", site, err)
		}
		if err := client.Records().ReadOnly(); err != nil {
			t.Error(err)
		}
		if err := client.ReadOnly(); err == nil || !strings.Contains(err.Error(), "mirror of KV_websites") {
			t.Error(err)
		}
	})
}

// TestAMirrorOfAMirrorIsReadUnderTheSubjectsOfTheFirst: also if it has nothing yet when it is opened.
func TestAMirrorOfAMirrorIsReadUnderTheSubjectsOfTheFirst(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		origin := newClient[*Website](t, js, websites)
		for from, to := range map[string]string{"websites": "half", "half": "edge"} {
			_, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
				Name: "KV_" + to, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
				Mirror: &jetstream.StreamSource{Name: "KV_" + from},
			})
			must(t, err)
		}
		cfg := edge
		cfg.StatusBucket = entity.NoStatusBucket
		client := newClient[*Website](t, js, cfg)
		if _, err := client.Get(testContext(t), "a"); !apierrors.IsNotFound(err) {
			t.Errorf("an empty one: %v", err)
		}
		must(t, origin.Create(testContext(t), website("a")))
		eventually(t, "it is read", func() bool {
			_, err := client.Get(testContext(t), "a")
			return err == nil
		})
		if presence, err := client.Confirm(testContext(t), "a"); err != nil || !presence.Exists {
			t.Errorf("Confirm: %+v, %v", presence, err)
		}
	})
}

// TestABucketThatIsMadeAnewAsAMirrorIsNotTakenForAnEmptyOne: its documents are under other subjects then.
func TestABucketThatIsMadeAnewAsAMirrorIsNotTakenForAnEmptyOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		must(t, newClient[*Website](t, js, websites).Create(testContext(t), website("a")))
		cfg := edge
		cfg.BindOnly, cfg.StatusBucket = false, entity.NoStatusBucket
		client := newClient[*Website](t, js, cfg)
		must(t, client.Create(testContext(t), website("a")))
		must(t, js.DeleteStream(testContext(t), "KV_edge"))
		_, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
			Name: "KV_edge", MaxMsgsPerSubject: 1, AllowMsgTTL: true,
			Mirror: &jetstream.StreamSource{Name: "KV_websites"},
		})
		must(t, err)
		eventually(t, "the mirror has it", func() bool { return infoOf(t, js, "KV_edge").State.Msgs > 0 })
		presence, err := client.Confirm(testContext(t), "a")
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("Confirm: %+v, %v", presence, err)
		}
		if presence, err = client.Confirm(testContext(t), "a"); err != nil || !presence.Exists {
			t.Errorf("Confirm, once more: %+v, %v", presence, err)
		}
		if err := client.Delete(testContext(t), "a"); !errors.Is(err, entity.ErrRefused) {
			t.Errorf("Delete: %v", err)
		}
	})
}

// TestAReaderOfAMirrorWithoutStatusIsToldHowToDoWithout: the default is a bucket that nobody has made.
func TestAReaderOfAMirrorWithoutStatusIsToldHowToDoWithout(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		newClient[*Website](t, js, websites)
		copied(t, js, mirrorOf)
		must(t, js.DeleteStream(testContext(t), "KV_edge-status"))
		_, err := entity.NewClient[*Website](testContext(t), js, edge)
		if err == nil || !strings.Contains(err.Error(), `bucket "edge-status" does not exist`) ||
			!strings.Contains(err.Error(), `Config.StatusBucket names another, and "-" none`) {
			t.Errorf("got error %v", err)
		}
		cfg := edge
		cfg.StatusBucket = entity.NoStatusBucket
		newClient[*Website](t, js, cfg)
	})
}

// TestAMirrorInAnotherDomainNamesTheDomain: in which its origin is.
func TestAMirrorInAnotherDomainNamesTheDomain(t *testing.T) {
	for prefix, says := range map[string]string{
		"$JS.hub.API": `write to bucket "websites" in the JetStream domain "hub" (jetstream.NewWithDomain)`,
		"from.hub":    `write to bucket "websites" behind the API prefix "from.hub" (jetstream.NewWithAPIPrefix)`,
	} {
		t.Run(prefix, virtually(func(t *testing.T) {
			js := newServer(t)
			_, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
				Name: "KV_websites", MaxMsgsPerSubject: 1, AllowMsgTTL: true,
				Mirror: &jetstream.StreamSource{
					Name: "KV_websites", External: &jetstream.ExternalStream{APIPrefix: prefix},
				},
			})
			must(t, err)
			cfg := websites
			cfg.StatusBucket = entity.NoStatusBucket
			client := newClient[*Website](t, js, cfg)
			err = client.Create(testContext(t), website("a"))
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %q", err, says)
			}
		}))
	}
}

func infoOf(t testing.TB, js jetstream.JetStream, name string) *jetstream.StreamInfo {
	t.Helper()
	stream, err := js.Stream(testContext(t), name)
	must(t, err)
	info, err := stream.Info(testContext(t))
	must(t, err)
	return info
}

// eventually waits in virtual time.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	natstest.Eventually(t, what, is)
}
