package rights

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAWaitGoesOnWhereItMayNotWatch: an operator may make no consumers. It is denied one once, and then asks. A reader
// who waits is denied nothing but to remove the consumer, unless that is allowed too.
func TestAWaitGoesOnWhereItMayNotWatch(t *testing.T) {
	const consumers, remove = "$JS.API.CONSUMER.", "$JS.API.CONSUMER.DELETE."
	for role, only := range map[entity.Role]string{entity.RoleOperator: consumers, entity.RoleReader: remove} {
		t.Run(string(role), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				set, err := entity.Permissions(sites, role, entity.WithInboxPrefix("_INBOX_me"))
				must(t, err)
				srv := serve(t, set)
				_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				must(t, makeSites(ctx, admin))
				theirs, err := entity.NewClient[*site](ctx, admin, sites)
				must(t, err)
				defer theirs.Close()
				heard := &denials{first: func() {}}
				nc, user := natstest.Connect(t, srv.URL(), nats.UserInfo("user", "x"),
					nats.CustomInboxPrefix("_INBOX_me"), nats.ErrorHandler(heard.add))
				client, err := entity.NewClient[*site](ctx, user, bound(sites))
				must(t, err)
				defer client.Close()
				waited := make(chan error, 2)
				go func() {
					waited <- entity.WaitForCondition(ctx, client, "ns1/home", entity.ConditionReconciled, metav1.ConditionFalse)
				}()
				go func() { waited <- entity.WaitDeleted(ctx, client, "ns1/home") }()
				time.Sleep(500 * time.Millisecond) // so that they watch, or were denied it
				rec, err := theirs.Record(ctx, "ns1/home")
				must(t, err)
				rec.Conditions = []metav1.Condition{{Type: entity.ConditionReconciled, Status: metav1.ConditionFalse}}
				must(t, theirs.Records().Put(ctx, "ns1/home", rec))
				must(t, <-waited)
				must(t, theirs.Delete(ctx, "ns1/home"))
				must(t, theirs.Records().Delete(ctx, "ns1/home", rec.Revision))
				must(t, <-waited)
				must(t, nc.Flush())
				denied := heard.all()
				if len(denied) > 6 {
					t.Errorf("denied %d times: %q", len(denied), denied)
				}
				for _, text := range denied {
					if !strings.Contains(text, only) {
						t.Errorf("denied: %s", text)
					}
				}
			})
		})
	}
}
