package attacks

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func purge(ctx context.Context, stream jetstream.Stream, subject string) error {
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}

// account is a server without Nagi, with the buckets mine and theirs, of which theirs allows rollups, as those do that
// nats kv add makes.
func account(t *testing.T) (nc *nats.Conn, js jetstream.JetStream, mine, theirs jetstream.KeyValue) {
	t.Helper()
	nc, js = natstest.Connect(t, natstest.Start(t).URL())
	for name, kv := range map[string]*jetstream.KeyValue{"mine": &mine, "theirs": &theirs} {
		bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
			Bucket: name, Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		*kv = bucket
	}
	_, err := mine.PutString(t.Context(), "key", "chosen by the attacker")
	must(t, err)
	return nc, js, mine, theirs
}

// last waits for what is stored under a subject of a stream.
func last(t *testing.T, js jetstream.JetStream, stream, subject string) (m *jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	must(t, err)
	natstest.Eventually(t, subject+" is in "+stream, func() bool {
		m, err = s.GetLastMsgForSubject(t.Context(), subject)
		return err == nil
	})
	return m
}

// These hold what docs/security.md says that NATS itself does. If one fails, the page needs a change, and maybe the
// code can be simpler.

func TestFactAnAcknowledgementLandsOnAnyKeyOfTheAccount(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		nc, js, _, _ := account(t)
		must(t, nc.PublishRequest("$KV.mine.other", "$KV.theirs.victim", []byte("x")))
		m := last(t, js, "KV_theirs", "$KV.theirs.victim")
		if !strings.HasPrefix(strings.ReplaceAll(string(m.Data), " ", ""), `{"stream":"KV_mine","seq":`) {
			t.Errorf("it is %s", m.Data)
		}
	})
}

func TestFactADirectGetForwardsTextOfTheAttacker(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		nc, js, _, _ := account(t)
		must(t, nc.PublishRequest("$JS.API.DIRECT.GET.KV_mine.$KV.mine.key", "$KV.theirs.victim", nil))
		m := last(t, js, "KV_theirs", "$KV.theirs.victim")
		if string(m.Data) != "chosen by the attacker" || m.Header.Get("Nats-Stream") != "KV_mine" ||
			m.Header.Get("Nats-Sequence") == "" {
			t.Errorf("it is %s with %v", m.Data, m.Header)
		}
	})
}

func TestFactAConsumerForwardsUnderTheOriginalSubject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		nc, js, _, _ := account(t)
		_, err := nc.Request("$JS.API.CONSUMER.CREATE.KV_mine.c.$KV.mine.>", []byte(
			`{"stream_name":"KV_mine","config":{"name":"c","ack_policy":"none","deliver_policy":"all",`+
				`"filter_subject":"$KV.mine.>","mem_storage":true}}`), patience)
		must(t, err)
		must(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.KV_mine.c", "$KV.theirs.victim", nil))
		m := last(t, js, "KV_theirs", "$KV.mine.key") // in the wrong stream, and not under the key that was aimed at
		if string(m.Data) != "chosen by the attacker" {
			t.Errorf("it is %s", m.Data)
		}
		s, err := js.Stream(t.Context(), "KV_theirs")
		must(t, err)
		if m, err := s.GetLastMsgForSubject(t.Context(), "$KV.theirs.victim"); err == nil {
			t.Errorf("the key that was aimed at holds %s", m.Data)
		}
	})
}

func TestFactARollupPurgesABucketThatAllowsIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js, _, theirs := account(t)
		for _, key := range []string{"a", "b"} {
			_, err := theirs.PutString(t.Context(), key, "x")
			must(t, err)
		}
		_, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "$KV.theirs.mine", Header: nats.Header{"Nats-Rollup": {"all"}},
		})
		must(t, err)
		s, err := js.Stream(t.Context(), "KV_theirs")
		must(t, err)
		if info, err := s.Info(t.Context()); err != nil || info.State.Msgs != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// TestFactAConsumersFilterIsThatOfItsSubject, and so a permission with the filter holds.
func TestFactAConsumersFilterIsThatOfItsSubject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		nc, _, _, _ := account(t)
		for _, filter := range []string{`"filter_subject":"$KV.mine.>"`, `"filter_subjects":["$KV.mine.>"]`, `"name":"c"`} {
			answer, err := nc.Request("$JS.API.CONSUMER.CREATE.KV_mine.c.$KV.mine.ns1.>",
				[]byte(`{"stream_name":"KV_mine","config":{"name":"c","ack_policy":"none",`+filter+`}}`), patience)
			must(t, err)
			if !strings.Contains(string(answer.Data), `"error"`) {
				t.Errorf("with %s the answer is %s", filter, answer.Data)
			}
		}
	})
}
