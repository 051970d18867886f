package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// follows runs the tool, calls meanwhile after a moment, and interrupts the tool after some time.
func (w *world) follows(terminal bool, d time.Duration, meanwhile func(), args ...string) ran {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Terminal: terminal, Columns: 120},
		Options: []nats.Option{natstest.Dialer()},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(d / 2)
		if meanwhile != nil {
			meanwhile()
		}
	}()
	code := Run(ctx, env, append([]string{"--server", w.srv.URL()}, args...))
	<-done
	return ran{stdout.String(), stderr.String(), code}
}

func (w *world) wantIn(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("there is no %q in\n%s", part, text)
		}
	}
}

func TestWhySaysOfAKeyWhatHelps(t *testing.T) {
	inWorld(t, func(w *world) {
		for key, parts := range map[string][]string{
			"shop/blog": {"parked", "no such domain", "nagi unpark Website.example.com/shop/blog", "nagi edit ", "last error"},
			"shop/cart": {"retry", "the API of domains is away", "attempts", "due ", "in ", "nagi reconcile Website.example.com/shop/cart"},
			"lab/old":   {"suspended", "nagi resume Website.example.com/lab/old"},
			"lab/new":   {"invalid", "spec.pages", "nagi edit Website.example.com/lab/new"},
			"shop/home": {"calm", "reconciled", "revision"},
		} {
			w.wantIn(w.ok("why", "websites/"+key), parts...)
		}
		said := w.ok("why", "websites/shop/blog")
		if strings.Index(said, "nagi describe") > strings.Index(said, "nagi unpark") {
			t.Errorf("what is safe does not come first:\n%s", said)
		}
		var answer whyAnswer
		w.must(json.Unmarshal([]byte(w.ok("why", "websites", "blog", "-n", "shop", "-o", "json")), &answer))
		if len(answer.Says) != 1 || answer.Says[0].State != controller.StateParked || answer.Key != "shop/blog" {
			t.Errorf("as JSON: %+v", answer)
		}
		if r := w.nagi("why", "websites/shop/none"); r.code != CodeNotFound || !strings.Contains(r.err, "nagi get") {
			t.Errorf("a key that is not there: %+v", r)
		}
	})
}

func TestWhyOfABucketThatTheRegistryDoesNotHave(t *testing.T) {
	inWorld(t, func(w *world) {
		kv, err := w.js.KeyValue(w.Context(), registry.Bucket)
		w.must(err)
		w.must(kv.Delete(w.Context(), "Website.example.com"))
		said := w.ok("why", "--bucket", "websites", "--namespaced", "--controller", "websites", "shop/blog")
		w.wantIn(said, "parked", "nagi unpark --bucket=websites --namespaced --controller=websites shop/blog")
		r := w.nagi("why", "--bucket", "websites", "--namespaced", "shop/blog")
		if r.code != CodeUsage || !strings.Contains(r.err, "--controller") {
			t.Errorf("without a controller: %+v", r)
		}
	})
}

func TestWhyWithoutAControllerTellsTheRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		r := w.nagi("why", "websites/shop/blog")
		w.wantIn(r.out, "No controller answers", "Terminal", "no such domain", "nagi doctor Website.example.com")
		if r.code != CodeUnreachable || !strings.Contains(r.err, `controller "websites"`) {
			t.Errorf("it ends with %+v", r)
		}
		if r := w.nagi("why"); r.code != CodeUnreachable || !strings.Contains(r.err, `controller "websites"`) {
			t.Errorf("why alone: %+v", r)
		}
	})
}

func TestWhyFollowsAKey(t *testing.T) {
	inWorld(t, func(w *world) {
		mend := func() { w.put("websites", "shop.blog", `{"spec":{"host":"good.example"}}`) }
		r := w.follows(false, 10*time.Second, mend, "why", "-w", "websites/shop/blog")
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if r.code != 0 || len(lines) != 2 || strings.Contains(r.out, "\x1b") {
			t.Errorf("code %d, %q%s", r.code, lines, r.err)
		}
		w.wantIn(lines[0], "parked")
		w.wantIn(lines[len(lines)-1], "calm")
		r = w.follows(true, 10*time.Second, nil, "why", "-w", "websites/shop/cart")
		if n := strings.Count(r.out, "\x1b[H"); r.code != 0 || n < 9 {
			t.Errorf("code %d, drawn %d times%s", r.code, n, r.err)
		}
		w.wantIn(r.out, "retry", "due")
	})
}

func TestWhyGroupsAllKeysByMessage(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 20 {
			w.put("websites", fmt.Sprintf("shop.cart-%d", i), `{"spec":{"host":"slow.example"}}`)
		}
		time.Sleep(5 * time.Second)
		var all allWaiting
		w.must(json.Unmarshal([]byte(w.ok("why", "-o", "json")), &all))
		counts := map[controller.KeyState]int{}
		for _, g := range all.Groups {
			counts[g.State] += g.Count
			if g.State == controller.StateRetry && (g.Count != 21 || g.Example != "shop/cart") {
				t.Errorf("the group is %+v", g)
			}
		}
		if len(all.Groups) != 4 || counts[controller.StateParked] != 1 || counts[controller.StateSuspended] != 1 {
			t.Errorf("the groups are %v", counts)
		}
		r := w.nagi("why", "websites", "--most", "2")
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if r.code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[1], "21 ") {
			t.Errorf("%+v", r)
		}
		w.wantIn(r.err, "2 more groups")
		w.wantIn(r.out, "Website.example.com/shop/cart", "the API of domains is away")
	})
}

func TestAMessageIsTheSameCauseWhateverTheKey(t *testing.T) {
	for _, pair := range [][2]keyMessage{
		{{"dial 10.0.0.7:443: refused", "a"}, {"dial 10.0.1.12:443: refused", "b"}},
		{{"shop/home: no disk", "shop/home"}, {"shop/cart: no disk", "shop/cart"}},
		{{"at 2026-11-28T07:18:38Z it failed", "a"}, {"at 2026-11-28T09:01:02.5Z it failed", "b"}},
	} {
		if a, b := gist(pair[0].message, pair[0].key), gist(pair[1].message, pair[1].key); a != b {
			t.Errorf("%q and %q", a, b)
		}
	}
	if a, b := gist("no disk", "a"), gist("no network", "a"); a == b {
		t.Errorf("%q and %q are one", a, b)
	}
}

type keyMessage struct{ message, key string }
