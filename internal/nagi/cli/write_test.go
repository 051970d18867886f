package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAWriteBetweenReadAndWriteIsNotLost(t *testing.T) {
	inWorld(t, func(w *world) {
		s, k := w.session()
		c, err := s.writer(w.Context(), k)
		w.must(err)
		a, writes := target{k, "shop/home"}, 0
		_, _, err = s.change(w.Context(), c, a, func(now *current) (map[string]any, error) {
			if writes++; writes <= 2 {
				w.put("websites", "shop.home", `{"spec":{"host":"other.example","pages":1}}`)
			}
			return threeway.Patch(now.object, map[string]any{"spec": map[string]any{"theme": "dark"}}), nil
		})
		w.must(err)
		w.same(w.value("websites", "shop.home"), `{"spec":{"host":"other.example","pages":1,"theme":"dark"}}`)
		_, _, err = s.change(w.Context(), c, a, func(now *current) (map[string]any, error) {
			w.put("websites", "shop.home", `{"spec":{"host":"other.example","pages":1}}`)
			return threeway.Patch(now.object, map[string]any{"spec": map[string]any{"theme": "light"}}), nil
		})
		if code := codeOf(w.Context(), err); code != CodeRefused || !strings.Contains(err.Error(), "try again") {
			t.Errorf("%d: %v", code, err)
		}
		d := doomed{a, 1, nil}
		if err := s.remove(w.Context(), d); codeOf(w.Context(), err) != CodeRefused {
			t.Error(err)
		}
	})
}

func TestALostAcknowledgementIsSettled(t *testing.T) {
	inWorld(t, func(w *world) {
		proxy := natstest.StartProxy(w.T, w.srv.URL())
		lost := false
		proxy.Tamper(natstest.Nth(1, func(m *natstest.Message) bool {
			is := natstest.AnswersTo("$KV.websites.>")(m)
			lost = lost || is
			return is
		}, natstest.Fate{Lost: true}))
		r := w.at(w.Context(), proxy.URL(), homeFile+"spec: {theme: dark}\n", "--timeout", "20s", "apply", "-f", "-")
		if r.code != 0 || r.out != "Website.example.com/shop/home configured\n" || !lost {
			t.Error(r, lost)
		}
		if !strings.Contains(w.value("websites", "shop.home"), `"theme":"dark"`) {
			t.Error("it is not there")
		}
	})
}

// The write may have arrived though its answer did not: it is looked, and said which it is.
func TestALostAnswerIsNotTakenForAnothersWrite(t *testing.T) {
	const created = "kind: Website\nmetadata: {name: fresh, namespace: shop}\nspec: {host: f.example}\n"
	for _, c := range []struct {
		args  []string
		stdin string
		says  string
	}{
		{[]string{"create", "-f", "-"}, created, "Website.example.com/shop/fresh created\n"},
		{[]string{"apply", "-f", "-"}, created, "Website.example.com/shop/fresh created\n"},
		{[]string{"patch", "websites/shop/home", "-p", "spec: {theme: dark}"}, "", "Website.example.com/shop/home changed\n"},
		{[]string{"delete", "websites/shop/cart"}, "", "Website.example.com/shop/cart deleted\n"},
	} {
		for _, timeout := range []string{"2s", "5s", "20s"} {
			inWorld(t, func(w *world) {
				proxy := natstest.StartProxy(w.T, w.srv.URL())
				proxy.Tamper(natstest.Nth(1, natstest.AnswersTo("$KV.websites.>"), natstest.Fate{Lost: true}))
				r := w.at(w.Context(), proxy.URL(), c.stdin, append(c.args, "--timeout", timeout)...)
				if r.code != 0 || r.out != c.says {
					t.Errorf("%v with %s: %+v", c.args, timeout, r)
				}
			})
			inWorld(t, func(w *world) {
				proxy := natstest.StartProxy(w.T, w.srv.URL())
				sent := false
				proxy.Tamper(func(m *natstest.Message) natstest.Fate { // nothing is answered once it is written
					sent = sent || natstest.AnswersTo("$KV.websites.>")(m)
					return natstest.Fate{Lost: sent}
				})
				r := w.at(w.Context(), proxy.URL(), c.stdin, append(c.args, "--timeout", timeout)...)
				if r.code != CodeUnreachable || !strings.Contains(r.err, "is not known") || !strings.Contains(r.err, "nagi get Website") {
					t.Errorf("%v with %s, and nothing is answered: %+v", c.args, timeout, r)
				}
			})
		}
	}
}

func TestAFullBucketRefusesAndSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
			Bucket: "small", Storage: jetstream.MemoryStorage, MaxBytes: 2000,
		})
		w.must(err)
		file := `{"metadata":{"name":"a"},"spec":{"x":"` + strings.Repeat("x", 1200) + `"}}` + "\n" +
			`{"metadata":{"name":"b"},"spec":{"x":"` + strings.Repeat("x", 1200) + `"}}`
		r := w.with(file, 1, "apply", "-f", "-", "-b", "small")
		if r.out != "small/a created\n" || !strings.Contains(r.err, "small/b: ") || !strings.Contains(r.err, "1 of 2 documents failed") {
			t.Error(r)
		}
	})
}

func TestWhoMayOnlyReadIsToldSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := entity.Config{Kind: "things", Bucket: "things", StatusBucket: entity.NoStatusBucket}
		set, err := entity.Permissions(cfg, entity.RoleReader, entity.WithInboxPrefix("_INBOX_me"))
		if err != nil {
			t.Fatal(err)
		}
		srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "user", Password: "x",
				Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: set.Publish},
					Subscribe: &server.SubjectPermission{Allow: set.Subscribe},
				}}}
		}))
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "things", Storage: jetstream.MemoryStorage})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "a", []byte(`{"spec":{"x":1}}`)); err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, srv: srv, js: js}
		plain := []string{"--user", "user", "--password", "x", "--inbox-prefix", "_INBOX_me", "-b", "things", "--status-bucket", "-"}
		for code, args := range map[int][]string{
			0: {"apply", "-f", "-", "--dry-run"}, 6: {"apply", "-f", "-"},
		} {
			r := w.with(`{"metadata":{"name":"a"},"spec":{"x":2}}`, code, append(args, plain...)...)
			if code == 6 && !strings.Contains(r.err, "$KV.things.a") {
				t.Error(r.err)
			}
		}
		w.with("", 6, append([]string{"delete", "a"}, plain...)...)
		w.with("", 0, append([]string{"wait", "a", "--for", "jsonpath={.spec.x}=1"}, plain...)...)
		w.same(w.value("things", "a"), `{"spec":{"x":1}}`)
	})
}

func TestCtrlCBetweenDocumentsLeavesNothingHalfDone(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		var file strings.Builder
		for _, name := range []string{"a", "b", "c"} {
			file.WriteString("---" + strings.ReplaceAll(homeFile, "home", name))
		}
		var stdout, stderr bytes.Buffer
		env := Env{
			Streams: out.Streams{In: strings.NewReader(file.String()), Out: &interrupts{&stdout, cancel}, Err: &stderr},
			Options: []nats.Option{natstest.Dialer()},
		}
		code := Run(ctx, env, []string{"--server", w.srv.URL(), "apply", "-f", "-"})
		if code != 1 || stdout.String() != "Website.example.com/shop/a created\n" ||
			!strings.Contains(stderr.String(), "1 of 3 documents are done") {
			t.Error(code, stdout.String(), stderr.String())
		}
		if w.value("websites", "shop.a") == "" || w.value("websites", "shop.b") != "" {
			t.Error("what is said is not what is there")
		}
	})
}

// interrupts is an output after which somebody presses Ctrl-C.
type interrupts struct {
	*bytes.Buffer
	cancel func()
}

func (i *interrupts) Write(p []byte) (int, error) {
	i.cancel()
	return i.Buffer.Write(p)
}

// session is one of a tool that is connected, and the kind Website.
func (w *world) session() (*session, *kinds.Kind) {
	w.Helper()
	tool := &tool{Env: Env{Options: []nats.Option{natstest.Dialer()}}}
	tool.flags.Server, tool.flags.Timeout, tool.flags.Options = w.srv.URL(), 5*time.Second, tool.Options
	s, err := tool.connect()
	w.must(err)
	w.Cleanup(tool.close)
	k, err := s.kind(w.Context(), "websites")
	w.must(err)
	return s, k
}

// at runs the tool against a server.
func (w *world) at(ctx context.Context, url, stdin string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr},
		Options: []nats.Option{natstest.Dialer()},
	}
	code := Run(ctx, env, append([]string{"--server", url}, args...))
	return ran{stdout.String(), stderr.String(), code}
}
