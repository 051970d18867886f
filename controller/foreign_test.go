package controller

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// terminal is what a log in klog's format wrote.
type terminal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *terminal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *terminal) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.out.String(), "\n"), "\n")
}

// count tells how many lines have a text.
func (l *terminal) count(text string) (n int) {
	for _, line := range l.lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *terminal) of(c *Controller[*site]) logging {
	config := textlogger.NewConfig(textlogger.Output(l), textlogger.Verbosity(4))
	return logging{c, textlogger.NewLogger(config)}
}

// wantClean fails for a text that has anything in it that is not seen as itself, or more than limit bytes.
func wantClean(t *testing.T, what, text string, limit int) {
	t.Helper()
	if len(text) > limit {
		t.Errorf("%s has %d bytes, want at most %d: %.200q", what, len(text), limit, text)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s is not printable: %.300q", what, text)
	}
}

// What is shown of a sentence, of an error, and of a line of the log, which may have an error and some values.
const (
	mostOfMessage = 1024
	mostOfError   = 4096
	mostOfLine    = 8192
)

// TestForeignTextIsNeverShownRaw: keys, owners and names of members come from all who may publish to the bucket.
func TestForeignTextIsNeverShownRaw(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var seen calls
		var log terminal
		sites, events := w.sites(), record.NewFakeRecorder(100)
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second),
			WithEventRecorder(butLease{events}))
		must(t, err)
		w.run(log.of(c))
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		keys := []string{ // none with \x7f: nats-server's index of subjects may lose it, and then delivers it to nobody
			"a\x1b[31mred", "a\x0bb", "a\u202egpj", "a\u2066b\u2069", "a\u200bb", "a\xff\xfeb", "a\x00b",
			strings.Repeat("x", 3000), strings.Repeat("\x1b\u202e", 600),
		}
		for _, key := range keys {
			_, err := w.js.Publish(t.Context(), "$KV.sites."+key, []byte(`{}`))
			must(t, err)
		}
		long := `\u001b[31m` + strings.Repeat("n", 20_000)
		documents := map[string]string{
			"label":  `{"metadata":{"labels":{"` + long + `":1}}}`,
			"name":   `{"metadata":{"name":"` + long + `"}}`,
			"space":  `{"metadata":{"namespace":"\n\u202e` + long + `"}}`,
			"time":   `{"metadata":{"creationTimestamp":"\n\u001b[31mSECRET"}}`,
			"number": `{"spec":{"pages":"SECRET"}}`,
			"huge":   `{"spec":{"pages":` + strings.Repeat("9", 20_000) + `}}`,
			"raw":    "\x1b[31m SECRET",
			"syntax": "{\"spec\":{\"\x1b[31mSECRET\":}}",
		}
		revisions := map[string]uint64{}
		for key, document := range documents {
			revisions[key], err = w.kv("sites").Put(t.Context(), key, []byte(document))
			must(t, err)
		}
		for i, owner := range []string{"a\nE1125 00:00:00 forged", "a\x1b[31m\u202e", strings.Repeat("o", 20_000)} {
			page := w.ownedPage(fmt.Sprint("page-", i), "home")
			for name, value := range page.Annotations {
				if value == "home" {
					page.Annotations[name] = owner
				}
			}
			must(t, pages.Create(t.Context(), page))
		}
		for key := range documents {
			eventuallyReason(t, sites, key, entity.ReasonInvalid)
		}
		natstest.Eventually(t, "all keys are counted, and swept", func() bool {
			return c.Stats().Malformed >= uint64(len(keys)) && c.Stats().Sweeps > 3
		})
		for _, line := range log.lines() {
			wantClean(t, "a line of the log", line, mostOfLine)
			if strings.Contains(line, "SECRET") || strings.HasPrefix(line, "E1125 00:00:00 forged") {
				t.Errorf("the log has %.300q", line)
			}
		}
		for name, err := range c.Stats().Degraded {
			wantClean(t, "what is degraded", name, mostOfMessage)
			wantClean(t, "why "+name+" is degraded", err.Error(), mostOfError)
		}
		for more := true; more; {
			select {
			case event := <-events.Events:
				wantClean(t, "an event", event, mostOfMessage)
			default:
				more = false
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for key := range documents {
			rec, err := sites.Record(t.Context(), key)
			must(t, err)
			condition := meta.FindStatusCondition(rec.Conditions, entity.ConditionReconciled)
			wantClean(t, "the condition of "+key, condition.Message, mostOfMessage)
			_, live := sites.Get(t.Context(), key)
			_, cached := sites.Lister().Get(key)
			waited := entity.WaitReconciled(ctx, sites, key, revisions[key])
			for what, err := range map[string]error{"Get": live, "Lister": cached, "WaitReconciled": waited} {
				if err == nil {
					t.Errorf("%s of %s: no error", what, key)
					continue
				}
				wantClean(t, what+" of "+key, err.Error(), mostOfError)
				if strings.Contains(err.Error(), "SECRET") {
					t.Errorf("%s of %s quotes the document: %v", what, key, err)
				}
			}
		}
		for _, key := range append(keys, "a\nb") {
			_, err := sites.Get(t.Context(), key)
			wantClean(t, "Get", err.Error(), mostOfError)
			wantClean(t, "CheckKey", sites.CheckKey(key).Error(), mostOfError)
		}
	})
}

// TestAKeyThatStaysInvalidIsReportedOnce, however many revisions of it somebody writes: one line of the log, one event,
// and about one write of its record a second, the last one about the last revision.
func TestAKeyThatStaysInvalidIsReportedOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen calls
		var log terminal
		sites, events := w.sites(), record.NewFakeRecorder(10_000)
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), WithEventRecorder(butLease{events}),
			WithWorkers(4))
		must(t, err)
		w.run(log.of(c))
		must(t, sites.Create(t.Context(), newSite("good", "one")))
		eventuallyReason(t, sites, "good", entity.ReasonSynced)
		watch, err := w.kv("sites-status").Watch(t.Context(), "home", jetstream.UpdatesOnly())
		must(t, err)
		defer watch.Stop()
		began, last := time.Now(), uint64(0)
		puts := func() {
			last, err = w.kv("sites").Put(t.Context(), "home", []byte(`{`))
			must(t, err)
			_, err = w.js.Publish(t.Context(), "$KV.sites.a\x1bb", []byte(`{}`))
			must(t, err)
		}
		puts()
		eventuallyReason(t, sites, "home", entity.ReasonInvalid) // of the first one
		for range 29 {
			time.Sleep(100 * time.Millisecond)
			puts()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := entity.WaitReconciled(ctx, sites, "home", last); err == nil || !strings.Contains(err.Error(),
			entity.ReasonInvalid) {
			t.Errorf("waiting for the last revision: %v, want that it is invalid", err)
		}
		idle(t, c)
		rec, err := sites.Record(t.Context(), "home")
		must(t, err)
		writes := 1
		for receive(t, "a write of the record", watch.Updates()).Revision() != rec.Revision {
			writes++
		}
		if writes != 4 {
			t.Errorf("%d writes of the record in %v, want one each second", writes, time.Since(began))
		}
		natstest.Eventually(t, "all that came is counted", func() bool {
			s := c.Stats()
			return s.Invalid >= 30 && s.Malformed >= 30
		})
		invalid, malformed := log.count("Invalid document"), log.count("Malformed key")
		if invalid != 1 || malformed != 1 || len(events.Events) != 1 {
			t.Errorf("%d lines about the document, %d about the key, %d events; want one of each", invalid, malformed,
				len(events.Events))
		}
		_, err = w.js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "$KV.sites.a\x1bb", Header: nats.Header{"KV-Operation": {"DEL"}},
		})
		must(t, err)
		w.put("sites", "home", `{"spec":{}}`)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		w.put("sites", "home", `{`)
		eventuallyReason(t, sites, "home", entity.ReasonInvalid)
		natstest.Eventually(t, "it is invalid once more, which is news", func() bool {
			return log.count("Invalid document") == 2
		})
	})
}

// TestManyInvalidKeysAreFewLines: the log says how many were left out, and Stats counts all.
func TestManyInvalidKeysAreFewLines(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen calls
		var log terminal
		sites := w.sites()
		const many = 100
		for i := range many {
			_, err := w.js.PublishAsync(fmt.Sprint("$KV.sites.bad-", i), []byte(`{`))
			must(t, err)
			_, err = w.js.PublishAsync(fmt.Sprintf("$KV.sites.bad-\x1b%d", i), []byte(`{}`))
			must(t, err)
		}
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), WithWorkers(4))
		must(t, err)
		<-w.js.PublishAsyncComplete()
		w.run(log.of(c))
		natstest.Eventually(t, "all are counted", func() bool {
			return c.Stats().Invalid >= many && c.Stats().Malformed >= many
		})
		n := log.count("Invalid document") + log.count("Malformed key")
		if n < notify.LinesAtOnce || n > notify.LinesAtOnce+notify.LinesPerSecond {
			t.Errorf("%d lines, want %d", n, notify.LinesAtOnce)
		}
		if log.count("are left out") == 0 {
			t.Error("no line says that some were left out")
		}
	})
}

// TestTheLoggerOfAReconcileIsClean, also one that the user made: helpers log foreign text with it.
func TestTheLoggerOfAReconcileIsClean(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var own terminal
		config := textlogger.NewConfig(textlogger.Output(&own))
		sites := w.sites()
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			klog.FromContext(ctx).Info("Reading", "title", "a\nE1125 00:00:00 forged\x1b[31m")
			return Result{}, nil
		}), WithLogConstructor(func(klog.Logger, Request) klog.Logger { return textlogger.NewLogger(config) }))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it is logged", func() bool { return own.count("Reading") == 1 })
		for _, line := range own.lines() {
			wantClean(t, "a line", line, mostOfLine)
		}
	})
}
