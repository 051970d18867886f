package entity_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestAnAnswerInAReservedKeyIsToldByItsText: one that carries a message which somebody stored has its mark in headers,
// and readers of reserved keys get none.
func TestAnAnswerInAReservedKeyIsToldByItsText(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		records, ctx := client.Records(), t.Context()
		chosen := &Website{}
		chosen.Name = "chosen"
		must(t, client.Create(ctx, chosen))
		for name, request := range map[string]nats.Msg{
			"_nagi.release": {Subject: "$KV.websites.other", Data: []byte(`{"spec":{}}`)}, // it is acknowledged
			"_nagi.lease":   {Subject: "$JS.API.DIRECT.GET.KV_websites.$KV.websites.chosen"},
		} {
			request.Reply = "$KV.websites-status." + name
			must(t, js.Conn().PublishMsg(&request))
			wantNow(t, "an answer is in "+name, func() bool {
				value, _, err := records.GetReserved(ctx, name)
				return err == nil && kvstream.IsReply(nil, value)
			})
		}
	})
}
