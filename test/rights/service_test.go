package rights

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// serveSites runs a service over the user's connection, until ctx ends, with a controller over the admin's, and asks it.
func serveSites(ctx context.Context, user, admin jetstream.JetStream) error {
	s, err := service.New(service.Config{Conn: user.Conn(), Name: "sites"})
	if err != nil {
		return err
	}
	c, client, err := publisher(ctx, admin, s.Controller())
	if err != nil {
		return err
	}
	go func() {
		defer client.Close()
		_ = c.Run(ctx)
	}()
	go s.Run(ctx)
	for _, subject := range []string{
		"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.PING.sites", "nagi.sites.read.stats", "nagi.sites.act.resync",
	} {
		if err := await(ctx, subject+" is answered", func() bool {
			_, err := admin.Conn().RequestWithContext(ctx, subject, nil)
			return err == nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatAServiceNeedsIsEnoughAndEachLineIsNeeded(t *testing.T) {
	set, err := service.Config{Name: "sites", Inboxes: []string{"_INBOX"}}.Permissions()
	must(t, err)
	// Answers to other accounts, of which there are none here, are tried in package service.
	set.Publish = slices.DeleteFunc(set.Publish, func(line string) bool { return strings.HasPrefix(line, "_R_") })
	hold(t, set, job{inbox: "_INBOX", quiet: ".probe", prepare: makeSites, do: serveSites})
}

// TestAControllerWithAServiceMayWriteDocuments, and needs nothing else beside: to suspend them.
func TestAControllerWithAServiceMayWriteDocuments(t *testing.T) {
	var without, with entity.PermissionSet
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		own, _ := natstest.Connect(t, srv.URL())
		_, js := natstest.Connect(t, srv.URL())
		must(t, makeSites(t.Context(), js))
		s, err := service.New(service.Config{Conn: own})
		must(t, err)
		setOf := func(opts ...controller.Option) entity.PermissionSet {
			c, client, err := publisher(t.Context(), js, opts...)
			must(t, err)
			defer client.Close()
			set, err := c.Permissions(entity.WithInboxPrefix("_INBOX_me"))
			must(t, err)
			return set.PermissionSet
		}
		without, with = setOf(), setOf(s.Controller())
	})
	added := slices.DeleteFunc(slices.Clone(with.Publish), func(line string) bool {
		return slices.Contains(without.Publish, line)
	})
	if want := []string{"$KV.sites.>"}; !slices.Equal(added, want) || !slices.Equal(with.Subscribe, without.Subscribe) {
		t.Errorf("a service adds %q, want %q", added, want)
	}
}
