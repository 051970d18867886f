package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	server "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// vanishing is how many documents vanish in a world whose brake engages.
const vanishing = 12

// inBrakedWorld runs a test in a world whose brake holds the deletes of many websites, which vanished while no
// controller ran. Each owns a page.
func inBrakedWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites(vanishing)
		w.stopController()
		stream, err := w.js.Stream(w.Context(), "KV_websites")
		w.must(err)
		w.must(stream.Purge(w.Context()))
		w.startController()
		w.settle()
		test(w)
	})
}

// sites puts websites shop/s000 and so on, and waits until they have their pages.
func (w *world) sites(n int) {
	w.Helper()
	for i := range n {
		w.put("websites", fmt.Sprintf("shop.s%03d", i), `{"spec":{"host":"s.example","pages":1}}`)
	}
	w.settle()
	if got := w.pagesThere(); got != n {
		w.Fatalf("%d pages are there, want %d", got, n)
	}
}

func (w *world) settle() {
	time.Sleep(15 * time.Second)
	synctest.Wait()
}

// pagesThere is how many pages there are.
func (w *world) pagesThere() int { return w.keysIn("pages") }

func (w *world) keysIn(bucket string) int {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), bucket)
	w.must(err)
	keys, err := kv.ListKeys(w.Context())
	w.must(err)
	n := 0
	for range keys.Keys() {
		n++
	}
	return n
}

// vanishedNotes has a second kind and controller, "notes", whose documents vanished while it did not run.
func (w *world) vanishedNotes() {
	w.Helper()
	start := func() (stop func()) {
		nc, js := natstest.Connect(w.T, w.srv.URL())
		notes, err := entity.NewClient[*page](w.Context(), js, entity.Config{
			Kind: "Note", Bucket: "notes", Storage: jetstream.MemoryStorage,
		})
		w.must(err)
		own, _ := natstest.Connect(w.T, w.srv.URL())
		svc, err := service.New(service.Config{Conn: own})
		w.must(err)
		c, err := controller.New("notes", notes, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
			svc.Controller(), registry.Publish(registry.Options{}))
		w.must(err)
		stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
		return func() {
			stopController()
			stopService()
			notes.Close()
			own.Close()
			nc.Close()
		}
	}
	stop := start()
	w.settle()
	for i := range vanishing {
		w.put("notes", fmt.Sprintf("s%03d", i), `{"spec":{"title":"a note"}}`)
	}
	w.settle()
	stop()
	stream, err := w.js.Stream(w.Context(), "KV_notes")
	w.must(err)
	w.must(stream.Purge(w.Context()))
	stop = start()
	w.Cleanup(stop)
	w.settle()
}

// secondController runs a controller "audits" for the same documents, with a status bucket of its own.
func (w *world) secondController() {
	w.Helper()
	nc, js := natstest.Connect(w.T, w.srv.URL())
	cfg := w.websites.Config()
	cfg.StatusBucket = "audits-status"
	client, err := entity.NewClient[*website](w.Context(), js, cfg)
	w.must(err)
	own, _ := natstest.Connect(w.T, w.srv.URL())
	svc, err := service.New(service.Config{Conn: own})
	w.must(err)
	c, err := controller.New("audits", client, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
		svc.Controller(), registry.Publish(registry.Options{}))
	w.must(err)
	stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
	w.Cleanup(func() {
		stopController()
		stopService()
		client.Close()
		own.Close()
		nc.Close()
	})
	// It waits as long as a lease lasts: its status bucket is younger than the documents, which another one watches.
	natstest.Eventually(w.T, "it leads", func() bool { return c.Stats().Leading })
	w.settle()
}

// inOrphanedWorld runs a test in a world with pages of websites that never were: three of shop/young, one of
// shop/other.
func inOrphanedWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		instance := w.value("websites-status", "_nagi.instance")
		w.stopController()
		kv, err := w.js.KeyValue(w.Context(), "pages")
		w.must(err)
		for i, owner := range []string{"young", "young", "young", "other"} {
			p := &page{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("left-%d", i)}}
			entity.SetOwner(p, "Website", "shop/"+owner, instance)
			document, err := w.pages.DocumentOf(p)
			w.must(err)
			_, err = kv.Put(w.Context(), fmt.Sprintf("shop.left-%d", i), document)
			w.must(err)
		}
		w.startController()
		w.settle()
		test(w)
	})
}

// typing runs the tool for somebody at a terminal, who types.
func (w *world) typing(typed string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(typed), Out: &stdout, Err: &stderr, Interactive: true},
		Options: []nats.Option{natstest.Dialer()},
	}
	code := Run(w.Context(), env, append([]string{"--server", w.srv.URL()}, args...))
	return ran{stdout.String(), stderr.String(), code}
}

// during runs the tool until a context ends.
func (w *world) during(ctx context.Context, stdin string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr},
		Options: []nats.Option{natstest.Dialer()},
	}
	code := Run(ctx, env, append([]string{"--server", w.srv.URL()}, args...))
	return ran{stdout.String(), stderr.String(), code}
}

// runs runs the tool, and wants an exit code and texts on its outputs.
func (w *world) runs(code int, args []string, says ...string) string {
	w.Helper()
	return w.wants(w.nagi(args...), code, args, says...)
}

func (w *world) wants(r ran, code int, args []string, says ...string) string {
	w.Helper()
	if r.code != code {
		w.Errorf("nagi %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	for _, say := range says {
		if !strings.Contains(r.out+r.err, say) {
			w.Errorf("nagi %s does not say %q:\n%s%s", strings.Join(args, " "), say, r.out, r.err)
		}
	}
	return r.out
}

// inWorldWithUsers is inWorld with users on the server, each confined to a set; who does not say who he is may do all.
func inWorldWithUsers(t *testing.T, sets map[string]entity.PermissionSet, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "all", Password: "all"}}
			o.NoAuthUser = "all"
			for name, set := range sets {
				o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: set.Publish},
					Subscribe: &server.SubjectPermission{Allow: set.Subscribe},
				}})
			}
		}))
		w.everyday()
		test(w)
	})
}

// as are the flags of a user, whose inbox prefix is that of an operator: the service answers nowhere else.
func as(user string, args ...string) []string {
	return append([]string{"--user", user, "--password", user, "--inbox-prefix", "_INBOX_operator"}, args...)
}
