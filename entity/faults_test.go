package entity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withAndWithoutCaches runs a test twice, in parallel. The writes of a client without caches are requests; those of a
// client whose caches run share a subscription for their answers. The test hands its client to prepare.
func withAndWithoutCaches(t *testing.T, test func(t *testing.T, prepare func(*entity.Client[*Website]))) {
	t.Parallel() // it mostly waits
	t.Run("without caches", func(t *testing.T) {
		t.Parallel()
		test(t, func(*entity.Client[*Website]) {})
	})
	t.Run("with caches", func(t *testing.T) {
		t.Parallel()
		test(t, func(client *entity.Client[*Website]) { start(t, client) })
	})
}

// behindProxy returns a client that talks through the proxy, and another one that does not.
func behindProxy(t *testing.T) (*natstest.Proxy, *entity.Client[*Website], *entity.Client[*Website]) {
	t.Helper()
	srv := natstest.Start(t)
	proxy := natstest.StartProxy(t, srv.URL())
	_, js := natstest.Connect(t, proxy.URL())
	_, direct := natstest.Connect(t, srv.URL())
	return proxy, newClient[*Website](t, js, websites), newClient[*Website](t, direct, websites)
}

// lossy loses the acknowledgement of one write to the bucket websites, and holds back all messages after it.
type lossy struct {
	armed atomic.Bool
	lost  chan struct{} // closed when it is lost
	goOn  func()        // lets through what comes after it; the end of the test does so too
	held  chan struct{}
}

func (l *lossy) deliver(m *nats.Msg) bool {
	if !bytes.HasPrefix(m.Data, []byte(`{"stream":"KV_websites","seq":`)) || !l.armed.CompareAndSwap(true, false) {
		return true
	}
	close(l.lost)
	<-l.held
	return false
}

// onLossy returns two clients. The connection of the first loses the acknowledgement of its next write; the second has
// its own connection.
func onLossy(t *testing.T, prepare func(*entity.Client[*Website])) (l *lossy, client, direct *entity.Client[*Website]) {
	t.Helper()
	srv := natstest.Start(t)
	l = &lossy{lost: make(chan struct{}), held: make(chan struct{})}
	l.goOn = sync.OnceFunc(func() { close(l.held) })
	_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(l.deliver))
	t.Cleanup(l.goOn)
	_, other := natstest.Connect(t, srv.URL())
	client, direct = newClient[*Website](t, js, websites), newClient[*Website](t, other, websites)
	prepare(client)
	l.armed.Store(true)
	return l, client, direct
}

func TestALostAcknowledgementIsNoConflict(t *testing.T) {
	withAndWithoutCaches(t, aLostAcknowledgementIsNoConflict)
}

func aLostAcknowledgementIsNoConflict(t *testing.T, prepare func(*entity.Client[*Website])) {
	l, client, direct := onLossy(t, prepare)
	l.goOn()
	ctx := testContext(t)
	site := website("a")
	must(t, client.Create(ctx, site)) // sent again it would be refused as existing
	<-l.lost
	got, err := direct.Get(ctx, "a")
	must(t, err)
	if got.ResourceVersion != site.ResourceVersion {
		t.Errorf("it is at revision %s, Create said %s", got.ResourceVersion, site.ResourceVersion)
	}
}

func TestALostAcknowledgementIsLookedForThoughTheContextHasEnded(t *testing.T) {
	entity.SetTime(t, entity.SettleTimeout, time.Minute)
	t.Run("without caches", func(t *testing.T) {
		aLostAcknowledgementIsLookedForThoughTheContextHasEnded(t, func(*entity.Client[*Website]) {})
	})
	t.Run("with caches", func(t *testing.T) {
		aLostAcknowledgementIsLookedForThoughTheContextHasEnded(t,
			func(client *entity.Client[*Website]) { start(t, client) })
	})
}

func aLostAcknowledgementIsLookedForThoughTheContextHasEnded(t *testing.T, prepare func(*entity.Client[*Website])) {
	l, client, _ := onLossy(t, prepare)
	l.goOn()
	ctx, cancel := context.WithCancel(testContext(t))
	outcome := make(chan error, 1)
	site := website("a")
	go func() { outcome <- client.Create(ctx, site) }()
	<-l.lost
	cancel()
	if err := <-outcome; err != nil || site.Generation == 0 {
		t.Errorf("it was written, and Create said %v, revision %d", err, site.Generation)
	}
}

func TestTheSameContentByAnotherWriterIsNotMistakenForOurs(t *testing.T) {
	withAndWithoutCaches(t, theSameContentByAnotherWriterIsNotMistakenForOurs)
}

func theSameContentByAnotherWriterIsNotMistakenForOurs(t *testing.T, prepare func(*entity.Client[*Website])) {
	proxy, client, direct := behindProxy(t)
	prepare(client)
	ctx := testContext(t)
	site := website("a")
	must(t, direct.Create(ctx, site))
	proxy.Blackhole()
	outcome := make(chan error, 1)
	mine := site.DeepCopy()
	go func() { outcome <- client.Update(ctx, mine) }() // never arrives, and is sent again later
	must(t, direct.Update(ctx, site))
	proxy.Resume()
	wantError(t, "update of what another updated in the same way", apierrors.IsConflict, <-outcome)
}

func TestALostAcknowledgementThatWasWrittenOverIsUnknownAndNoConflict(t *testing.T) {
	withAndWithoutCaches(t, aLostAcknowledgementThatWasWrittenOverIsUnknownAndNoConflict)
}

func aLostAcknowledgementThatWasWrittenOverIsUnknownAndNoConflict(
	t *testing.T, prepare func(*entity.Client[*Website]),
) {
	l, client, direct := onLossy(t, prepare)
	ctx := testContext(t)
	site := website("a")
	must(t, direct.Create(ctx, site))
	outcome := make(chan error, 1)
	mine := site.DeepCopy()
	mine.Spec.Host = "mine"
	go func() { outcome <- client.Update(ctx, mine) }()
	<-l.lost
	must(t, direct.Patch(ctx, "a", []byte(`{"spec":{"host":"theirs"}}`)))
	l.goOn()
	if err := <-outcome; !errors.Is(err, entity.ErrOutcomeUnknown) || apierrors.IsConflict(err) {
		t.Errorf("got error %v", err)
	}
}

func TestALostAcknowledgementOfAPurgedCreateIsUnknown(t *testing.T) {
	withAndWithoutCaches(t, aLostAcknowledgementOfAPurgedCreateIsUnknown)
}

// Both creations expected that there is no document, and both were right.
func aLostAcknowledgementOfAPurgedCreateIsUnknown(t *testing.T, prepare func(*entity.Client[*Website])) {
	l, client, direct := onLossy(t, prepare)
	ctx := testContext(t)
	outcome := make(chan error, 1)
	go func() { outcome <- client.Create(ctx, website("a")) }()
	<-l.lost
	stream, err := direct.JetStream().Stream(ctx, "KV_websites")
	must(t, err)
	must(t, stream.Purge(ctx)) // as when a marker has expired
	must(t, direct.Create(ctx, website("a")))
	l.goOn()
	if err := <-outcome; !errors.Is(err, entity.ErrOutcomeUnknown) || apierrors.IsAlreadyExists(err) {
		t.Errorf("got error %v", err)
	}
}

func TestAnAcknowledgementOfAnotherStreamIsNoSuccess(t *testing.T) {
	withAndWithoutCaches(t, anAcknowledgementOfAnotherStreamIsNoSuccess)
}

func anAcknowledgementOfAnotherStreamIsNoSuccess(t *testing.T, prepare func(*entity.Client[*Website])) {
	js := newServer(t)
	client := newClient[*Website](t, js, websites)
	prepare(client)
	must(t, js.DeleteKeyValue(t.Context(), "websites"))
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"$KV.websites.>"}})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.Create(ctx, website("a")); err == nil {
		t.Error("what another stream took counts as written")
	}
}

func TestAWriteThatNobodyAnswersSaysThatItsOutcomeIsUnknown(t *testing.T) {
	withAndWithoutCaches(t, aWriteThatNobodyAnswersSaysThatItsOutcomeIsUnknown)
}

func aWriteThatNobodyAnswersSaysThatItsOutcomeIsUnknown(t *testing.T, prepare func(*entity.Client[*Website])) {
	proxy, client, _ := behindProxy(t)
	prepare(client)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	proxy.Blackhole()
	err := client.Create(ctx, website("a"))
	if !errors.Is(err, entity.ErrOutcomeUnknown) || !apierrors.IsTimeout(err) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), `key "a" of bucket "websites"`) {
		t.Errorf("the error does not say what was written: %v", err)
	}
}

func TestPipelinedWritesSurviveCutConnections(t *testing.T)     { pipelinedWritesSurviveCuts(t, 400) }
func TestSoakPipelinedWritesSurviveCutConnections(t *testing.T) { pipelinedWritesSurviveCuts(t, 3000) }

// patientContext is for thousands of requests, one after the other, on a machine that is busy.
func patientContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pipelinedWritesSurviveCuts: each acknowledgement that is lost costs two requests, one record after the other.
func pipelinedWritesSurviveCuts(t *testing.T, n int) {
	proxy, client, direct := behindProxy(t)
	ctx := patientContext(t)
	recs := make([]*entity.Record, n)
	waits := make([]func(context.Context) error, n)
	for i := range n {
		if i%(n/4) == n/6 {
			proxy.Cut()
		}
		recs[i] = &entity.Record{Controller: "c"}
		waits[i] = client.Records().PutAsync(fmt.Sprintf("k%d", i), recs[i])
	}
	for i, wait := range waits {
		if err := wait(ctx); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	for i := 0; i < n; i += 10 {
		got, err := direct.Record(ctx, fmt.Sprintf("k%d", i))
		must(t, err)
		if got.Revision != recs[i].Revision {
			t.Errorf("record %d is at revision %d, put said %d", i, got.Revision, recs[i].Revision)
		}
	}
}

func TestSendingMuchBeforeWaitingDoesNotBlockForEverWhileTheServerIsAway(t *testing.T) {
	t.Parallel() // it mostly waits
	sendMuchBeforeWaiting(t, 50)
}

func TestSoakSendingMuchBeforeWaitingDoesNotBlockForEverWhileTheServerIsAway(t *testing.T) {
	sendMuchBeforeWaiting(t, 1)
}

// sendMuchBeforeWaiting waits for one of so many writes: what was lost is settled one after the other.
func sendMuchBeforeWaiting(t *testing.T, oneOf int) {
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	client := newClient[*Website](t, js, websites)
	srv.Stop()
	waits := make([]func(context.Context) error, 5000) // more than may be in flight
	for i := range waits {
		waits[i] = client.Records().PutAsync(fmt.Sprintf("k%d", i), &entity.Record{})
	}
	must(t, srv.Start())
	ctx := patientContext(t)
	for i := 0; i < len(waits); i += oneOf {
		if err := waits[i](ctx); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
}

func TestWritesDuringRestartsNeverLie(t *testing.T) {
	withAndWithoutCaches(t, writesDuringRestartsNeverLie)
}

func writesDuringRestartsNeverLie(t *testing.T, prepare func(*entity.Client[*Website])) {
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	client := newClient[*Website](t, js, websites)
	prepare(client)
	restarted := make(chan error, 1)
	go func() {
		for range 3 {
			if err := srv.Restart(); err != nil {
				restarted <- err
				return
			}
		}
		restarted <- nil
	}()
	ctx := testContext(t)
	written := map[string]string{}
	for i, done := 0, false; !done; i++ {
		select {
		case err := <-restarted:
			must(t, err)
			done = true
		default:
		}
		site := website(fmt.Sprintf("k%d", i))
		switch err := client.Create(ctx, site); {
		case err == nil:
			written[site.Name] = site.ResourceVersion
		case apierrors.IsAlreadyExists(err):
			t.Errorf("%s exists, and nobody else writes", site.Name)
		case !errors.Is(err, entity.ErrOutcomeUnknown):
			t.Logf("%s: %v", site.Name, err)
		}
	}
	for name, revision := range written {
		got, err := client.Get(ctx, name)
		must(t, err)
		if got.ResourceVersion != revision {
			t.Errorf("%s is at revision %s, Create said %s", name, got.ResourceVersion, revision)
		}
	}
	t.Logf("%d documents written", len(written))
}

func TestADeniedRequestNamesTheSubjectToGrant(t *testing.T) {
	t.Parallel() // it mostly waits
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "reader", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.MSG.GET.KV_websites"}},
			}},
			{Username: "writer", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$KV.websites.a"}},
			}},
		}
	}))
	_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
	newClient[*Website](t, admin, websites)
	_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("reader", "x"))
	_, err := newClient[*Website](t, js, websites).Get(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), `grant`) ||
		!strings.Contains(err.Error(), "$JS.API.STREAM.MSG.GET.KV_websites") {
		t.Errorf("got error %v", err)
	}
	_, js = natstest.Connect(t, srv.URL(), nats.UserInfo("writer", "x"))
	client := newClient[*Website](t, js, websites)
	for _, how := range []string{"without caches", "with caches"} {
		err = client.Create(testContext(t), website("a"))
		if err == nil || !strings.Contains(err.Error(), `grant`) || !strings.Contains(err.Error(), "$KV.websites.a") {
			t.Errorf("%s: got error %v", how, err)
		}
		start(t, client)
	}
}

func TestAReaderNeedsOnlyAReadersPermissions(t *testing.T) {
	publish := []string{"$KV.websites.>"} // a writer's
	for _, stream := range []string{"KV_websites", "KV_websites-status"} {
		for _, api := range []string{
			"STREAM.INFO.%s", "STREAM.MSG.GET.%s", "CONSUMER.CREATE.%s.>",
			"CONSUMER.MSG.NEXT.%s.*", "CONSUMER.DELETE.%s.*",
		} {
			publish = append(publish, "$JS.API."+fmt.Sprintf(api, stream))
		}
	}
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "user", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: publish},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	}))
	_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
	newClient[*Website](t, admin, websites)
	_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("user", "x"))
	client := newClient[*Website](t, js, websites)
	must(t, client.Create(t.Context(), website("a")))
	_, err := client.Get(t.Context(), "a")
	must(t, err)
	_, err = client.Lister().Get("a")
	must(t, err)
	_, err = client.Confirm(t.Context(), "a")
	must(t, err)
	must(t, client.Delete(t.Context(), "a"))
}

// TestAReadAfterARefusedOneSucceeds: a member of a cluster refuses while it knows no leader, and its answer may come
// before the leader's. The next attempt must not remember the refusal.
func TestAReadAfterARefusedOneSucceeds(t *testing.T) {
	t.Parallel()
	var refused sync.Map // the types of answers that were replaced by a refusal
	refuseOnce := func(m *nats.Msg) bool {
		for _, answer := range []string{"stream_msg_get_response", "stream_info_response"} {
			kind := `{"type":"io.nats.jetstream.api.v1.` + answer + `"`
			if !bytes.HasPrefix(m.Data, []byte(kind)) {
				continue
			}
			if _, already := refused.LoadOrStore(answer, true); !already {
				m.Data = []byte(kind + `,"error":{"code":503,"err_code":10008,` +
					`"description":"JetStream system temporarily unavailable"}}`)
			}
		}
		return true
	}
	srv := natstest.Start(t)
	_, direct := natstest.Connect(t, srv.URL())
	must(t, newClient[*Website](t, direct, websites).Create(t.Context(), website("a")))
	_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(refuseOnce))
	client := newClient[*Website](t, js, websites) // asks for the stream's state
	if _, ok := refused.Load("stream_info_response"); !ok {
		t.Fatal("no request for the stream's state was refused")
	}
	if _, err := client.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, ok := refused.Load("stream_msg_get_response"); !ok {
		t.Fatal("no read was refused")
	}
}
