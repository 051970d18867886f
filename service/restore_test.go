package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

var _ Restorer = (*controller.Controller[*site])(nil)

// TestVanishedDocumentsComeBack, of a controller as it is.
func TestVanishedDocumentsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.braked()
	admin := w.js.Conn()
	var page BrakeVanished
	w.eventually("all are listed", func() bool {
		page = ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", ``)
		return page.Count == many
	})
	if page.NotRestorable != 0 || len(page.Vanished) != many || page.Vanished[0].Key != "shop/s000" {
		t.Errorf("%+v", page)
	}
	refused(w, admin, "nagi.sites.act.brake-restore", fmt.Sprintf(`{"engagement":%q,"count":1}`, page.Engagement), 409)
	body := fmt.Sprintf(`{"engagement":%q,"count":%d}`, page.Engagement, many)
	if r := ask[BrakeRestored](w, admin, "nagi.sites.act.brake-restore", body); r.Count != many {
		t.Errorf("%+v", r)
	}
	w.eventually("the brake goes off", func() bool { return !c.Stats().Brake.Engaged })
	if value := w.value("sites", "shop.s000"); !strings.Contains(value, `"name":"s000"`) {
		t.Errorf("it came back as %s", value)
	}
}

// deadlines is a Restorer that notes how long it may take.
type deadlines struct{ listing atomic.Int64 }

func (d *deadlines) ListVanished(ctx context.Context) ([]Vanished, error) {
	until, _ := ctx.Deadline()
	d.listing.Store(int64(time.Until(until)))
	return nil, nil
}

func (d *deadlines) RestoreVanished(context.Context, string, int) (int, error) { return 0, nil }

// TestToListWhatVanishedMayTakeLong: of each document there is something to read.
func TestToListWhatVanishedMayTakeLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, c := w.sites()
	d := &deadlines{}
	c.served().restorer = d
	ask[BrakeVanished](w, w.js.Conn(), "nagi.sites.read.brake-vanished", "")
	if given := time.Duration(d.listing.Load()); given < time.Minute {
		t.Errorf("it is given %v", given)
	}
}
