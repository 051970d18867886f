package entity_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const lastOfCorner = `{"metadata":{"name":"corner"},"spec":{"title":"last","future":1.50}}`

// ofCorner is a record with that document.
func ofCorner(expires string) *entity.Record {
	return &entity.Record{LastDocument: []byte(lastOfCorner), DocumentRevision: 7, DocumentExpires: expires}
}

func isNotRestorable(err error) bool {
	_, is := errors.AsType[*entity.NotRestorableError](err)
	return is
}

// lastOf is the message that the stream has of a key; nil for none.
func lastOf(t *testing.T, js jetstream.JetStream, key string) *jetstream.RawStreamMsg {
	t.Helper()
	stream, err := js.Stream(testContext(t), "KV_shops")
	must(t, err)
	msg, err := stream.GetLastMsgForSubject(testContext(t), "$KV.shops."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	must(t, err)
	return msg
}

// vanish removes all messages of a key by the API, which leaves no marker.
func vanish(t *testing.T, js jetstream.JetStream, key string) {
	t.Helper()
	stream, err := js.Stream(testContext(t), "KV_shops")
	must(t, err)
	must(t, stream.Purge(testContext(t), jetstream.WithPurgeSubject("$KV.shops."+key)))
}

// TestADocumentIsRestoredWhereThereIsNothing, and over nothing that is there when it is looked at, or came until it is
// written.
func TestADocumentIsRestoredWhereThereIsNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		ctx, bucket := testContext(t), keyValue(t, js, "shops")
		removed := func(opts ...entity.DeleteOption) func() {
			return func() { put(t, js, "corner", `{"spec":{}}`); must(t, client.Delete(ctx, "corner", opts...)) }
		}
		for name, test := range map[string]struct {
			meanwhile func()
			refused   func(error) bool // nil: it is restored
		}{
			"nothing": {meanwhile: func() {}},
			"a document that vanished too": {meanwhile: func() {
				put(t, js, "corner", `{"spec":{}}`)
				vanish(t, js, "corner")
			}},
			"a document":                {func() { put(t, js, "corner", `{"spec":{}}`) }, apierrors.IsAlreadyExists},
			"no document that decodes":  {func() { put(t, js, "corner", `[]`) }, apierrors.IsAlreadyExists},
			"a delete of nothing":       {func() { must(t, bucket.Delete(ctx, "corner")) }, isNotRestorable},
			"a document and its delete": {removed(), isNotRestorable},
			"a document and its purge":  {removed(entity.Purge()), isNotRestorable},
			"a purge": {func() {
				_, err := js.PublishMsg(ctx, &nats.Msg{
					Subject: "$KV.shops.corner", Header: nats.Header{"KV-Operation": {"PURGE"}},
				})
				must(t, err)
			}, isNotRestorable},
		} {
			for _, before := range []bool{true, false} {
				vanish(t, js, "corner")
				if before {
					test.meanwhile()
				}
				var revision uint64
				restore, err := client.PrepareRestore(ctx, "corner", ofCorner(""), 0)
				if !before {
					must(t, err)
					test.meanwhile()
				}
				was := lastOf(t, js, "corner")
				if err == nil {
					revision, err = restore(ctx)
				}
				is := lastOf(t, js, "corner")
				if test.refused != nil {
					if err == nil || !test.refused(err) || is == nil || is.Sequence != was.Sequence {
						t.Errorf("%s, looked at %v: error %v; there is %+v", name, before, err, is)
					}
					continue
				}
				must(t, err)
				if string(is.Data) != lastOfCorner || is.Sequence != revision || is.Header.Get("Nats-TTL") != "" {
					t.Errorf("%s, looked at %v: there is %+v", name, before, is)
				}
			}
		}
	})
}

// TestADocumentThatGrewTooOldIsRestoredOverTheMarkerOfThat, and over no other: the marker of a delete expires, too, and
// the server then leaves one that looks like that of a document.
func TestADocumentThatGrewTooOldIsRestoredOverTheMarkerOfThat(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.AllowRollup = true // limit markers
		client := newClient[*Shop](t, js, cfg)
		ctx := testContext(t)
		expired := func(header nats.Header) uint64 {
			t.Helper()
			header.Set(jetstream.MsgTTLHeader, "1s")
			_, err := js.PublishMsg(ctx, &nats.Msg{
				Subject: "$KV.shops.corner", Header: header, Data: []byte(`{"spec":{}}`),
			})
			must(t, err)
			natstest.Eventually(t, "it has expired", func() bool {
				return lastOf(t, js, "corner").Header.Get(jetstream.MarkerReasonHeader) == "MaxAge"
			})
			return lastOf(t, js, "corner").Sequence
		}
		marker := expired(nats.Header{})
		for _, other := range []uint64{0, marker - 1, marker + 1} {
			_, err := client.PrepareRestore(ctx, "corner", ofCorner(""), other)
			wantError(t, "over a marker that nobody knows", isNotRestorable, err)
		}
		restore, err := client.PrepareRestore(ctx, "corner", ofCorner(""), marker)
		must(t, err)
		expired(nats.Header{"KV-Operation": {"DEL"}}) // somebody's delete, whose marker did not last
		_, err = restore(ctx)
		wantError(t, "over the marker of a delete's", isNotRestorable, err)

		marker = expired(nats.Header{})
		restore, err = client.PrepareRestore(ctx, "corner", ofCorner(""), marker)
		must(t, err)
		revision, err := restore(ctx)
		must(t, err)
		if is := lastOf(t, js, "corner"); is.Sequence != revision || string(is.Data) != lastOfCorner {
			t.Errorf("there is %+v", is)
		}

		marker = expired(nats.Header{})
		restore, err = client.PrepareRestore(ctx, "corner", ofCorner(""), marker)
		must(t, err)
		vanish(t, js, "corner") // the marker does not stay for ever
		_, err = restore(ctx)
		must(t, err)
	})
}

// TestARestoredDocumentGetsWhatIsLeftOfItsTTL by the server's clock, rounded up to the whole second.
func TestARestoredDocumentGetsWhatIsLeftOfItsTTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		ctx := testContext(t)
		in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
		restored := func(expires string) (ttl string, revision uint64) {
			t.Helper()
			vanish(t, js, "corner")
			restore, err := client.PrepareRestore(ctx, "corner", ofCorner(expires), 0)
			must(t, err)
			revision, err = restore(ctx)
			must(t, err)
			return lastOf(t, js, "corner").Header.Get(jetstream.MsgTTLHeader), revision
		}
		expires := in(time.Hour)
		ttl, revision := restored(expires)
		if n, err := strconv.Atoi(ttl); err != nil || n > 3600 || n < 3600-60 {
			t.Errorf("TTL %q, want what is left of an hour", ttl)
		}
		if got := client.EnginePort().DocumentExpires("corner", revision); got != expires {
			t.Errorf("the client has %q, want %q", got, expires)
		}
		if ttl, _ := restored(in(time.Minute + time.Nanosecond)); len(ttl) != 2 || ttl == "00" {
			t.Errorf("TTL %q, want what is left of a minute", ttl)
		}
		ttl, revision = restored(entity.ExpiresNever)
		if got := client.EnginePort().DocumentExpires("corner", revision); ttl != "never" || got != entity.ExpiresNever {
			t.Errorf("TTL %q, and the client has %q", ttl, got)
		}
		if ttl, revision = restored(""); ttl != "" || client.EnginePort().DocumentExpires("corner", revision) != "" {
			t.Errorf("TTL %q, and the client has %q", ttl, client.EnginePort().DocumentExpires("corner", revision))
		}
		vanish(t, js, "corner")
		for expires, says := range map[string]string{
			in(-time.Second): "its TTL ended at", "tomorrow": "is no time", "9999-99-99": "is no time",
		} {
			_, err := client.PrepareRestore(ctx, "corner", ofCorner(expires), 0)
			wantError(t, expires, isNotRestorable, err)
			if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `Shop "corner" of bucket "shops"`) {
				t.Errorf("%s: %v, want %q", expires, err, says)
			}
		}
		soon := ofCorner(in(1500 * time.Millisecond))
		restore, err := client.PrepareRestore(ctx, "corner", soon, 0)
		must(t, err)
		natstest.Eventually(t, "its TTL ends", func() bool {
			_, err := client.PrepareRestore(ctx, "corner", soon, 0)
			return isNotRestorable(err)
		})
		_, err = restore(ctx)
		wantError(t, "what ended since it was looked at", isNotRestorable, err)
		if is := lastOf(t, js, "corner"); is != nil {
			t.Errorf("there is %+v", is)
		}
	})
}

// TestATTLIsKeptOrTheDocumentIsNotRestored in a bucket that takes no TTLs any more, as one that was made anew.
func TestATTLIsKeptOrTheDocumentIsNotRestored(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		ctx := testContext(t)
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "shops"})
		must(t, err)
		client := newClient[*Shop](t, js, shops)
		for _, expires := range []string{time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), entity.ExpiresNever} {
			_, err = client.PrepareRestore(ctx, "corner", ofCorner(expires), 0)
			wantError(t, expires, isNotRestorable, err)
			if err != nil && !strings.Contains(err.Error(), "--allow-msg-ttl") {
				t.Errorf("%v: want what to do", err)
			}
		}
		restore, err := client.PrepareRestore(ctx, "corner", ofCorner(""), 0)
		must(t, err)
		_, err = restore(ctx)
		must(t, err)
	})
}

// TestWhatIsReadKnowsItsTTL, live and in the cache; what is written without one has none.
func TestWhatIsReadKnowsItsTTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		ctx := testContext(t)
		with := func(ttl string) (revision uint64) {
			t.Helper()
			header := nats.Header{jetstream.MsgTTLHeader: {ttl}}
			ack, err := js.PublishMsg(ctx, &nats.Msg{
				Subject: "$KV.shops.corner", Header: header, Data: []byte(`{"spec":{}}`),
			})
			must(t, err)
			return ack.Sequence
		}
		revision := with("90s")
		created := lastOf(t, js, "corner").Time
		want := created.Add(90 * time.Second).UTC().Format(time.RFC3339Nano)
		if got := client.EnginePort().DocumentExpires("corner", revision); got != "" {
			t.Errorf("it is known before it was read: %q", got)
		}
		shop, err := client.Get(ctx, "corner")
		must(t, err)
		if got := client.EnginePort().DocumentExpires("corner", revision); got != want {
			t.Errorf("read live: %q, want %q", got, want)
		}
		shop.Spec.Title = "new"
		start(t, client)
		for ttl, want := range map[string]string{"never": entity.ExpiresNever, "NEVER": entity.ExpiresNever} {
			revision = with(ttl)
			natstest.Eventually(t, "the cache has it", func() bool { return client.EnginePort().DocumentExpires("corner", revision) == want })
		}
		must(t, client.Patch(ctx, "corner", []byte(`{"spec":{"title":"patched"}}`)))
		after := lastOf(t, js, "corner")
		want = map[bool]string{true: entity.ExpiresNever, false: ""}[after.Header.Get(jetstream.MsgTTLHeader) != ""]
		if got := client.EnginePort().DocumentExpires("corner", after.Sequence); got != want {
			t.Errorf("the client has %q of what it wrote, want %q", got, want)
		}
	})
}

// TestARestoreWhoseOutcomeIsUnknownStaysDeleted: its acknowledgement is lost, and somebody deletes what it has written.
func TestARestoreWhoseOutcomeIsUnknownStaysDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		proxy := natstest.StartProxy(t, srv.URL())
		_, js := natstest.Connect(t, proxy.URL())
		_, admin := natstest.Connect(t, srv.URL())
		client := newClient[*Shop](t, js, shops)
		for name, meanwhile := range map[string]struct {
			do   func(kv jetstream.KeyValue) error
			want func(error) bool
		}{
			"deleted": {func(kv jetstream.KeyValue) error { return kv.Delete(t.Context(), "corner") }, isNotRestorable},
			"written": {func(kv jetstream.KeyValue) error {
				_, err := kv.PutString(t.Context(), "corner", `{"spec":{}}`)
				return err
			}, apierrors.IsAlreadyExists},
		} {
			restore, err := client.PrepareRestore(t.Context(), "corner", ofCorner(""), 0)
			must(t, err)
			kv, lost := keyValue(t, admin, "shops"), make(chan struct{})
			var once sync.Once
			proxy.Tamper(func(m *natstest.Message) (fate natstest.Fate) {
				if natstest.AnswersTo("$KV.*.corner")(m) {
					once.Do(func() { fate.Lost = true; close(lost) })
				}
				return fate
			})
			done := make(chan error, 1)
			go func() { <-lost; done <- meanwhile.do(kv) }()
			_, err = restore(t.Context())
			must(t, <-done)
			proxy.Tamper(nil)
			wantError(t, name, meanwhile.want, err)
			vanish(t, admin, "corner")
		}
	})
}

// TestARestoreChecksTheDocument as a create does.
func TestARestoreChecksTheDocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Shop](t, newServer(t), shops)
		for name, document := range map[string]string{
			"no JSON": `{"spec":`, "another name": `{"metadata":{"name":"other"}}`, "another type": `{"spec":{"title":1}}`,
		} {
			from := &entity.Record{LastDocument: []byte(document)}
			_, err := client.PrepareRestore(context.Background(), "corner", from, 0)
			wantError(t, name, apierrors.IsInvalid, err)
		}
		_, err := client.PrepareRestore(context.Background(), "no/key", ofCorner(""), 0)
		wantError(t, "no key", apierrors.IsInvalid, err)
	})
}
