package natstest_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestTamperSwallowsAndChangesWhatTheServerSends(t *testing.T) {
	srv := natstest.Start(t)
	var seen []string // by the connection's reader only, until the last message is here
	client, _ := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
		if m.Subject != "in" {
			return true
		}
		seen = append(seen, fmt.Sprintf("%s %s %s %d", m.Reply, m.Header.Get("Who"), m.Data[:1], len(m.Data)))
		if string(m.Data) == "change" {
			m.Data = []byte("changed it")
		}
		return string(m.Data) != "swallow"
	}))
	sub, err := client.SubscribeSync("in")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Flush(); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("l"), 200_000) // more than any buffer on the way
	server, _ := natstest.Connect(t, srv.URL())
	for _, m := range []*nats.Msg{
		{Data: []byte("swallow")},
		{Data: []byte("change"), Reply: "back"},
		{Data: large, Header: nats.Header{"Who": {"me"}}},
		{Data: []byte("change"), Reply: "back", Header: nats.Header{"Who": {"you"}}},
		{Data: []byte("swallow"), Header: nats.Header{"Who": {"you"}}},
		{Data: []byte("end")},
	} {
		m.Subject = "in"
		if err := server.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []*nats.Msg{
		{Data: []byte("changed it"), Reply: "back"},
		{Data: large, Header: nats.Header{"Who": {"me"}}},
		{Data: []byte("changed it"), Reply: "back", Header: nats.Header{"Who": {"you"}}},
		{Data: []byte("end")},
	} {
		got, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, want.Data) || got.Reply != want.Reply ||
			got.Header.Get("Who") != want.Header.Get("Who") {
			t.Errorf("got %q %v %.20q, want %q %v %.20q",
				got.Reply, got.Header, got.Data, want.Reply, want.Header, want.Data)
		}
	}
	shown := []string{"  s 7", "back  c 6", " me l 200000", "back you c 6", " you s 7", "  e 3"}
	if !slices.Equal(seen, shown) {
		t.Errorf("it was shown %q, want %q", seen, shown)
	}
}
