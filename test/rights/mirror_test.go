package rights

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
)

// makeMirrors makes the buckets, a site, and mirrors of both, which have it.
func makeMirrors(ctx context.Context, admin jetstream.JetStream) error {
	if err := makeSites(ctx, admin); err != nil {
		return err
	}
	for mirror, origin := range map[string]string{"edge": "sites", "edge-status": "sites-status"} {
		stream, err := admin.CreateStream(ctx, jetstream.StreamConfig{
			Name: "KV_" + mirror, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
			Mirror: &jetstream.StreamSource{Name: "KV_" + origin},
		})
		if err != nil {
			return err
		}
		if err := await(ctx, mirror+" has it", func() bool {
			info, err := stream.Info(ctx)
			return err == nil && info.State.Msgs > 0
		}); err != nil {
			return err
		}
	}
	return nil
}

// TestAReaderOfAMirrorNeedsTheSubjectsOfTheOrigin: in its consumers.
func TestAReaderOfAMirrorNeedsTheSubjectsOfTheOrigin(t *testing.T) {
	edge := sites
	edge.Bucket = "edge"
	set, err := entity.Permissions(edge, entity.RoleReader, entity.WithInboxPrefix("_INBOX_me"),
		entity.MirrorOf("edge", "sites"), entity.MirrorOf("edge-status", "sites-status"))
	must(t, err)
	hold(t, set, job{
		inbox: "_INBOX_me", prepare: makeMirrors, quiet: "$JS.API.CONSUMER.DELETE.",
		do: func(ctx context.Context, user, admin jetstream.JetStream) error {
			return readBucket(ctx, user, admin, edge)
		},
	})
}

// TestWhoWritesIsNotGrantedAMirror: it takes no writes.
func TestWhoWritesIsNotGrantedAMirror(t *testing.T) {
	for name, test := range map[string]struct {
		role   entity.Role
		mirror entity.PermissionOption
	}{
		"a writer":                          {entity.RoleWriter, entity.MirrorOf("sites", "origin")},
		"a controller with mirrored status": {entity.RoleController, entity.MirrorOf("sites-status", "origin-status")},
		"an operator with mirrored status":  {entity.RoleOperator, entity.MirrorOf("sites-status", "origin-status")},
		"a bucket of wildcards":             {entity.RoleReader, entity.MirrorOf("sites", "*")},
	} {
		if set, err := entity.Permissions(sites, test.role, test.mirror); err == nil {
			t.Errorf("%s: granted %v", name, set)
		}
	}
	set, err := entity.Permissions(sites, entity.RoleOperator, entity.MirrorOf("sites", "origin"))
	must(t, err)
	for _, line := range set.Publish {
		if line == "$KV.sites.>" || line == "$KV.origin.>" {
			t.Errorf("an operator of a mirror may write %s", line)
		}
	}
}
