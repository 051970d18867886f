package cli

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/out"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

func TestGetListsInTheColumnsOfTheRegistry(t *testing.T) {
	inWorld(t, func(w *world) {
		w.prints(`
NAMESPACE   NAME   RECONCILED   PHASE       REVISION   AGE
shop        home   True         Synced      1          10s
shop        blog   False        Terminal    2          10s
shop        cart   False        Retrying    3          10s
lab         old    False        Suspended   4          10s
lab         new    False        Invalid     5          10s
`, "get", "websites")
		w.prints(`
NAME   RECONCILED   PHASE      REVISION   AGE   MESSAGE
home   True         Synced     1          10s   
blog   False        Terminal   2          10s   terminal error: no such domain
`, "get", "websites", "-n", "shop", "-l", "tier in (gold,tin)", "-o", "wide")
		w.prints(`
Website.example.com/shop/home
Website.example.com/lab/old
`, "get", "websites/shop/home", "websites/lab/old", "-o", "name")
	})
}

func TestGetShowsDocumentsWithStatusAndWithoutSecrets(t *testing.T) {
	inWorld(t, func(w *world) {
		const home = `
apiVersion: example.com/v1
kind: Website
metadata:
  labels:
    tier: gold
  name: home
  namespace: shop
  resourceVersion: "1"
spec:
  host: home.example
  pages: 2
  password: (secret)
status:
  url: https://home.example
`
		w.prints(home, "get", "websites", "shop/home", "-o", "yaml")
		list := "\napiVersion: v1\nkind: List\nitems:\n- " +
			strings.ReplaceAll(strings.TrimSpace(home), "\n", "\n  ") + "\n"
		w.prints(list, "get", "websites", "-l", "tier=gold", "-o", "yaml")
	})
}

func TestGetSaysWhichKeysAreNotThere(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.nagi("get", "websites", "shop/nosuch", "lab/old", "lab/none", "-o", "name")
		if r.code != CodeNotFound || r.out != "Website.example.com/lab/old\n" ||
			!strings.Contains(r.err, `"shop/nosuch"`) || !strings.Contains(r.err, `"lab/none"`) {
			t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
	})
}

func TestGetOfATemplateIsKubectls(t *testing.T) {
	inWorld(t, func(w *world) {
		w.prints("\nhome 1\nblog 2\ncart 3\n|\n", "get", "websites", "-n", "shop", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}|{"\n"}`)
		w.prints("\nhome", "get", "websites", "-n", "shop", "-o", `jsonpath={.items[?(@.spec.pages==2)].metadata.name}`)
		w.prints("\nhome.example", "get", "websites", "shop/home", "-o", `jsonpath=.spec.host`)
	})
}

func TestGetNotOKIsWhatStandsStill(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.nagi("get", "--not-ok")
		got := regexp.MustCompile(` +\d+s +\d+ +`).ReplaceAllString(r.out, " … ")
		const want = `KIND                  KEY         STATE       AGE   ATTEMPTS   MESSAGE
Website.example.com   lab/new     invalid … there is a JSON string at line 1, column 39, byte 38, where int is wanted
Website.example.com   lab/old     suspended … Its document asks not to be reconciled (annotation nagi/suspend).
Website.example.com   shop/blog   parked … terminal error: no such domain
Website.example.com   shop/cart   retry … the API of domains is away
`
		if r.code != CodeNotSo || got != want || r.err != "" {
			t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
		w.stopController()
		r = w.nagi("get", "--not-ok", "-n", "shop")
		if r.code != CodeNotSo || !strings.Contains(r.out, "shop/blog   Terminal") ||
			strings.Contains(r.out, "shop/home") || !strings.Contains(r.err, "told by its records") {
			t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
	})
}

// prints runs the tool, which is to print this, but for the line break that it begins with.
func (w *world) prints(want string, args ...string) {
	w.Helper()
	if got := w.ok(args...); got != want[1:] {
		w.Errorf("nagi %s prints\n%s\nwant\n%s", strings.Join(args, " "), got, want[1:])
	}
}

func TestGetWatchShowsWhatChangesUntilItIsInterrupted(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		var stdout, stderr bytes.Buffer
		env := Env{Streams: out.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr},
			Options: []nats.Option{natstest.Dialer()}}
		code := make(chan int)
		go func() { code <- Run(ctx, env, []string{"--server", w.srv.URL(), "get", "websites", "-w", "-n", "lab"}) }()
		time.Sleep(time.Second)
		w.put("websites", "lab.fresh", `{"spec":{"host":"fresh.example"}}`)
		time.Sleep(time.Second)
		kv, err := w.js.KeyValue(w.Context(), "websites")
		w.must(err)
		w.must(kv.Delete(w.Context(), "lab.fresh"))
		time.Sleep(time.Second)
		cancel()
		if got := <-code; got != 0 || stderr.String() != "" {
			t.Errorf("exit code %d\n%s", got, stderr.String())
		}
		w.has(stdout.String(), "EVENT       NAME   RECONCILED   PHASE       REVISION   AGE\n",
			"\nwritten     fresh  ", "\nrecorded    fresh   True         Synced ", "\ndeleted     fresh  ", "\ntorn down   fresh  ")
	})
}
