package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	livepage "github.com/nagi-runtime/nagi/internal/nagi/page"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

const pageHost = "127.0.0.1:8080"

// browser asks the page as one would.
type browser struct {
	*world
	page *livepage.Page
}

// ui makes the page, runs it, and lets it ask all controllers.
func (w *world) ui(actions bool) *browser {
	w.Helper()
	return w.uiOf("", plainFlags{}, &clusterFlags{}, actions)
}

// uiFor is the page that also looks at a cluster.
func (w *world) uiFor(cluster *clusterFlags) *browser {
	w.Helper()
	return w.uiOf("", plainFlags{}, cluster, false)
}

// uiAs is the page of a user of inWorldOf.
func (w *world) uiAs(user string) *browser {
	w.Helper()
	return w.uiOf(user, plainFlags{}, &clusterFlags{}, false)
}

// uiOf is the page that also shows a plain bucket.
func (w *world) uiOf(user string, plain plainFlags, cluster *clusterFlags, actions bool) *browser {
	w.Helper()
	t := &tool{plain: plain, Env: Env{
		Streams: out.Streams{Out: io.Discard, Err: io.Discard},
		Options: []nats.Option{natstest.Dialer()}, Cluster: w.cluster,
	}}
	t.flags.Server, t.flags.Options = w.srv.URL(), t.Options
	if user != "" {
		t.flags.User, t.flags.Password, t.flags.InboxPrefix = user, user, "_INBOX_"+user
	}
	w.must(t.flags.Complete())
	s, err := t.connect()
	w.must(err)
	p, err := s.page(cluster, actions, []string{"127.0.0.1"})
	w.must(err)
	ctx, stop := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	w.Cleanup(func() { stop(); running.Wait(); p.Close(); t.close() })
	time.Sleep(12 * time.Second)
	synctest.Wait()
	return &browser{w, p}
}

// ask sends a request, which change may change.
func (b *browser) ask(method, path, body string, change func(r *http.Request)) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequest(method, "http://"+pageHost+path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+pageHost)
	}
	if change != nil {
		change(r)
	}
	answer := httptest.NewRecorder()
	b.page.ServeHTTP(answer, r)
	return answer
}

// get wants a page with all of these texts.
func (b *browser) get(path string, texts ...string) string {
	b.Helper()
	answer := b.ask("GET", path, "", nil)
	body := answer.Body.String()
	if answer.Code != http.StatusOK {
		b.Errorf("GET %s: %d\n%s", path, answer.Code, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			b.Errorf("GET %s has no %q:\n%s", path, text, body)
		}
	}
	return body
}

func TestThePageShowsControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		body := b.get("/", "<h2>websites</h2>", "<dt>Kind</dt><dd>Website.example.com</dd>", "<dt>Replicas</dt><dd>1</dd>",
			"read-only",
			`<li class="bad"><span class="number">1</span> parked</li>`, `<li class="bad"><span class="number">1</span> failing</li>`,
			`aria-label="Reconciles of the last ten minutes: now `, `<polyline points="2`, `<a href="/" aria-current="page">`)
		if strings.Contains(body, `class="banner"`) {
			t.Error("there is a banner though no brake is engaged")
		}
		w.stopController()
		time.Sleep(12 * time.Second)
		b.get("/", "controller &#34;websites&#34; is not asked")
	})
}

func TestThePageShowsDocumentsPageByPage(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		b.get("/kinds", `<a href="/kinds/Website.example.com">Website.example.com</a>`, "websites v1.2.3")
		b.get("/kinds/websites", "<h1>Website.example.com</h1>", "1 to 5 of 5 that fit, of 5 in all.",
			`<a href="/kinds/Website.example.com/shop%2Fhome">shop/home</a>`, `<span class="state bad">Terminal</span>`,
			`<span class="state good">Synced</span>`, `<th scope="col">Reconciled</th>`, "no such domain", "Suspended")
		if body := b.get("/kinds/websites?state=not-ok", "of 4 that fit, of 5",
			`value="not-ok" selected`); strings.Contains(body, "shop/home<") {
			t.Error("what is well is shown among what is not")
		}
		b.get("/kinds/websites?q=tier%3Dgold", "1 to 1 of 1 that fit, of 5")
		b.get("/kinds/websites?q=lab+ne", "1 to 1 of 1 that fit", "lab/new")
		b.get("/kinds/websites?state=Invalid", "1 to 1 of 1 that fit", `<option selected>Invalid</option>`)
		for i := range 120 {
			w.put("websites", fmt.Sprintf("many.site-%03d", i), `{"spec":{"host":"a.example"}}`)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		path := "/kinds/websites?q=many"
		for _, want := range []string{"1 to 50 of 120", "51 to 100 of 120", "101 to 120 of 120"} {
			body := b.get(path, want)
			if next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body); next != nil {
				path = strings.ReplaceAll(next[1], "&amp;", "&")
			} else if want[0:3] != "101" {
				t.Fatalf("after %s there is no next page", want)
			}
		}
		if answer := b.ask("GET", "/kinds/none", "", nil); answer.Code != http.StatusNotFound {
			t.Errorf("a kind that is not there: %d", answer.Code)
		}
	})
}

func TestThePageShowsOneDocument(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		body := b.get("/kinds/Website.example.com/shop%2Fhome", "<h1>Website.example.com/shop/home</h1>", "host: home.example",
			"password: (secret)", "url: https://home.example", "It is as it should be", "<b>Reconciled</b>",
			`aria-label="pages/shop/home-0"`, `aria-label="Ownership tree"`, "<li>pages/shop/home-1</li>", "Revision 1; reconciled is 1")
		for _, not := range []string{"hunter2", "<form", "lastDocument"} {
			if strings.Contains(body, not) {
				t.Errorf("it shows %q", not)
			}
		}
		b.get("/kinds/websites/shop/blog", `<span class="state bad">Terminal</span>`, "no such domain",
			"failed for good")
		b.get("/kinds/websites/shop/cart", `<dt>Next attempt</dt><dd><time datetime="`, "data-until",
			"the API of domains is away")
		if answer := b.ask("GET", "/kinds/websites/shop/none", "", nil); answer.Code != http.StatusNotFound {
			t.Errorf("one that is not there: %d", answer.Code)
		}
		if answer := b.ask("GET", "/kinds/websites/nonamespace", "", nil); answer.Code != http.StatusBadRequest {
			t.Errorf("a key that there cannot be: %d", answer.Code)
		}
	})
}

func TestThePageShowsTheWritesThatTheBucketKeeps(t *testing.T) {
	inWorld(t, func(w *world) {
		kv, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "tales", History: 4,
			Storage: jetstream.MemoryStorage})
		w.must(err)
		w.put(registry.Bucket, "Tale", `{"schemaVersion":1,"kind":"Tale","bucket":"tales","controllers":[]}`)
		w.put("tales", "one", `{"spec":{"gone":true}}`)
		w.put("tales", "two", `{}`)
		w.must(kv.Delete(w.Context(), "one"))
		w.put("tales", "one", `{"spec":{"n":9007199254740992,"a":{"b":[1],"c":"hunter2"}}}`)
		w.put("tales", "one", `{"spec":{"n":9007199254740993,"a":{"b":[1,2],"c":"hunter2"}}}`)
		b := w.ui(false)
		time.Sleep(time.Minute)
		b.get("/kinds/Tale/one", "The bucket keeps the last 4 writes of each key", "<b>Revision 1</b>",
			"<b>Revision 3</b>",
			": it was deleted", `changed: <span class="message">it was made anew</span>`,
			`<b>Revision 5</b>, <time datetime="`, `changed: <span class="message">spec.a.b, spec.n</span>`)
		w.put("tales", "one", "\"\u202e\"")
		time.Sleep(5 * time.Second) // what cannot be read is looked at every few seconds
		if body := b.get("/kinds/Tale/one", "<b>Revision 6</b>",
			"one of the two is no JSON object"); strings.Contains(body, "<b>Revision 1</b>") {
			t.Error("what the bucket keeps no more is shown")
		}
		b.get("/kinds/Website.example.com/shop%2Fhome", "The bucket keeps the last write of each key alone")
	})
}

func TestThePageShowsAPlainBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain",
			Storage: jetstream.MemoryStorage})
		w.must(err)
		w.put("plain", "one", `{"spec":{"size":1}}`)
		b := w.uiOf("", plainFlags{Plain: kinds.Plain{Bucket: "plain", StatusBucket: entity.NoStatusBucket}}, &clusterFlags{}, true)
		b.get("/kinds", `<a href="/kinds/plain">plain</a>`, `<a href="/kinds/Website.example.com">`)
		b.get("/kinds/plain", `<a href="/kinds/plain/one">one</a>`, "1 to 1 of 1 that fit")
		b.get("/kinds/plain/one", "size: 1", "The registry names no controller of it")
	})
	inWorld(t, func(w *world) { // --controller tells and acts
		w.put(registry.Bucket, "Website.example.com",
			`{"schemaVersion":1,"kind":"Other","bucket":"others","controllers":[]}`)
		b := w.uiOf("", plainFlags{Plain: kinds.Plain{Bucket: "websites", Namespaced: true}, controller: "websites"}, &clusterFlags{}, true)
		body := b.get("/kinds/websites/shop%2Fblog", "no such domain", `value="unpark"`,
			"<dt>Says</dt><dd>websites</dd>")
		found := tokenIn.FindStringSubmatch(body)
		got := b.ask("POST", "/act", url.Values{"token": {found[1]}, "do": {"unpark"}, "kind": {"websites"},
			"key":        {"shop/blog"},
			"controller": {"websites"}}.Encode(), nil)
		if got.Code != http.StatusSeeOther || got.Header().Get("Location") != "/kinds/websites/shop%2Fblog?did=unpark" {
			t.Errorf("unpark: %d %v %s", got.Code, got.Header(), got.Body)
		}
	})
}

func TestThePageShowsWhatWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.second", `{"spec":{"host":"bad.too"}}`)
		time.Sleep(5 * time.Second)
		b := w.ui(false)
		b.get("/waits", "5 keys are not well",
			`<td class="number">2</td><th scope="row" class="message">terminal error: no such domain</th>`,
			`<td><span class="state bad">parked</span></td>`,
			`<a href="/kinds/Website.example.com/shop%2Fblog">Website.example.com/shop/blog</a>`, "the API of domains is away")
	})
}

// hostile is text that would be more than text if it were not escaped.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='\x1b[31m\u202e javascript:alert(3)"

func TestThePageShowsTextOfOthersAsText(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, bucket := range []string{"evil", "evil-status", "evil-owned"} {
			_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: bucket,
				Storage: jetstream.MemoryStorage})
			w.must(err)
		}
		marshal := func(v any) string {
			data, err := json.Marshal(v)
			w.must(err)
			return string(data)
		}
		w.put(registry.Bucket, registry.Key(hostileKind, hostile), marshal(map[string]any{
			"schemaVersion": 1, "kind": hostileKind, "apiVersion": hostile, "bucket": "evil", "statusBucket": "evil-status",
			"columns": []any{map[string]any{"name": hostile, "jsonPath": "$.spec.evil", "type": "string",
				"description": hostile}},
			"controllers": []any{map[string]any{"name": hostile, "version": hostile, "owns": []any{
				map[string]any{"in": "nats", "kind": hostile, "bucket": "evil-owned"},
				map[string]any{"in": "external", "kind": hostile}, map[string]any{"in": "kubernetes",
					"name": hostile}}}},
		}))
		w.put("evil", "one", marshal(map[string]any{"kind": hostile, hostile: hostile,
			"spec": map[string]any{"evil": hostile},
			"metadata": map[string]any{"labels": map[string]any{hostile: hostile},
				"annotations": map[string]any{hostile: hostile}}}))
		_, err := w.nc.Request("$KV.evil."+hostileKey, []byte(`{}`), time.Second)
		w.must(err)
		w.put("evil-owned", "two", marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			"kumori/ownerkind": hostileKind, "kumori/ownerkey": "one"}}}))
		w.put("evil-status", "one", marshal(map[string]any{"schemaVersion": 1, "phase": hostile, "controller": hostile,
			"status": map[string]any{hostile: hostile}, "conditions": []any{map[string]any{"type": "Reconciled",
				"status": "False",
				"reason": "Terminal", "message": hostile}, map[string]any{"type": hostile, "status": hostile, "reason": hostile,
				"message": hostile}}}))
		said, err := json.Marshal(corev1.Event{Type: hostile, Reason: hostile, Message: hostile,
			Source: corev1.EventSource{Component: hostile}})
		w.must(err)
		_, err = w.js.Publish(w.Context(), strings.TrimSuffix(strings.Replace(recorder.Subject("", hostileKind,
			"one"), ".*.", ".Normal.", 1), "*")+"x", said)
		w.must(err)
		b := w.ui(true)
		kind := "/kinds/" + url.PathEscape(registry.Key(hostileKind, hostile))
		evil := url.QueryEscape(hostile)
		for _, path := range []string{"/", "/kinds", "/waits", kind,
			kind + "?q=" + evil + "&state=" + evil + "&after=" + evil,
			kind + "/one", kind + "/one?did=" + evil, "/brake/" + url.PathEscape(hostile), "/kinds/" + url.PathEscape(hostile),
			"/" + url.PathEscape(hostile)} {
			body := b.ask("GET", path, "", nil).Body.String()
			if len(body) < 500 {
				t.Errorf("%s: no page: %s", path, body)
			}
			for _, not := range []string{"<script>", "<img", "\x1b", "\u202e", "' onload='", `href="javascript`} {
				if strings.Contains(body, not) {
					t.Errorf("%s has %q:\n%s", path, not, body)
				}
			}
		}
		b.get(kind+"/one", "&lt;script&gt;alert(1)", "<b>&#34;&lt;script")
		frames := b.follow(kind+"/one", time.Second)
		for _, f := range frames {
			if strings.Contains(f.HTML, "<script") || strings.Contains(f.HTML, "<img") ||
				strings.Contains(f.HTML, "\u202e") {
				t.Errorf("fragment %s: %s", f.ID, f.HTML)
			}
		}
		if len(frames) < 5 {
			t.Errorf("fragments: %+v", frames)
		}
	})
}

// hostileKind is a kind as entity takes it.
const hostileKind = "<script>alert(1)<img\"'\x1b\u202e"

// hostileKey is a key that NATS takes, and no document can have.
const hostileKey = "a<script>b'\"c"

func TestThePageRefusesWhatDidNotComeForIt(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		answer := b.ask("GET", "/", "", nil)
		policy := answer.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
			"base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("the policy %q has no %s", policy, part)
			}
		}
		if answer.Header().Get("X-Content-Type-Options") != "nosniff" ||
			answer.Header().Get("Referrer-Policy") != "same-origin" ||
			answer.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", answer.Header())
		}
		for _, host := range []string{"evil.example:8080", "127.0.0.1.evil.example", "localhost.", ""} {
			if got := b.ask("GET", "/", "",
				func(r *http.Request) { r.Host = host }); got.Code != http.StatusMisdirectedRequest {
				t.Errorf("host %q: %d", host, got.Code)
			}
		}
		for _, origin := range []string{"http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"} {
			got := b.ask("GET", "/live?view=/", "", func(r *http.Request) { r.Header.Set("Origin", origin) })
			if got.Code != http.StatusForbidden {
				t.Errorf("origin %q: %d", origin, got.Code)
			}
		}
		if got := b.ask("POST", "/act", "do=unpark&token=", nil); got.Code != http.StatusForbidden ||
			!strings.Contains(got.Body.String(), "--allow-actions") {
			t.Errorf("a read-only page acts: %d %s", got.Code, got.Body)
		}
		for _, path := range []string{"/page.css", "/page.js"} {
			if got := b.ask("GET", path, "", nil); got.Code != http.StatusOK ||
				got.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("%s: %d", path, got.Code)
			}
		}
		if got := b.ask("GET", "/page.html", "", nil); got.Code != http.StatusNotFound {
			t.Errorf("a template is served: %d", got.Code)
		}
		for _, view := range []string{"http://evil.example/", "//evil.example/", "", "relative"} {
			if got := b.ask("GET", "/live?view="+url.QueryEscape(view), "", nil); got.Code != http.StatusBadRequest {
				t.Errorf("view %q is followed: %d", view, got.Code)
			}
		}
	})
}

var tokenIn = regexp.MustCompile(`name="token" value="([^"]+)"`)

func TestThePageActsForItsOwnFormsAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(true)
		const at = "/kinds/Website.example.com/shop%2Fblog"
		found := tokenIn.FindStringSubmatch(b.get(at, `action="/act"`))
		if found == nil {
			t.Fatal("the form has no token")
		}
		form := func(token, do string) string {
			return url.Values{"token": {token}, "do": {do}, "kind": {"Website.example.com"}, "key": {"shop/blog"},
				"controller": {"websites"}}.Encode()
		}
		suspended := func() bool { return strings.Contains(w.value("websites", "shop.blog"), `"nagi/suspend":"true"`) }
		for name, got := range map[string]*httptest.ResponseRecorder{
			"no token":    b.ask("POST", "/act", form("", "suspend"), nil),
			"another one": b.ask("POST", "/act", form(strings.Repeat("A", len(found[1])), "suspend"), nil),
			"in the URL":  b.ask("POST", "/act?token="+found[1], form("", "suspend"), nil),
			"no origin": b.ask("POST", "/act", form(found[1], "suspend"),
				func(r *http.Request) { r.Header.Del("Origin") }),
			"other origin": b.ask("POST", "/act", form(found[1], "suspend"),
				func(r *http.Request) { r.Header.Set("Origin", "http://a.b") }),
		} {
			if got.Code != http.StatusForbidden || suspended() {
				t.Errorf("%s: %d", name, got.Code)
			}
		}
		if got := b.ask("GET", "/act?"+form(found[1], "suspend"), "", nil); got.Code == http.StatusOK || suspended() {
			t.Errorf("a link acts: %d", got.Code)
		}
		if got := b.ask("POST", "/act", form(found[1], "orphans-delete"), nil); got.Code != http.StatusBadRequest {
			t.Errorf("an act that the page has not: %d", got.Code)
		}
		got := b.ask("POST", "/act", form(found[1], "suspend"), nil)
		if got.Code != http.StatusSeeOther || got.Header().Get("Location") != at+"?did=suspend" || !suspended() {
			t.Errorf("it does not act: %d %v %s", got.Code, got.Header(), got.Body)
		}
		b.get(at+"?did=suspend", "It is suspended")
		if got := b.ask("POST", "/act", form(found[1], "unpark"), nil); got.Code != http.StatusConflict {
			t.Errorf("what is refused: %d %s", got.Code, got.Body)
		}
	})
}

func TestThePageTellsOfABrakeAndReleasesItByCount(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 20 {
			w.put("websites", fmt.Sprintf("many.site-%02d", i), `{"spec":{"host":"a.example","pages":1}}`)
		}
		time.Sleep(time.Minute)
		stream, err := w.js.Stream(w.Context(), "KV_websites")
		w.must(err)
		w.must(stream.Purge(w.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		b := w.ui(true)
		body := b.get("/", `class="banner"`, `<strong role="alert">The brake of websites holds `,
			`<a href="/brake/websites">`)
		held := regexp.MustCompile(`holds (\d+) deletes`).FindStringSubmatch(body)
		body = b.get("/brake/websites", "many/site-00", "documents can be put back")
		restorable := regexp.MustCompile(`<p>(\d+) documents can be put back`).FindStringSubmatch(body)
		engagement := regexp.MustCompile(`name="engagement" value="([^"]+)"`).FindStringSubmatch(body)
		token := tokenIn.FindStringSubmatch(body)
		if held == nil || engagement == nil || token == nil || restorable == nil {
			t.Fatalf("held %v, restorable %v, engagement %v, token %v", held, restorable, engagement, token)
		}
		list := regexp.MustCompile(`name="list" value="([0-9a-f]+)"`).FindStringSubmatch(body)
		if list == nil {
			t.Fatal("the form names no list")
		}
		do := func(verb, count string) *httptest.ResponseRecorder {
			return b.ask("POST", "/act", url.Values{"token": {token[1]}, "do": {verb}, "controller": {"websites"},
				"engagement": {engagement[1]}, "count": {count}, "list": {list[1]}}.Encode(), nil)
		}
		if got := do("brake-release", ""); got.Code != http.StatusBadRequest {
			t.Errorf("without a count: %d", got.Code)
		}
		if got := do("brake-release", "1"); got.Code != http.StatusConflict ||
			w.value("pages", "many.site-00-0") == "" {
			t.Errorf("with another count: %d %s", got.Code, got.Body)
		}
		if got := do("brake-restore", "5"); got.Code != http.StatusConflict ||
			w.value("websites", "many.site-00") != "" {
			t.Errorf("restore with another count: %d %s", got.Code, got.Body)
		}
		read := list[1]
		list[1] = "5f1c"
		if got := do("brake-release", held[1]); got.Code != http.StatusConflict {
			t.Errorf("release of another list: %d %s", got.Code, got.Body)
		}
		list[1] = read
		if got := do("brake-release", held[1]); got.Code != http.StatusSeeOther ||
			got.Header().Get("Location") != "/brake/websites?did=brake-release" {
			t.Errorf("release: %d %s", got.Code, got.Body)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if body := b.get("/"); strings.Contains(body, `class="banner"`) || w.value("pages", "many.site-00-0") != "" {
			t.Error("the banner stays, or what was held")
		}
	})
}

type frame struct{ ID, HTML string }

// stream is a response that is read while it comes.
type stream struct {
	mu     sync.Mutex
	text   bytes.Buffer
	header http.Header
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) WriteHeader(int)     {}
func (s *stream) Flush()              {}

func (s *stream) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

// take returns the fragments that have come since the last call.
func (s *stream) take(t *world) (frames []frame) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, block := range strings.Split(s.text.String(), "\n\n") {
		if data, ok := strings.CutPrefix(block, "event: fragment\ndata: "); ok {
			var f frame
			t.must(json.Unmarshal([]byte(data), &f))
			frames = append(frames, f)
		}
	}
	s.text.Reset()
	return frames
}

// open follows a view until stop is called.
func (b *browser) open(view string) (s *stream, stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "http://"+pageHost+"/live?view="+url.QueryEscape(view), nil)
	s = &stream{header: http.Header{}}
	var done sync.WaitGroup
	done.Go(func() { b.page.ServeHTTP(s, r) })
	return s, func() { cancel(); done.Wait() }
}

func (b *browser) follow(view string, d time.Duration) []frame {
	s, stop := b.open(view)
	defer stop()
	time.Sleep(d)
	synctest.Wait()
	return s.take(b.world)
}

func TestThePageFollowsChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		s, stop := b.open("/kinds/Website.example.com/shop%2Fhome")
		defer stop()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		first := map[string]string{}
		for _, f := range s.take(w) {
			first[f.ID] = f.HTML
		}
		for _, id := range []string{"banner", "why", "writing", "tree", "events"} {
			if !strings.Contains(first[id], `id="`+id+`"`) {
				t.Errorf("at first there is no fragment %s: %v", id, first)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if frames := s.take(w); len(frames) != 0 {
			t.Errorf("nothing has changed, and there come %+v", frames)
		}
		w.put("websites", "shop.home", `{"spec":{"host":"new.example","pages":3}}`)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		changed := map[string]string{}
		for _, f := range s.take(w) {
			changed[f.ID] = f.HTML
		}
		if !strings.Contains(changed["writing"], "new.example") || !strings.Contains(changed["tree"], "shop/home-2") {
			t.Errorf("after a change: %v", changed)
		}
		if _, ok := changed["banner"]; ok {
			t.Error("what has not changed comes too")
		}
	})
}

func TestFewFollowThePageAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		var last func()
		for range 32 {
			_, stop := b.open("/")
			defer stop()
			last = stop
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := b.ask("GET", "/live?view=/", "", nil); got.Code != http.StatusServiceUnavailable {
			t.Errorf("one more: %d", got.Code)
		}
		last()
		if frames := b.follow("/", time.Second); len(frames) == 0 {
			t.Error("who has left keeps his place")
		}
	})
}

func TestThePageOfWhatIsOwnedLeadsToItsOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		b := w.ui(false)
		b.get("/kinds/Bed/east",
			`It is owned by <a href="/kinds/Garden/north">Garden/north</a> <span class="state">Retrying</span>`,
			`aria-label="Garden/north, Retrying`, `class="note"`, "NATS Plant")
	})
}

func TestTheUICommandServesUntilItIsStopped(t *testing.T) {
	cmd, _, err := Root().Find([]string{"ui"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(cmd.Example) {
		servesUntilItIsStopped(t, words(strings.TrimSpace(line))[1:])
	}
	for _, args := range [][]string{
		{"ui", "--listen", "0.0.0.0:0"}, {"ui", "--listen", "0.0.0.0:0", "--remote"}, {"ui", "--listen", "8080"},
	} {
		if got := Run(t.Context(), Env{Streams: out.Streams{Out: io.Discard, Err: io.Discard}},
			args); got != CodeUsage {
			t.Errorf("%v: %d", args, got)
		}
	}
}

func servesUntilItIsStopped(t *testing.T, args []string) {
	t.Helper()
	srv := natstest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, text := io.Pipe()
	code := make(chan int)
	go func() {
		env := Env{Streams: out.Streams{Out: text, Err: io.Discard}}
		code <- Run(ctx, env, append([]string{"--server", srv.URL()}, args...))
	}()
	line := make([]byte, 100)
	n, err := in.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(string(line[:n]))
	if slices.Contains(args, "json") {
		var is struct{ Address string }
		if err := json.Unmarshal(line[:n], &is); err != nil {
			t.Errorf("%v: %q: %v", args, line[:n], err)
		}
		address = is.Address
	}
	answer, err := http.Get(address + "/kinds")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "There are no kinds") {
		t.Errorf("%d %v\n%s", answer.StatusCode, err, body)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if got := <-code; got != 0 {
		t.Errorf("stopped, it ends with %d", got)
	}
}
