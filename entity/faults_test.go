package entity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withAndWithoutCaches runs a test twice, in virtual time. The writes of a client without caches are requests; those of
// a client whose caches run share a subscription for their answers. The test hands its client to prepare.
func withAndWithoutCaches(t *testing.T, test func(t *testing.T, prepare func(*entity.Client[*Website]))) {
	t.Run("without caches", virtually(func(t *testing.T) { test(t, func(*entity.Client[*Website]) {}) }))
	t.Run("with caches", virtually(func(t *testing.T) {
		test(t, func(client *entity.Client[*Website]) { start(t, client) })
	}))
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

// onLossy is behindProxy with a client that is prepared, and will not get the acknowledgement of its next write to the
// bucket websites.
func onLossy(t *testing.T, prepare func(*entity.Client[*Website])) (client, direct *entity.Client[*Website]) {
	t.Helper()
	proxy, client, direct := behindProxy(t)
	prepare(client)
	proxy.Tamper(natstest.Nth(1, natstest.AnswersTo("$KV.websites.>"), natstest.Fate{Lost: true}))
	return client, direct
}

// begin returns the outcome of a write that has done all that it can do now, and waits.
func begin(t *testing.T, write func() error) (outcome chan error) {
	t.Helper()
	outcome = make(chan error, 1)
	go func() { outcome <- write() }()
	synctest.Wait()
	if len(outcome) > 0 {
		t.Fatalf("it does not wait: %v", <-outcome)
	}
	return outcome
}

func TestALostAcknowledgementIsNoConflict(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client, direct := onLossy(t, prepare)
		ctx := testContext(t)
		site := website("a")
		began := time.Now()
		must(t, client.Create(ctx, site)) // sent again it would be refused as existing
		if took := time.Since(began); took < entity.AttemptTimeout || took > entity.AttemptTimeout+entity.AsyncLook {
			t.Errorf("it took %v", took)
		}
		got, err := direct.Get(ctx, "a")
		must(t, err)
		if got.ResourceVersion != site.ResourceVersion {
			t.Errorf("it is at revision %s, Create said %s", got.ResourceVersion, site.ResourceVersion)
		}
	})
}

func TestALostAcknowledgementIsLookedForThoughTheContextHasEnded(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client, _ := onLossy(t, prepare)
		ctx, cancel := context.WithCancel(testContext(t))
		site := website("a")
		outcome := begin(t, func() error { return client.Create(ctx, site) })
		cancel()
		began := time.Now()
		if err := <-outcome; err != nil || site.Generation == 0 {
			t.Errorf("it was written, and Create said %v, revision %d", err, site.Generation)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestTheSameContentByAnotherWriterIsNotMistakenForOurs(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		proxy, client, direct := behindProxy(t)
		prepare(client)
		ctx := testContext(t)
		site := website("a")
		must(t, direct.Create(ctx, site))
		proxy.Blackhole()
		mine := site.DeepCopy()
		outcome := begin(t, func() error { return client.Update(ctx, mine) }) // never arrives, and is sent again later
		must(t, direct.Update(ctx, site))
		proxy.Resume()
		wantError(t, "update of what another updated in the same way", apierrors.IsConflict, <-outcome)
	})
}

func TestALostAcknowledgementThatWasWrittenOverIsUnknownAndNoConflict(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client, direct := onLossy(t, prepare)
		ctx := testContext(t)
		site := website("a")
		must(t, direct.Create(ctx, site))
		mine := site.DeepCopy()
		mine.Spec.Host = "mine"
		outcome := begin(t, func() error { return client.Update(ctx, mine) })
		must(t, direct.Patch(ctx, "a", []byte(`{"spec":{"host":"theirs"}}`)))
		if err := <-outcome; !errors.Is(err, entity.ErrOutcomeUnknown) || apierrors.IsConflict(err) {
			t.Errorf("got error %v", err)
		}
	})
}

// TestALostAcknowledgementOfAPurgedCreateIsUnknown: both creations expected that there is no document, and both were
// right.
func TestALostAcknowledgementOfAPurgedCreateIsUnknown(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client, direct := onLossy(t, prepare)
		ctx := testContext(t)
		outcome := begin(t, func() error { return client.Create(ctx, website("a")) })
		stream, err := direct.JetStream().Stream(ctx, "KV_websites")
		must(t, err)
		must(t, stream.Purge(ctx)) // as when a marker has expired
		must(t, direct.Create(ctx, website("a")))
		if err := <-outcome; !errors.Is(err, entity.ErrOutcomeUnknown) || apierrors.IsAlreadyExists(err) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestAnAcknowledgementOfAnotherStreamIsNoSuccess(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		prepare(client)
		must(t, js.DeleteKeyValue(t.Context(), "websites"))
		other := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"$KV.websites.>"}}
		_, err := js.CreateStream(t.Context(), other)
		must(t, err)
		if err := client.Create(testContext(t), website("a")); err == nil {
			t.Error("what another stream took counts as written")
		}
	})
}

// TestAWriteThatNobodyAnswersSaysThatItsOutcomeIsUnknown, a second after its context has ended at the latest.
func TestAWriteThatNobodyAnswersSaysThatItsOutcomeIsUnknown(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		proxy, client, _ := behindProxy(t)
		prepare(client)
		const patience = 300 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		proxy.Blackhole()
		began := time.Now()
		err := client.Create(ctx, website("a"))
		if !errors.Is(err, entity.ErrOutcomeUnknown) || !apierrors.IsTimeout(err) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		if _, is := err.(apierrors.APIStatus); !is {
			t.Errorf("%T is no APIStatus by itself", err)
		}
		if err == nil || !strings.Contains(err.Error(), `key "a" of bucket "websites"`) {
			t.Errorf("the error does not say what was written: %v", err)
		}
		if took := time.Since(began); took > patience+entity.SettleTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// TestPipelinedWritesSurviveCutConnections: each acknowledgement that is lost costs two requests, one record after the
// other.
func TestPipelinedWritesSurviveCutConnections(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const n = 400
		proxy, client, direct := behindProxy(t)
		ctx := testContext(t)
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
	})
}

// TestSendingMuchBeforeWaitingDoesNotBlockForEverWhileTheServerIsAway: what is overdue makes room for what comes.
func TestSendingMuchBeforeWaitingDoesNotBlockForEverWhileTheServerIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		client := newClient[*Website](t, js, websites)
		srv.Stop()
		began := time.Now()
		waits := make([]func(context.Context) error, entity.AsyncPending+100) // more than may be in flight
		for i := range waits {
			waits[i] = client.Records().PutAsync(fmt.Sprintf("k%d", i), &entity.Record{})
		}
		if took := time.Since(began); took < entity.AsyncTimeout || took > entity.AsyncTimeout*6/5 {
			t.Errorf("it was blocked for %v", took)
		}
		must(t, srv.Start())
		for i := 0; i < len(waits); i += 50 { // what was lost is settled one after the other
			if err := waits[i](testContext(t)); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
	})
}

func TestWritesDuringRestartsNeverLie(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		client := newClient[*Website](t, js, websites)
		prepare(client)
		const every = 500 * time.Millisecond
		restarted := make(chan error, 1)
		go func() {
			for range 3 {
				time.Sleep(every)
				if err := srv.Restart(); err != nil {
					restarted <- err
					return
				}
			}
			restarted <- nil
		}()
		ctx := testContext(t)
		written := map[string]string{}
		for i := range 200 {
			time.Sleep(every / 50) // so that one is about to be written whenever the server stops
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
		must(t, <-restarted)
		for name, revision := range written {
			got, err := client.Get(ctx, name)
			must(t, err)
			if got.ResourceVersion != revision {
				t.Errorf("%s is at revision %s, Create said %s", name, got.ResourceVersion, revision)
			}
		}
		if len(written) < 100 {
			t.Errorf("%d documents written", len(written))
		}
	})
}

func TestAReaderNeedsOnlyAReadersPermissions(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
	})
}

// TestAReadAfterARefusedOneSucceeds: a member of a cluster refuses while it knows no leader, and its answer may come
// before the leader's. The next attempt must not remember the refusal.
func TestAReadAfterARefusedOneSucceeds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
	})
}
