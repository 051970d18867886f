package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	restoring "github.com/nagi-runtime/nagi/internal/restore"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var _ Restorer = (*controller.Controller[*site])(nil)

// TestVanishedDocumentsComeBack, of a controller as it is.
func TestVanishedDocumentsComeBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.braked()
		admin := w.js.Conn()
		var page BrakeVanished
		natstest.Eventually(w, "all are listed", func() bool {
			page = ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", ``)
			return page.Count == many
		})
		if page.NotRestorable != 0 || len(page.Vanished) != many || page.Vanished[0].Key != "shop/s000" {
			t.Errorf("%+v", page)
		}
		body := fmt.Sprintf(`{"engagement":%q,"count":%d}`, page.Engagement, many)
		for _, wrong := range []string{
			fmt.Sprintf(`{"engagement":"x","count":%d}`, many), fmt.Sprintf(`{"engagement":%q,"count":1}`, page.Engagement),
			fmt.Sprintf(`{"engagement":%q,"count":%d}`, page.Engagement, many+1),
			fmt.Sprintf(`{"engagement":%q,"count":0}`, page.Engagement),
		} {
			e := refused(w, admin, "nagi.sites.act.brake-restore", wrong, 409)
			if e.Restorable == nil || *e.Restorable != many || e.Brake == nil || e.Brake.Engagement != page.Engagement {
				t.Errorf("%s: %+v", wrong, e)
			}
		}
		if w.value("sites", "shop.s000") != "" {
			t.Error("a document is back, and nobody has named the numbers")
		}
		if r := ask[BrakeRestored](w, admin, "nagi.sites.act.brake-restore", body); r.Count != many {
			t.Errorf("%+v", r)
		}
		natstest.Eventually(w, "the brake goes off", func() bool { return !c.Stats().Brake.Engaged })
		if value := w.value("sites", "shop.s000"); !strings.Contains(value, `"name":"s000"`) {
			t.Errorf("it came back as %s", value)
		}
	})
}

// TestPagesOfWhatVanishedReadEachRecordOnce: the next pages are of the listing that the first one made.
func TestPagesOfWhatVanishedReadEachRecordOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.braked()
		admin := w.js.Conn()
		reads, err := admin.SubscribeSync("$JS.API.STREAM.MSG.GET.KV_sites-status")
		w.must(err)
		var keys []string
		for after, more := "", true; more; {
			page := ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", fmt.Sprintf(`{"limit":1,"after":%q}`, after))
			if page.Count != many || len(page.Vanished) != 1 {
				t.Fatalf("%+v", page)
			}
			keys, after, more = append(keys, page.Vanished[0].Key), page.Next, page.Next != ""
		}
		if n, _, err := reads.Pending(); err != nil || n < many || n > 2*many { // others may have read one, too
			t.Errorf("%d records were read for %d pages of one, error %v", n, many, err)
		}
		if len(keys) != many || !slices.IsSorted(keys) {
			t.Errorf("the pages have %q", keys)
		}
		ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", `{"limit":1}`)
		if n, _, err := reads.Pending(); err != nil || n < 2*many {
			t.Errorf("%d records were read for two first pages, error %v", n, err)
		}
	})
}

// deadlines is a Restorer that notes whether it has one, and fails with an error.
type deadlines struct {
	given atomic.Int64
	err   error
}

func (d *deadlines) ListVanished(ctx context.Context) ([]Vanished, error) {
	_, err := d.RestoreVanished(ctx, "", 0)
	return nil, err
}

func (d *deadlines) RestoreVanished(ctx context.Context, _ string, _ int) (int, error) {
	if _, has := ctx.Deadline(); has {
		d.given.Add(1)
	}
	return 0, d.err
}

// TestToListAndToRestoreMayTakeAsLongAsItGoesOn: of each document there is something to read. Where a request begins
// anew each time, one that ends too early never gets to its end.
func TestToListAndToRestoreMayTakeAsLongAsItGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		d := &deadlines{}
		c.served().restorer = restorerOf(d)
		ask[BrakeVanished](w, w.js.Conn(), "nagi.sites.read.brake-vanished", "")
		ask[BrakeRestored](w, w.js.Conn(), "nagi.sites.act.brake-restore", `{"engagement":"x","count":1}`)
		if n := d.given.Load(); n != 0 {
			t.Errorf("%d were given a deadline", n)
		}
	})
}

// TestWhatCeasesToLeadMeanwhileSaysSo, as where it is asked later.
func TestWhatCeasesToLeadMeanwhileSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		c.served().restorer = restorerOf(&deadlines{err: fmt.Errorf("stopped: %w", &restoring.NotLeading{Holder: "other"})})
		for subject, body := range map[string]string{
			"read.brake-vanished": "", "act.brake-restore": `{"engagement":"x","count":1}`,
		} {
			if e := refused(w, w.js.Conn(), "nagi.sites."+subject, body, 503); e.Leader != "other" {
				t.Errorf("%s: %+v", subject, e)
			}
		}
	})
}
