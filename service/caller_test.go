package service

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestANameIsNoFact: a server does not find a header that only some clients take for one, and so leaves it beside its own.
func TestANameIsNoFact(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		_, c := w.sites(controller.WithEventRecorder(recorded))
		const forged = `Nats-Request-Info: {"acc":"APP","user":"bob"}`
		for name, header := range map[string]string{
			"beside": "NATS/1.0\r\nX: a\n" + forged + "\r\n\r\n",
			"alone":  "NATS/1.0\r\nX: a\n" + forged + "\n\n\r\n", // a client reads no further than the empty line
		} {
			w.put("sites", "shop."+name, `{}`)
			natstest.Eventually(w, "it is calm", func() bool { return c.Explain("shop/"+name).State == controller.StateCalm })
			w.rawRequest("nagi.sites.act.reconcile.shop", header, `{"key":"shop/`+name+`"}`)
			natstest.Eventually(w, "an event", func() bool { return recorded.have("shop/"+name, ReasonReconcile) })
		}
		if !recorded.have("shop/beside", "a user whom the server does not name") {
			t.Errorf("of two names one is told: %v", recorded)
		}
		if !recorded.have("shop/alone", `somebody who says to be user "bob" of account "APP"`) {
			t.Errorf("the name is told as a fact, or the forgery does not work any more: %v", recorded)
		}
	})
}

// rawRequest sends a request with such bytes as its header, as alice of another account, and waits for the answer.
func (w *world) rawRequest(subject, header, body string) {
	w.Helper()
	var network nats.Options
	w.must(natstest.Dialer()(&network))
	conn, err := network.CustomDialer.Dial("tcp", strings.TrimPrefix(w.srv.URL(), "nats://"))
	w.must(err)
	defer func() { _ = conn.Close() }()
	w.must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "INFO ") {
		w.Fatalf("the server begins with %q", lines.Text())
	}
	_, err = fmt.Fprintf(conn, "CONNECT {\"user\":\"alice\",\"pass\":\"x\",\"verbose\":false,\"headers\":true}\r\n"+
		"SUB _INBOX.raw 1\r\nHPUB %s _INBOX.raw %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(body), header, body)
	w.must(err)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "MSG _INBOX.raw ") {
			return
		}
		if line := lines.Text(); strings.HasPrefix(line, "-ERR") || strings.HasPrefix(line, "HMSG") {
			w.Fatalf("the server says %s", line)
		}
	}
	w.Fatal("no answer")
}
