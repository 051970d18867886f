package recorder_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// A recorder for a controller of websites, which are NATS entities; what it recorded is then read back.
func Example() {
	server, err := natstest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}

	rec, err := recorder.New(recorder.Config{JetStream: js, Component: "website-controller"})
	if err != nil {
		log.Fatal(err)
	}
	rec.RegisterKind("Website", &Website{})

	site := website("shop", "frontend")
	for range 3 {
		rec.Eventf(site, corev1.EventTypeWarning, "DNSFailed", "no address for %s", "example.com")
	}
	rec.Event(site, corev1.EventTypeNormal, "Synced", "4 pages, 2 routes")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rec.Close(ctx); err != nil {
		log.Fatal(err)
	}
	events, err := rec.List(ctx, "Website", "shop/frontend")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events {
		fmt.Printf("%s %s ×%d: %s\n", e.Type, e.Reason, e.Count, e.Message)
	}
	// Output:
	// Warning DNSFailed ×3: no address for example.com
	// Normal Synced ×1: 4 pages, 2 routes
}

// The subjects to subscribe to, with any NATS client.
func ExampleSubject() {
	fmt.Println(recorder.Subject("", "", ""))
	fmt.Println(recorder.Subject("", "Website", ""))
	fmt.Println(recorder.Subject("", "Website", "shop/frontend"))
	// Output:
	// nagi.events.>
	// nagi.events.Website.>
	// nagi.events.Website.*.shop.frontend.*
}
