package entity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type traceKey struct{}

// writeLog is a Config.OnWrite that adds what the context has, and notes what it is told.
type writeLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *writeLog) onWrite(ctx context.Context, w entity.Write) (nats.Header, func(error)) {
	text, _ := ctx.Value(traceKey{}).(string)
	if text == "" {
		return nil, nil
	}
	return nats.Header{"traceparent": {text}}, func(err error) {
		outcome := "done"
		if err != nil {
			outcome = "failed"
		}
		what := w.Kind
		if w.Record {
			what += " record"
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, fmt.Sprintf("%s %s %s/%s %s", w.Operation, what, w.Bucket, w.Key, outcome))
	}
}

func (l *writeLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// TestEachWriteCarriesTheHeadersOfItsContext, of whichever method, and without the caches and with them.
func TestEachWriteCarriesTheHeadersOfItsContext(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running=%v", running), virtually(func(t *testing.T) {
			js := newServer(t)
			var log writeLog
			cfg := websites
			cfg.OnWrite = log.onWrite
			client := newClient[*Website](t, js, cfg)
			if running {
				start(t, client)
			}
			step := 0
			var ctx context.Context
			next := func() context.Context {
				step++
				ctx = context.WithValue(testContext(t), traceKey{}, fmt.Sprintf("step-%d", step))
				return ctx
			}
			check := func(bucket string, want ...string) {
				t.Helper()
				if got := log.take(); !slices.Equal(got, want) {
					t.Errorf("step %d: told of %q, want %q", step, got, want)
				}
				if got := marker(t, js, bucket, "home").Get("traceparent"); got != ctx.Value(traceKey{}) {
					t.Errorf("step %d: the message carries %q", step, got)
				}
			}
			obj := website("home")
			must(t, client.Create(next(), obj))
			check("websites", "put Website websites/home done")
			obj.Spec.Replicas = 2
			must(t, client.Update(next(), obj))
			check("websites", "put Website websites/home done")
			must(t, client.Patch(next(), "home", []byte(`{"spec":{"replicas":3}}`)))
			check("websites", "put Website websites/home done")
			obj.Status.Ready = true
			must(t, client.UpdateStatus(next(), obj))
			check("websites-status", "put Website record websites-status/home done")
			rec, err := client.Record(ctx, "home")
			must(t, err)
			rec.ObservedRevision = 1
			must(t, client.Records().PutAsyncUnder(next(), "home", rec)(t.Context()))
			check("websites-status", "put Website record websites-status/home done")
			must(t, client.Delete(next(), "home"))
			check("websites", "delete Website websites/home done")
			must(t, client.Create(t.Context(), website("home")))
			if got := marker(t, js, "websites", "home"); got.Get("traceparent") != "" {
				t.Errorf("a put without a trace carries %v", got)
			}
			must(t, client.Delete(next(), "home", entity.Purge()))
			check("websites", "purge Website websites/home done")
			if err := client.Update(next(), obj); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				t.Errorf("an update of what is gone: %v", err)
			}
			if got := log.take(); len(got) > 1 || len(got) == 1 && !strings.HasSuffix(got[0], "failed") {
				t.Errorf("told of %q", got)
			}
		}))
	}
}

// TestAWriteHookThatMisbehavesBreaksNoWrite, and adds nothing.
func TestAWriteHookThatMisbehavesBreaksNoWrite(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		header := func(h nats.Header) func() (nats.Header, func(error)) {
			return func() (nats.Header, func(error)) { return h, nil }
		}
		js := newServer(t)
		plain := newClient[*Website](t, js, websites)
		must(t, plain.Create(testContext(t), website("plain")))
		want := marker(t, js, "websites", "plain")
		for name, misbehave := range map[string]func() (nats.Header, func(error)){
			"panics":              func() (nats.Header, func(error)) { panic("oh") },
			"panics in the end":   func() (nats.Header, func(error)) { return nil, func(error) { panic("oh") } },
			"expected sequence":   header(nats.Header{"Nats-Expected-Last-Subject-Sequence": {"77"}}),
			"in other case":       header(nats.Header{"nats-rollup": {"all"}}),
			"a marker":            header(nats.Header{"KV-Operation": {"DEL"}}),
			"our id":              header(nats.Header{"Nagi-Write-Id": {"me"}}),
			"status":              header(nats.Header{"Status": {"503"}}),
			"line break":          header(nats.Header{"traceparent": {"a\r\nNats-Rollup: all"}}),
			"line break in name":  header(nats.Header{"a\r\nNats-Rollup": {"all"}}),
			"no name":             header(nats.Header{"": {"x"}}),
			"no value":            header(nats.Header{"traceparent": {}}),
			"many values":         header(nats.Header{"traceparent": {"a", "b"}}),
			"long value":          header(nats.Header{"traceparent": {strings.Repeat("x", 513)}}),
			"long name":           header(nats.Header{strings.Repeat("x", 65): {"x"}}),
			"many headers":        header(nats.Header{"a": {"1"}, "b": {"1"}, "c": {"1"}, "d": {"1"}, "e": {"1"}}),
			"one good, one wrong": header(nats.Header{"traceparent": {"x"}, "Nats-TTL": {"1s"}}),
		} {
			cfg := websites
			cfg.OnWrite = func(context.Context, entity.Write) (nats.Header, func(error)) { return misbehave() }
			client := newClient[*Website](t, js, cfg)
			obj := website("home")
			must(t, client.Create(testContext(t), obj))
			if got := marker(t, js, "websites", "home"); len(got) != len(want) {
				t.Errorf("%s: the message has the headers %v, without the hook it has %v", name, got, want)
			}
			must(t, client.Delete(testContext(t), "home", entity.IfRevision(uint64(obj.Generation))))
		}
	})
}

// TestHeadersMakeNoDocumentTooLarge: one that just fits is written without them.
func TestHeadersMakeNoDocumentTooLarge(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.OnWrite = func(context.Context, entity.Write) (nats.Header, func(error)) {
			return nats.Header{"traceparent": {strings.Repeat("x", 512)}, "tracestate": {strings.Repeat("y", 512)}}, nil
		}
		client := newClient[*Website](t, js, cfg)
		obj := website("home")
		document, err := client.DocumentOf(obj)
		must(t, err)
		obj.Spec.Host += strings.Repeat("h", client.Config().MaxDocumentBytes-len(document))
		must(t, client.Create(testContext(t), obj))
		if got := marker(t, js, "websites", "home").Get("traceparent"); got != "" {
			t.Error("the message carries the headers: this test wants a larger document")
		}
		obj.Spec.Host = "small"
		must(t, client.Update(testContext(t), obj))
		if got := marker(t, js, "websites", "home").Get("traceparent"); got == "" {
			t.Error("a small document does not carry the headers")
		}
	})
}

// TestArrivedIsToldOfEachMessageBeforeItsEvent, with its headers, of documents, of their deletes and of records.
func TestArrivedIsToldOfEachMessageBeforeItsEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		var log writeLog
		cfg.OnWrite = log.onWrite
		client := newClient[*Website](t, js, cfg)
		must(t, client.Create(context.WithValue(testContext(t), traceKey{}, "before"), website("early")))
		start(t, client)
		var mu sync.Mutex
		var came []string
		cancel := client.Subscribe(entity.Hooks{Arrived: func(bucket string, e natsinformer.Entry) {
			mu.Lock()
			defer mu.Unlock()
			came = append(came, bucket+"/"+e.Key+" "+e.Header.Get("traceparent"))
		}})
		has := func(n int) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(came) >= n
			}
		}
		ctx := context.WithValue(testContext(t), traceKey{}, "now")
		obj := website("home")
		must(t, client.Create(ctx, obj))
		wantNow(t, "the document came", has(1))
		obj.Status.Ready = true
		must(t, client.UpdateStatus(ctx, obj))
		wantNow(t, "the record came", has(2))
		must(t, client.Delete(ctx, "home"))
		wantNow(t, "the marker came", has(3))
		_, err := keyValue(t, js, "websites").Put(ctx, "bad", []byte("no JSON"))
		must(t, err)
		wantNow(t, "the invalid document came", has(4))
		cancel()
		late := website("late")
		must(t, client.Create(ctx, late))
		must(t, client.Informer().WaitKey(ctx, "late", uint64(late.Generation))) // it came from the server, too
		want := []string{"websites/home now", "websites-status/home now", "websites/home now", "websites/bad "}
		if !slices.Equal(came, want) {
			t.Errorf("came %q, want %q", came, want)
		}
	})
}

// TestTheEndOfAWriteIsToldItsError.
func TestTheEndOfAWriteIsToldItsError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		told := make(chan error, 10)
		cfg.OnWrite = func(context.Context, entity.Write) (nats.Header, func(error)) {
			return nil, func(err error) { told <- err }
		}
		client := newClient[*Website](t, js, cfg)
		must(t, client.Create(testContext(t), website("home")))
		if err := <-told; err != nil {
			t.Errorf("a create that succeeded: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := client.Create(ctx, website("other")); err == nil {
			t.Fatal("a create with a context that has ended succeeded")
		}
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("told %v", err)
		}
	})
}
