package kvstream_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestWhatAServerAnswersIsRecognised asks a real server for all kinds of answers, and has it put them into another
// bucket. A status, which has neither text nor headers there, is an empty value and nobody's document either.
func TestWhatAServerAnswersIsRecognised(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
			time.Sleep(time.Second)
			sequence, header, data := last(t, nc)
			if sequence != uint64(i+1) {
				t.Fatalf("%d answers have come, want %d", sequence, i+1)
			}
			if !kvstream.IsReply(header, data) {
				t.Errorf("answer %d (%s) is taken for a document: %v %s", i, request.Subject, header, data)
			}
		}
	})
}

// last returns the last answer that was put into the other bucket, and its sequence, as the leader has it: an answer to
// a direct get would have headers of its own.
func last(t *testing.T, nc *nats.Conn) (sequence uint64, header nats.Header, data []byte) {
	t.Helper()
	const query = `{"last_by_subj":"$KV.theirs.key"}`
	answer, err := nc.Request("$JS.API.STREAM.MSG.GET.KV_theirs", []byte(query), time.Second)
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
	m := found.Message
	if len(m.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			t.Fatal(err)
		}
	}
	return m.Sequence, header, m.Data
}

func TestDocumentsAreNoAnswers(t *testing.T) {
	for _, document := range []string{
		"", "{}", `{"spec":{"stream":"x","seq":1}}`, `{"stream":{"name":"x"},"spec":{}}`, `{"stream":"x"}`,
		`{"stream":"x","seq":1,"spec":{}}`, `{"type":"website","seq":1}`, `{"error":{"a":1},"spec":{}}`,
		`{"stream":"x","seq":`, `[1]`,
	} {
		if kvstream.IsReply(nats.Header{"Nats-Expected-Stream": {"x"}}, []byte(document)) {
			t.Errorf("%s is taken for an answer", document)
		}
	}
}
