package service

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// caller connects as a user who may do what CallerPermissions says for a role.
func (w *world) caller(role entity.Role) *nats.Conn {
	w.Helper()
	nc, _ := natstest.Connect(w.T, w.srv.URL(), nats.UserInfo(string(role)+"-asks", "x"),
		nats.CustomInboxPrefix("_INBOX_"+string(role)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	return nc
}

// TestReaderAndOperatorAreAnsweredInTheirOwnInboxes, by the service as it is configured by default, and may do no more
// than their roles say.
func TestReaderAndOperatorAreAnsweredInTheirOwnInboxes(t *testing.T) {
	for _, role := range []entity.Role{entity.RoleReader, entity.RoleOperator} {
		set, err := Config{}.CallerPermissions(role)
		if err != nil {
			t.Fatal(err)
		}
		users[string(role)+"-asks"] = strings.TrimSuffix(strings.TrimPrefix(set.NATS(), "permissions: {"), "}\n")
	}
	defer delete(users, "reader-asks")
	defer delete(users, "operator-asks")
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		w.put("sites", "shop.home", `{}`)
		natstest.Eventually(w, "it is calm", func() bool {
			return c.Explain("shop/home").State == controller.StateCalm
		})
		const home = `{"key":"shop/home"}`
		for _, role := range []entity.Role{entity.RoleReader, entity.RoleOperator} {
			nc := w.caller(role)
			if e := ask[controller.Explanation](w, nc, "nagi.sites.read.explain", home); e.State != controller.StateCalm {
				t.Errorf("%s: %+v", role, e)
			}
			info := ask[micro.Info](w, nc, "$SRV.INFO.nagi", "")
			if got := info.Metadata["nagi.inboxes"]; got != "_INBOX,_INBOX_operator,_INBOX_reader" {
				t.Errorf("%s: the service says that it answers in %q", role, got)
			}
		}
		w.denied(w.caller(entity.RoleReader), "nagi.sites.act.reconcile", home)
		ask[Done](w, w.caller(entity.RoleOperator), "nagi.sites.act.reconcile", home)
	})
	if set, err := (Config{}).CallerPermissions(entity.RoleWriter); err == nil {
		t.Errorf("a writer: %v", set)
	}
}

// TestAnInboxThatTheServiceDoesNotKnowIsNamed in the log, with what to add: who asked gets no answer.
func TestAnInboxThatTheServiceDoesNotKnowIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites()
		natstest.Eventually(w, "the service answers", func() bool {
			_, err := w.js.Conn().Request("nagi.sites.read.stats", nil, requestTimeout)
			return err == nil
		})
		w.must(w.js.Conn().PublishRequest("nagi.sites.read.stats", "_INBOX_alice.x", nil))
		natstest.Eventually(w, "the log says so", func() bool {
			return w.log.have(`Add \"_INBOX_alice\" to Config.Inboxes`)
		})
	})
}
