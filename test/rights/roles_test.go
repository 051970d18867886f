package rights

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type spec struct {
	Title string `json:"title,omitempty"`
}

type status struct {
	Ready bool `json:"ready,omitempty"`
}

type site = entity.Object[spec, status]

var sites = entity.Config{
	Kind: "Site", Bucket: "sites", Namespaced: true, Storage: jetstream.MemoryStorage,
}

func bound(cfg entity.Config) entity.Config {
	cfg.BindOnly = true
	return cfg
}

func newSite(name string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: name}}
}

// makeSites makes the buckets, and a site with a record.
func makeSites(ctx context.Context, admin jetstream.JetStream) error {
	client, err := entity.NewClient[*site](ctx, admin, sites)
	if err != nil {
		return err
	}
	defer client.Close()
	obj := newSite("home")
	if err := client.Create(ctx, obj); err != nil {
		return err
	}
	obj.Status.Ready = true
	return client.UpdateStatus(ctx, obj)
}

func TestEachSetIsEnoughAndEachLineIsNeeded(t *testing.T) {
	reader, err := entity.Permissions(sites, entity.RoleReader, entity.WithInboxPrefix("_INBOX_me"))
	must(t, err)
	const cleanUp = "$JS.API.CONSUMER.DELETE."
	for name, test := range map[string]struct {
		role entity.Role
		opts []entity.PermissionOption
		join []entity.PermissionSet
		job
	}{
		"bootstrap": {role: entity.RoleBootstrap, job: job{do: bootstrap}},
		"writer":    {role: entity.RoleWriter, job: job{prepare: makeSites, do: writePlainly("ns2")}},
		"writer of a namespace": {role: entity.RoleWriter, opts: inNS1,
			job: job{prepare: makeSites, do: writePlainly("ns1")}},
		"operator": {role: entity.RoleOperator, job: job{prepare: makeSites, do: operate}},
		"reader":   {role: entity.RoleReader, job: job{prepare: makeSites, do: read, quiet: cleanUp}},
		"reader who cleans up": {role: entity.RoleReader, opts: deleting,
			job: job{prepare: makeSites, do: readAndCleanUp}},
		"writer at the command line": {role: entity.RoleWriter, opts: typing,
			job: job{prepare: makeSites, do: typeWrites}},
		"reader at the command line": {role: entity.RoleReader, opts: typing,
			job: job{prepare: makeSites, do: typeReads(read)}},
		"operator at the command line": {role: entity.RoleOperator, opts: typing,
			job: job{prepare: makeSites, do: typeReads(operateAndRead)}},
		"writer with a client": {role: entity.RoleWriter, opts: inNS1, join: []entity.PermissionSet{reader},
			job: job{prepare: makeSites, do: writeAndRead, quiet: cleanUp}},
	} {
		t.Run(name, func(t *testing.T) {
			test.inbox = "_INBOX_me"
			opts := append([]entity.PermissionOption{entity.WithInboxPrefix(test.inbox)}, test.opts...)
			set, err := entity.Permissions(sites, test.role, opts...)
			must(t, err)
			hold(t, set.Join(test.join...), test.job)
		})
	}
}

var (
	inNS1    = []entity.PermissionOption{entity.InNamespace("ns1")}
	typing   = []entity.PermissionOption{entity.WithCommandLine()}
	deleting = []entity.PermissionOption{entity.WithConsumerDelete()}
)

func bootstrap(ctx context.Context, user, _ jetstream.JetStream) error {
	client, err := entity.NewClient[*site](ctx, user, sites)
	if err == nil {
		client.Close()
	}
	return err
}

// writePlainly puts a document, changes it by compare-and-set, and deletes it, without a client.
func writePlainly(namespace string) func(ctx context.Context, user, admin jetstream.JetStream) error {
	return func(ctx context.Context, user, _ jetstream.JetStream) error {
		subject := "$KV.sites." + namespace + ".new"
		ack, err := user.Publish(ctx, subject, []byte(`{}`))
		if err != nil {
			return err
		}
		_, err = user.Publish(ctx, subject, []byte(`{"spec":{"title":"x"}}`),
			jetstream.WithExpectLastSequencePerSubject(ack.Sequence))
		if err != nil {
			return err
		}
		_, err = user.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{"KV-Operation": {"DEL"}}})
		return err
	}
}

// operate reads what there is, releases the brake as nats kv put does, and suspends a site.
func operate(ctx context.Context, user, _ jetstream.JetStream) error {
	client, err := entity.NewClient[*site](ctx, user, bound(sites))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Get(ctx, "ns1/home"); err != nil {
		return err
	}
	if _, err := client.Record(ctx, "ns1/home"); err != nil {
		return err
	}
	kv, err := user.KeyValue(ctx, "sites-status")
	if err != nil {
		return err
	}
	if _, err := kv.PutString(ctx, "_nagi.release", "engagement 3"); err != nil {
		return err
	}
	if value, _, err := client.Records().GetReserved(ctx, "_nagi.release"); err != nil || len(value) == 0 {
		return fmt.Errorf("the release reads %q, %w", value, err)
	}
	return client.Patch(ctx, "ns1/home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`))
}

// typeWrites is what nats kv put and nats kv del do.
func typeWrites(ctx context.Context, user, _ jetstream.JetStream) error {
	kv, err := user.KeyValue(ctx, "sites")
	if err != nil {
		return err
	}
	if _, err := kv.PutString(ctx, "ns1.new", `{}`); err != nil {
		return err
	}
	return kv.Delete(ctx, "ns1.new")
}

// typeReads is what nats kv get and nats kv ls do, beside other things.
func typeReads(beside func(ctx context.Context, user, admin jetstream.JetStream) error) func(
	ctx context.Context, user, admin jetstream.JetStream) error {
	return func(ctx context.Context, user, admin jetstream.JetStream) error {
		for _, bucket := range []string{"sites", "sites-status"} {
			kv, err := user.KeyValue(ctx, bucket)
			if err != nil {
				return err
			}
			if _, err := kv.Get(ctx, "ns1.home"); err != nil {
				return err
			}
			if keys, err := kv.Keys(ctx); err != nil || len(keys) == 0 {
				return fmt.Errorf("the keys of %s: %q, %w", bucket, keys, err)
			}
		}
		return beside(ctx, user, admin)
	}
}

func operateAndRead(ctx context.Context, user, admin jetstream.JetStream) error {
	return errors.Join(operate(ctx, user, admin), read(ctx, user, admin))
}

func read(ctx context.Context, user, admin jetstream.JetStream) error {
	return readBucket(ctx, user, admin, sites)
}

// readBucket reads what makeSites has made, and what is put into the bucket of sites afterwards.
func readBucket(ctx context.Context, user, admin jetstream.JetStream, cfg entity.Config) error {
	client, err := entity.NewClient[*site](ctx, user, bound(cfg))
	if err != nil {
		return err
	}
	defer client.Close()
	if obj, err := client.Get(ctx, "ns1/home"); err != nil || !obj.Status.Ready {
		return fmt.Errorf("get: %v, %w", obj, err)
	}
	stop, err := client.Start()
	if err != nil {
		return err
	}
	defer stop()
	if err := await(ctx, "the caches are complete", func() bool {
		obj, err := client.Lister().Get("ns1/home")
		return err == nil && obj.Status.Ready
	}); err != nil {
		return err
	}
	if _, err := admin.Publish(ctx, "$KV.sites.ns1.more", []byte(`{}`)); err != nil {
		return err
	}
	if err := await(ctx, "the cache follows", func() bool {
		_, err := client.Lister().Get("ns1/more")
		return err == nil
	}); err != nil {
		return err
	}
	if _, err := client.Record(ctx, "ns1/home"); err != nil {
		return err
	}
	return errors.Join(client.Informer().Status().Err, client.Records().Informer().Status().Err)
}

// readAndCleanUp lists twice, and checks that the consumers for that are gone. It ignores nothing: a denied delete
// ends ctx.
func readAndCleanUp(ctx context.Context, user, admin jetstream.JetStream) error {
	if err := read(ctx, user, admin); err != nil {
		return err
	}
	for _, bucket := range []string{"sites", "sites-status"} {
		stream, err := admin.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return err
		}
		var left []string
		if err := await(ctx, "no consumer is left on "+bucket, func() bool {
			left = nil
			for name := range stream.ConsumerNames(ctx).Name() {
				left = append(left, name)
			}
			return len(left) == 0
		}); err != nil {
			return fmt.Errorf("%w: %s are left", err, strings.Join(left, ", "))
		}
	}
	return nil
}

func writeAndRead(ctx context.Context, user, admin jetstream.JetStream) error {
	if err := read(ctx, user, admin); err != nil {
		return err
	}
	client, err := entity.NewClient[*site](ctx, user, bound(sites))
	if err != nil {
		return err
	}
	defer client.Close()
	obj := newSite("own")
	if err := client.Create(ctx, obj); err != nil {
		return err
	}
	obj.Spec.Title = "x"
	if err := client.Update(ctx, obj); err != nil {
		return err
	}
	if err := client.Patch(ctx, "ns1/own", []byte(`{"spec":{"title":"y"}}`)); err != nil {
		return err
	}
	return client.Delete(ctx, "ns1/own")
}
