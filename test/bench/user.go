package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// user writes primaries and waits for their status, in a bucket or a namespace.
type user interface {
	// write creates or updates a primary, and returns when it is stored.
	write(ctx context.Context, name string, i int) error
	// watch calls ready, from one goroutine, with the name of each primary whose status says that it is ready.
	watch(ctx context.Context, ready func(name string)) (stop func(), err error)
}

// writers is how many requests a user has under way at once.
const writers = 32

// writeAll writes n primaries named prefix-0 and so on.
func writeAll(ctx context.Context, u user, prefix string, n int) error {
	var next atomic.Int64
	return inParallel(writers, func() error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := u.write(ctx, fmt.Sprint(prefix, "-", i), i); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParallel calls f in n goroutines and returns one of their errors.
func inParallel(n int, f func() error) error {
	var all sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		all.Go(func() {
			if err := f(); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// natsUser puts documents into a bucket, as any program would, and watches the records.
type natsUser struct {
	js        jetstream.JetStream
	bucket    string
	namespace string // with a dot at its end; "" in a bucket without namespaces
	traced    bool   // its writes carry a traceparent
}

func (u *natsUser) write(ctx context.Context, name string, i int) error {
	data, err := json.Marshal(newWebsite(name, i, time.Now().UnixNano()))
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: "$KV." + u.bucket + "." + u.namespace + name, Data: data}
	if u.traced {
		m.Header = nats.Header{"traceparent": {fmt.Sprintf("00-%016x%016x-%016x-00", rand.Uint64(), rand.Uint64(), 1)}}
	}
	_, err = u.js.PublishMsg(ctx, m)
	return err
}

// fill puts n documents at the server's full speed.
func (u *natsUser) fill(ctx context.Context, prefix string, n int) error {
	return publishAll(ctx, u.js, n, func(i int) (string, any) {
		name := fmt.Sprint(prefix, "-", i)
		return "$KV." + u.bucket + "." + name, newWebsite(name, i, 0)
	})
}

// publishAll publishes n objects as JSON without waiting for each, and returns when all are stored.
func publishAll(
	ctx context.Context, js jetstream.JetStream, n int, object func(i int) (subject string, obj any),
) error {
	for i := range n {
		subject, obj := object(i)
		data, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: data},
			jetstream.WithStallWait(time.Minute)); err != nil {
			return fmt.Errorf("publish to %s: %w", subject, err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *natsUser) watch(ctx context.Context, ready func(string)) (func(), error) {
	prefix := "$KV." + u.bucket + "-status."
	consumer, err := u.js.OrderedConsumer(ctx, "KV_"+u.bucket+"-status", jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy, FilterSubjects: []string{prefix + ">"},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the records: %w", err)
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		var record struct{ Status v1.WebsiteStatus }
		if json.Unmarshal(m.Data(), &record) == nil && record.Status.Ready { // reserved keys are no records
			ready(m.Subject()[len(prefix)+len(u.namespace):])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch the records: %w", err)
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
	}, nil
}

// kubeUser creates custom resources in a namespace, and watches them. It remembers the versions of its writes, so that
// an update is one request.
type kubeUser struct {
	client    client.WithWatch
	namespace string
	written   sync.Map // name to *v1.Website
}

func (u *kubeUser) write(ctx context.Context, name string, i int) error {
	site := newWebsite(name, i, time.Now().UnixNano())
	site.Namespace = u.namespace
	var err error
	if before, ok := u.written.Load(name); ok {
		site.ResourceVersion = before.(*v1.Website).ResourceVersion
		err = u.client.Update(ctx, site)
	} else {
		err = u.client.Create(ctx, site)
	}
	u.written.Store(name, site)
	return err
}

// watch goes on at once from where it was when the API server closes it, as the server may do with a slow watch.
func (u *kubeUser) watch(ctx context.Context, ready func(string)) (func(), error) {
	sites := &v1.WebsiteList{}
	if err := u.client.List(ctx, sites, client.InNamespace(u.namespace)); err != nil {
		return nil, fmt.Errorf("list websites: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for version := sites.ResourceVersion; ctx.Err() == nil; {
			version = u.watchFrom(ctx, version, ready)
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

// watchFrom watches until the watch is closed, and returns the version of the last event.
func (u *kubeUser) watchFrom(ctx context.Context, version string, ready func(string)) string {
	watching, err := u.client.Watch(ctx, &v1.WebsiteList{}, client.InNamespace(u.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return version
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		site, ok := event.Object.(*v1.Website)
		if !ok {
			break // an error
		}
		version = site.ResourceVersion
		if site.Status.Ready {
			ready(site.Name)
		}
	}
	return version
}
