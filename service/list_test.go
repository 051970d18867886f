package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatIsNotWellIsOneShortRequest, of a controller with 105 keys of which four are not well.
func TestWhatIsNotWellIsOneShortRequest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		for i := range 101 {
			w.put("sites", fmt.Sprintf("shop.calm%03d", i), `{}`)
		}
		w.put("sites", "shop.parked", `{"spec":{"title":"terminal domain"}}`)
		w.put("sites", "bank.retry", `{"spec":{"title":"fails today"}}`)
		w.put("sites", "shop.invalid", `{"spec":7}`)
		w.put("sites", "shop.asleep", `{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)
		natstest.Eventually(w, "all came to rest", func() bool {
			s := c.Stats()
			return s.Reconciles >= 103 && s.Running == 0 && c.Explain("shop/asleep").State == controller.StateSuspended &&
				c.Explain("shop/parked").State == controller.StateParked
		})
		time.Sleep(time.Minute)
		admin := w.js.Conn()
		got := map[string]Listed{}
		for _, item := range ask[List](w, admin, "nagi.sites.read.notok", "").Keys {
			got[item.Key] = item
		}
		for key, want := range map[string]Listed{
			"shop/parked":  {Namespace: "shop", State: "parked", Phase: "Terminal", Message: "never domain"},
			"bank/retry":   {Namespace: "bank", State: "retry", Phase: "Retrying", Attempts: 1, Message: "not yet today"},
			"shop/invalid": {Namespace: "shop", State: "invalid", Phase: "Invalid", Message: "spec"},
			"shop/asleep":  {Namespace: "shop", State: "suspended", Phase: "Suspended", Message: "not to be reconciled"},
		} {
			item := got[key]
			if item.Namespace != want.Namespace || item.State != want.State || item.Phase != want.Phase ||
				item.Attempts != want.Attempts || !strings.Contains(item.Message, want.Message) {
				t.Errorf("%s: %+v", key, item)
			}
			if key != "shop/asleep" && item.AgeSeconds < 55 {
				t.Errorf("%s: %d s old", key, item.AgeSeconds)
			}
		}
		if len(got) != 4 {
			t.Errorf("%d keys are not well: %v", len(got), got)
		}
		if all := ask[List](w, admin, "nagi.sites.read.list", ""); len(all.Keys) != 105 || all.Next != "" {
			t.Errorf("%d keys, next %q", len(all.Keys), all.Next)
		}
		if bank := ask[List](w, admin, "nagi.sites.read.notok.bank", ""); len(bank.Keys) != 1 || bank.Keys[0].Key != "bank/retry" {
			t.Errorf("in a namespace: %+v", bank)
		}
		if keys := ask[Keys](w, admin, "nagi.sites.read.keys", `{"notOK":true}`); len(keys.Keys) != 4 {
			t.Errorf("%d keys", len(keys.Keys))
		}
		first := ask[List](w, admin, "nagi.sites.read.notok", `{"limit":3}`)
		if rest := ask[List](w, admin, "nagi.sites.read.notok", fmt.Sprintf(`{"after":%q}`, first.Next)); len(rest.Keys) != 1 {
			t.Errorf("the rest is %+v", rest)
		}
		refused(w, admin, "nagi.sites.read.notok", `{"states":["fine"]}`, 400)
	})
}
