package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func connected(t *testing.T) (*natstest.Server, jetstream.JetStream) {
	t.Helper()
	server := natstest.Start(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return server, js
}

func TestOnAServerOfTheUsersItsStreamsAreLeftAlone(t *testing.T) {
	server, js := connected(t)
	for name, subject := range map[string]string{"audit": "audit.>", "orders": "orders.>", theirsName: "company.>"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{subject},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), strings.Replace(subject, ">", "one", 1), []byte("precious")); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, server.URL()); err == nil || !strings.Contains(err.Error(), theirsName) {
		t.Errorf("run: %v; want that it does not clean up a stream that it has not made\n%s", err, out.String())
	}
	for _, name := range []string{"audit", "orders", theirsName} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil || stream.CachedInfo().State.Msgs != 1 {
			t.Errorf("the user's stream %s is gone or empty: %v", name, err)
		}
	}
}

func TestAStreamThatHasChangedSinceTheListIsNotDeleted(t *testing.T) {
	_, js := connected(t)
	owner := external.Owner{Kind: "Stream", Key: "s", Instance: "i"}
	config := jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}, Metadata: marked(nil, owner)}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	client := streamClient{streamDriver{js}}
	listed, err := client.List(external.WithOwner(t.Context(), owner))
	if err != nil || len(listed) != 1 {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	config.Metadata = nil // somebody has taken it over
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteSeen(t.Context(), listed[0]); err == nil {
		t.Error("deleted though it is somebody else's by now")
	}
	if _, err := js.Stream(t.Context(), "s"); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}
