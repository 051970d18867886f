package entity_test

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// twoAccounts has a mirror's account, edge, that reaches the API of the other one under hub.api, as over a leaf node.
const twoAccounts = `accounts: {
	HUB: { jetstream: enabled, users: [ { user: hub, password: x } ], exports: [
		{ service: "$JS.API.>", response_type: stream }
		{ stream: "from.hub.>" }
	] }
	EDGE: { jetstream: enabled, users: [ { user: edge, password: x } ], imports: [
		{ service: { account: HUB, subject: "$JS.API.>" }, to: "hub.api.>" }
		{ stream: { account: HUB, subject: "from.hub.>" } }
	] }
} `

// TestAMirrorOfAnotherAccountIsReadAndSaysWhereToWrite: its origin has the same name.
func TestAMirrorOfAnotherAccountIsReadAndSaysWhereToWrite(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfigText(twoAccounts))
		_, hub := natstest.Connect(t, srv.URL(), nats.UserInfo("hub", "x"))
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("edge", "x"))
		cfg := websites
		cfg.StatusBucket = entity.NoStatusBucket
		origin := newClient[*Website](t, hub, cfg)
		must(t, origin.Create(testContext(t), website("a")))
		_, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
			Name: "KV_websites", MaxMsgsPerSubject: 1, AllowMsgTTL: true,
			Mirror: &jetstream.StreamSource{Name: "KV_websites", External: &jetstream.ExternalStream{
				APIPrefix: "hub.api", DeliverPrefix: "from.hub",
			}},
		})
		must(t, err)
		client := newClient[*Website](t, js, cfg)
		start(t, client)
		natstest.Eventually(t, "it is read", func() bool {
			_, err := client.Lister().Get("a")
			return err == nil
		})
		site, err := client.Get(testContext(t), "a")
		must(t, err)
		site.Spec.Host = "changed"
		err = client.Update(testContext(t), site)
		wantError(t, "Update", func(err error) bool {
			return err != nil && strings.Contains(err.Error(), `write to bucket "websites" behind the API prefix "hub.api"`)
		}, err)
		must(t, origin.Update(testContext(t), site)) // a mirror has the revisions of its origin
		natstest.Eventually(t, "the change is read", func() bool {
			site, err := client.Lister().Get("a")
			return err == nil && site.Spec.Host == "changed"
		})
	})
}
