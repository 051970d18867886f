package natsinformer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// stream makes a stream, as somebody does who does not make a bucket.
func stream(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	time.Sleep(time.Nanosecond) // as in bucket
	cfg.MaxMsgsPerSubject, cfg.Discard, cfg.AllowDirect = 1, jetstream.DiscardNew, true
	made, err := js.CreateStream(t.Context(), cfg)
	must(t, err)
	return made
}

func mirrorOf(bucket string) *jetstream.StreamSource {
	return &jetstream.StreamSource{Name: "KV_" + bucket}
}

func TestAMirrorIsReadUnderTheSubjectsOfItsOrigin(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "origin"})
		put(t, kv, "old", 1)
		put(t, kv, "going", 1)
		stream(t, js, jetstream.StreamConfig{Name: "KV_mirror", Mirror: mirrorOf("origin"), MirrorDirect: true})
		natstest.Eventually(t, "the mirror has caught up", func() bool {
			s, err := js.Stream(t.Context(), "KV_mirror")
			return err == nil && s.CachedInfo().State.Msgs == 2
		})
		r := start(t, js, Config{Bucket: "mirror", CompareInterval: time.Minute}).synced(t)
		if !r.has("old", 1) || !r.has("going", 1) {
			t.Fatalf("synced with %v", r.GetStore().ListKeys())
		}
		r.follows(t, kv, "new", 2, prompt)
		must(t, kv.Delete(t.Context(), "going"))
		within(t, prompt, "the delete is told", func() bool {
			return r.seen.last("going").deletion == Deletion{Evidenced: true, Reason: DeleteMarker}
		})
		time.Sleep(10 * time.Minute)
		if st := r.Status(); st.Err != nil || st.Lists != 1 || st.Compares < 9 || st.StreamChanges != 0 {
			t.Fatalf("after ten minutes: %+v", st)
		}
		must(t, server.Restart())
		natstest.Eventually(t, "the origin takes writes again", func() bool {
			_, err := kv.Put(t.Context(), "restarted", doc(3))
			return err == nil
		})
		within(t, 30*time.Second, "what was written after a restart is read", func() bool { return r.has("restarted", 3) })
		r.converges(t, kv, prompt)
		leaveNothing(t, js, "mirror", r)
		again := start(t, js, Config{Bucket: "mirror", Filter: "new"}).synced(t)
		if keys := again.GetStore().ListKeys(); len(keys) != 1 || !again.has("new", 2) {
			t.Fatalf("another informer has %v", keys)
		}
	})
}

func TestAMirrorOfAMirrorIsReadUnderTheSubjectsOfTheFirst(t *testing.T) {
	for _, early := range []bool{false, true} {
		subtest(t, fmt.Sprintf("empty at the start %v", early), func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "origin"})
			stream(t, js, jetstream.StreamConfig{Name: "KV_first", Mirror: mirrorOf("origin")})
			stream(t, js, jetstream.StreamConfig{Name: "KV_second", Mirror: mirrorOf("first")})
			var r *running
			if early {
				r = start(t, js, Config{Bucket: "second"}).synced(t)
				time.Sleep(time.Minute)
				if st := r.Status(); st.Lists != 1 || st.Err != nil {
					t.Fatalf("while it is empty: %+v", st)
				}
			}
			put(t, kv, "a", 1)
			natstest.Eventually(t, "the second mirror has the document", func() bool {
				s, err := js.Stream(t.Context(), "KV_second")
				return err == nil && s.CachedInfo().State.Msgs == 1
			})
			if !early {
				r = start(t, js, Config{Bucket: "second"}).synced(t)
			}
			within(t, 3*time.Second, "the document is read", func() bool { return r.has("a", 1) })
			r.follows(t, kv, "a", 2, prompt)
			if st := r.Status(); st.StreamChanges != 0 || st.Err != nil {
				t.Fatalf("%+v", st)
			}
		})
	}
}

func TestWhatASourceBringsIsRead(t *testing.T) {
	for name, source := range map[string]*jetstream.StreamSource{
		"as it is": mirrorOf("origin"),
		"renamed": {Name: "KV_origin", SubjectTransforms: []jetstream.SubjectTransformConfig{
			{Source: "$KV.origin.>", Destination: "$KV.copy.>"},
		}},
	} {
		subtest(t, name, func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "origin"})
			put(t, kv, "a", 1)
			stream(t, js, jetstream.StreamConfig{Name: "KV_copy", Sources: []*jetstream.StreamSource{source}})
			r := start(t, js, Config{Bucket: "copy"}).synced(t)
			within(t, 10*time.Second, "the document is read", func() bool { return r.has("a", 1) })
			r.follows(t, kv, "a", 2, prompt)
			must(t, kv.Delete(t.Context(), "a"))
			within(t, prompt, "the delete is told", func() bool { return r.seen.last("a").kind == "delete" })
		})
	}
}

func TestAStreamWithoutDocumentsIsToldByNameUntilItIsRight(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  jetstream.StreamConfig
		said string
	}{
		"other subjects": {jetstream.StreamConfig{Subjects: []string{"foo.>"}}, "foo.>"},
		"renamed": {
			jetstream.StreamConfig{Subjects: []string{"$KV.b.>"}, SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: "$KV.b.>", Destination: "bar.>",
			}},
			"bar.>",
		},
		"of a source that is no bucket": {
			jetstream.StreamConfig{Sources: []*jetstream.StreamSource{{Name: "ORDERS"}}}, "ORDERS",
		},
	} {
		subtest(t, name, func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
			c.cfg.Name = "KV_b"
			made := stream(t, js, c.cfg)
			r := start(t, js, Config{Bucket: "b"})
			within(t, prompt, "it is told", func() bool { return r.Status().Err != nil })
			for _, part := range []string{`bucket "b"`, "KV_b", c.said, "$KV.b.>", "make it as a bucket"} {
				if told := r.Status().Err.Error(); !strings.Contains(told, part) {
					t.Errorf("%q does not say %q", told, part)
				}
			}
			if r.HasSynced() {
				t.Error("it has synced")
			}
			right := made.CachedInfo().Config
			right.Subjects, right.SubjectTransform, right.Sources = []string{"$KV.b.>"}, nil, nil
			_, err := js.UpdateStream(t.Context(), right)
			must(t, err)
			r.synced(t)
			kv, err := js.KeyValue(t.Context(), "b")
			must(t, err)
			r.follows(t, kv, "a", 1, prompt)
			if err := r.Status().Err; err != nil {
				t.Errorf("it is still told: %v", err)
			}
		})
	}
}

func TestAMirrorOfNoBucketIsToldByWhatItHas(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		stream(t, js, jetstream.StreamConfig{Name: "KV_o", Subjects: []string{"orders.>"}})
		must(t, publish(js, "orders.one"))
		stream(t, js, jetstream.StreamConfig{Name: "KV_b", Mirror: mirrorOf("o")})
		r := start(t, js, Config{Bucket: "b"})
		within(t, 10*time.Second, "it is told what the mirror has", func() bool {
			err := r.Status().Err
			return err != nil && strings.Contains(err.Error(), "orders.one")
		})
	})
}

// A stream that begins to rename what it stores keeps the documents elsewhere from then on.
func TestAStreamThatIsChangedToKeepNoDocumentsIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "a", 1)
		r := start(t, js, Config{Bucket: "b", CompareInterval: time.Minute}).synced(t)
		time.Sleep(time.Second) // it has compared once
		s, err := js.Stream(t.Context(), "KV_b")
		must(t, err)
		cfg := s.CachedInfo().Config
		cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.b.>", Destination: "elsewhere.>"}
		_, err = js.UpdateStream(t.Context(), cfg)
		must(t, err)
		within(t, 70*time.Second, "it is told", func() bool {
			err := r.Status().Err
			return err != nil && strings.Contains(err.Error(), "elsewhere.>")
		})
		if !r.has("a", 1) {
			t.Error("what was known is gone")
		}
	})
}

func publish(js jetstream.JetStream, subject string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: doc(1)})
	return err
}
