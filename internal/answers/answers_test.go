package answers_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/answers"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestWhatAServerAnswersIsRecognised asks a real server for all kinds of answers, and has it put them into another
// bucket. A status, which has neither text nor headers there, is an empty value and nobody's document either.
func TestWhatAServerAnswersIsRecognised(t *testing.T) {
	nc, js := natstest.Connect(t, natstest.Start(t).URL())
	for _, bucket := range []string{"b", "theirs"} {
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket}); err != nil {
			t.Fatal(err)
		}
	}
	for i, request := range []*nats.Msg{
		{Subject: "$KV.b.mine", Data: []byte("{}")},
		{Subject: "$KV.b.mine", Data: []byte("{}"), Header: nats.Header{"Nats-Expected-Last-Sequence": {"77"}}},
		{Subject: "$KV.b.mine", Data: []byte("{}"), Header: nats.Header{"Nats-Msg-Id": {"1"}}},
		{Subject: "$KV.b.mine", Data: []byte("{}"), Header: nats.Header{"Nats-Msg-Id": {"1"}}},
		{Subject: "$JS.API.INFO"},
		{Subject: "$JS.API.STREAM.INFO.KV_b"},
		{Subject: "$JS.API.STREAM.INFO.none"},
		{Subject: "$JS.API.STREAM.MSG.GET.KV_b", Data: []byte(`{"last_by_subj":"$KV.b.mine"}`)},
		{Subject: "$JS.API.DIRECT.GET.KV_b.$KV.b.mine"},
		{Subject: "$JS.API.STREAM.NAMES"},
		{Subject: "$JS.API.STREAM.CREATE.x", Data: []byte(`garbage`)},
	} {
		request.Reply = "$KV.theirs.key"
		if err := nc.PublishMsg(request); err != nil {
			t.Fatal(err)
		}
		stored := last(t, nc, uint64(i))
		if !answers.Is(stored.Header, stored.Data) {
			t.Errorf("answer %d (%s) is taken for a document: %v %s", i, request.Subject, stored.Header, stored.Data)
		}
	}
}

// last returns the last message of a key as the leader has it, once it is later than a sequence.
func last(t *testing.T, nc *nats.Conn, after uint64) *nats.Msg {
	t.Helper()
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		answer, err := nc.Request("$JS.API.STREAM.MSG.GET.KV_theirs", []byte(`{"last_by_subj":"$KV.theirs.key"}`), patience)
		if err != nil {
			t.Fatal(err)
		}
		var found struct {
			Message struct {
				Sequence uint64 `json:"seq"`
				Header   []byte `json:"hdrs"`
				Data     []byte `json:"data"`
			} `json:"message"`
		}
		if err := json.Unmarshal(answer.Data, &found); err != nil {
			t.Fatal(err)
		}
		if m := found.Message; m.Sequence > after {
			msg := &nats.Msg{Data: m.Data}
			if len(m.Header) > 0 {
				if msg.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
					t.Fatal(err)
				}
			}
			return msg
		}
	}
	t.Fatal("the answer did not come")
	return nil
}

func TestDocumentsAreNoAnswers(t *testing.T) {
	for _, document := range []string{
		"", "{}", `{"spec":{"stream":"x","seq":1}}`, `{"stream":{"name":"x"},"spec":{}}`, `{"stream":"x"}`,
		`{"stream":"x","seq":1,"spec":{}}`, `{"type":"website","seq":1}`, `{"error":{"a":1},"spec":{}}`,
		`{"stream":"x","seq":`, `[1]`,
	} {
		if answers.Is(nats.Header{"Nats-Expected-Stream": {"x"}}, []byte(document)) {
			t.Errorf("%s is taken for an answer", document)
		}
	}
}
