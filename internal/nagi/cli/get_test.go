package cli

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
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
		w.same(w.ok("get", "websites", "-A"), w.ok("get", "websites"))
		w.runs(CodeUsage, []string{"get", "websites", "-A", "-n", "shop"}, "give one of them")
		w.prints(`
NAME   RECONCILED   PHASE      REVISION   AGE   MESSAGE                          EXPIRES
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

// TestGetNotOKHasTheOldestFirst, whatever it is called.
func TestGetNotOKHasTheOldestFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.z", `{"spec":{"host":"bad.example"}}`)
		time.Sleep(time.Minute)
		w.put("websites", "shop.a", `{"spec":{"host":"bad.example"}}`)
		time.Sleep(5 * time.Second)
		for _, stopped := range []bool{false, true} {
			said := w.nagi("get", "--not-ok", "-n", "shop", "-o", "name").out
			z, a := strings.Index(said, "shop/z\n"), strings.Index(said, "shop/a\n")
			if blog := strings.Index(said, "shop/blog\n"); blog < 0 || z < blog || a < z {
				t.Errorf("of records: %v\n%s", stopped, said)
			}
			w.stopController()
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

// TestGetAndDescribeSayWhenADocumentEnds by its TTL, also to who lists or follows, and what get prints is applied as
// what it was.
func TestGetAndDescribeSayWhenADocumentEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		for key, ttl := range map[string]string{"shop.ends": "90", "shop.ever": "never"} {
			_, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: "$KV.websites." + key,
				Data: []byte(`{"spec":{"host":"x.example"}}`), Header: nats.Header{"Nats-TTL": {ttl}}})
			w.must(err)
		}
		ends := time.Now().Add(90 * time.Second).UTC().Format(time.RFC3339)[:16] // to the minute
		time.Sleep(10 * time.Second)
		wide := w.ok("get", "websites", "-n", "shop", "-o", "wide")
		for _, want := range []string{`ends .* in 80s\n`, `ever .* never\n`, `home .*20s +\n`} {
			if !regexp.MustCompile(want).MatchString(wide) {
				t.Errorf("no line is %s in\n%s", want, wide)
			}
		}
		for _, args := range [][]string{
			{"get", "websites", "shop/ends", "-o", "yaml"}, {"get", "websites", "-n", "shop", "-o", "yaml"},
		} {
			w.has(w.ok(args...), "nagi/expires-at: "+`"`+ends)
		}
		w.has(w.ok("describe", "websites/shop/ends"), "Expires:     "+ends)
		w.has(w.ok("describe", "websites/shop/ever"), "Expires:     never")
		w.stopController()
		w.has(w.ok("describe", "websites/shop/ends"), "Expires:     "+ends)
		printed := w.ok("get", "websites", "shop/ends", "-o", "yaml")
		r := w.nagiWith(printed, "apply", "-f", "-")
		stored := w.value("websites", "shop.ends")
		if r.code != 0 || strings.Contains(stored, "expires-at") {
			t.Errorf("exit code %d, stored %s\n%s", r.code, stored, r.err)
		}
		w.has(w.ok("describe", "websites/shop/ends"), "Expires:     "+ends)
	})
}
