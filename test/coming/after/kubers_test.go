package after

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// busy is a DNS that fails until it is told otherwise.
type busy struct {
	names
	until time.Time
}

func (b *busy) Point(ctx context.Context, name string) error {
	if time.Now().Before(b.until) {
		return errors.New("busy")
	}
	return b.names.Point(ctx, name)
}

func TestThePublisherTriesAgainAsItsErrorPolicySays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		sites, pages := clients(t, js)
		dns := &busy{until: time.Now().Add(20 * time.Second)}
		c, err := NewPublisher(sites, &Publisher{Pages: pages, DNS: dns}, make(chan struct{}))
		if err != nil {
			t.Fatal(err)
		}
		natstest.Run(t, c.Run)
		if err := sites.Create(t.Context(), home(nil)); err != nil {
			t.Fatal(err)
		}
		untitled := home(nil)
		untitled.Name, untitled.Spec.Title = "untitled", ""
		if err := sites.Create(t.Context(), untitled); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		early := dns.all()
		record, err := sites.Record(t.Context(), "shop/untitled")
		if err != nil || record.Phase() != entity.PhaseTerminal {
			t.Errorf("record %+v, error %v", record, err)
		}
		time.Sleep(10 * time.Second)
		if err := sites.Delete(t.Context(), "shop/home"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if want := []string{"point Home", "remove Home"}; len(early) != 0 || !slices.Equal(dns.all(), want) {
			t.Errorf("DNS was told %q too early, and %q, want %q", early, dns.all(), want)
		}
	})
}
