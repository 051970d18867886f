package attacks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestATenantDoesItsWorkAndSeesNothingElse: over the imports that the page shows.
func TestATenantDoesItsWorkAndSeesNothingElse(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenant, _ := connect(t, w.server, "tenant1", "change me 6")
		nc := tenant.Conn()

		watched := make(chan *nats.Msg, 100)
		_, err := nc.ChanSubscribe("$KV.sites-status.>", watched)
		must(t, err)
		must(t, nc.Flush())
		var ack jetstream.PubAck
		answer, err := nc.Request("$KV.sites.ns1.mine", []byte(`{"spec":{"title":"mine"}}`), patience)
		must(t, err)
		if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Sequence == 0 || ack.Stream != "KV_sites" {
			t.Fatalf("the acknowledgement is %s", answer.Data)
		}
		natstest.Eventually(t, "its site is reconciled", func() bool {
			record := ask(t, tenant, "$JS.API.DIRECT.GET.KV_sites-status.$KV.sites-status.ns1.mine", "")
			return record != nil && strings.Contains(string(record.Data), `"Synced"`)
		})
		w.put("$KV.sites.ns2.other", `{}`)
		w.settle()
		if len(watched) == 0 {
			t.Error("it saw no record change")
		}
		for len(watched) > 0 {
			if m := <-watched; !strings.HasPrefix(m.Subject, "$KV.sites-status.ns1.") {
				t.Errorf("it heard %s", m.Subject)
			}
		}
		if doc := ask(t, tenant, "$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.mine", ""); doc == nil ||
			string(doc.Data) != `{"spec":{"title":"mine"}}` {
			t.Errorf("its document reads %v", doc)
		}
		for subject, payloads := range map[string][]string{
			"$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns2.s0":               {""},
			"$JS.API.DIRECT.GET.KV_sites-status.$KV.sites-status.ns2.s0": {""},
			"$JS.API.DIRECT.GET.KV_sites":                                {`{"last_by_subj":"$KV.sites.ns2.s0"}`},
			"$JS.API.DIRECT.GET.KV_sites.$KV.sites.>":                    {""},
			"$JS.API.DIRECT.GET.KV_sites.$KV.sites.*.s0":                 {""},
			"$JS.API.STREAM.MSG.GET.KV_sites":                            {`{"last_by_subj":"$KV.sites.ns2.s0"}`},
			"$JS.API.STREAM.INFO.KV_sites":                               {""},
			"$KV.sites.ns2.s0":                                           {`{}`},
			// What a narrow import lets through is not widened by what stands in the request.
			"$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.mine": {
				`{"multi_last":["$KV.sites.ns2.>"]}`, `{"last_by_subj":"$KV.sites.ns2.s0"}`, `{"seq":1}`,
				`{"seq":1,"batch":10,"next_by_subj":"$KV.sites.ns2.>"}`, `{"start_time":"2000-01-01T00:00:00Z"}`,
			},
		} {
			for _, payload := range payloads {
				answer := ask(t, tenant, subject, payload)
				if answer != nil && answer.Header.Get("Status") == "" &&
					!strings.Contains(string(answer.Data), "JetStream not enabled for account") { // its own account says so
					t.Errorf("%s with %s answers %q %s", subject, payload, answer.Header, answer.Data)
				}
			}
		}
		w.unharmed(t)
	})
}
