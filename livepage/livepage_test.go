package livepage

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

type site = entity.Object[struct {
	Host string `json:"host"`
}, entity.None]

// served is a server with the controller "sites", which is in the registry and answers, and the page of it below a mux.
type served struct {
	*testing.T
	page *Page
	mux  *http.ServeMux
	js   jetstream.JetStream
}

func inProgram(t *testing.T, cfg Config, test func(s *served)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		sites, err := entity.NewClient[*site](t.Context(), js, entity.Config{
			Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		t.Cleanup(sites.Close)
		own, _ := natstest.Connect(t, srv.URL())
		answers, err := service.New(service.Config{Conn: own})
		must(t, err)
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil },
		), answers.Controller(), registry.Publish(registry.Options{}))
		must(t, err)
		natstest.Run(t, c.Run)
		natstest.Run(t, answers.Run)
		_, err = js.Publish(t.Context(), "$KV.sites.home", []byte(`{"spec":{"host":"home.example"}}`))
		must(t, err)
		cfg.Conn, _ = natstest.Connect(t, srv.URL())
		p, err := New(cfg)
		must(t, err)
		natstest.Run(t, p.Run)
		mux := http.NewServeMux()
		mux.Handle(p.Path(), p)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		test(&served{t, p, mux, js})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask is a request of a browser on this machine, with a form if there is one.
func (s *served) ask(method, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), method, "http://localhost:8080"+at, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://localhost:8080")
	}
	answer := httptest.NewRecorder()
	s.mux.ServeHTTP(answer, r)
	return answer
}

var links = regexp.MustCompile(`(?:href|src|action)="([^"#]+)"`)

// crawl follows all links from a path on, and returns what is at each.
func (s *served) crawl(from string) map[string]string {
	s.Helper()
	pages := map[string]string{}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		at := strings.ReplaceAll(next[0], "&amp;", "&")
		if _, known := pages[at]; known || strings.HasSuffix(at, "/act") {
			continue
		}
		answer := s.ask("GET", at, nil)
		if answer.Code != http.StatusOK {
			s.Errorf("%s: %d\n%s", at, answer.Code, answer.Body)
		}
		pages[at] = answer.Body.String()
		if strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") {
			for _, found := range links.FindAllStringSubmatch(pages[at], -1) {
				next = append(next, found[1])
			}
		}
	}
	return pages
}

// TestThePageIsWholeBelowItsPath: what it links to, loads and sends forms to is below that path, and is there.
func TestThePageIsWholeBelowItsPath(t *testing.T) {
	for _, path := range []string{"", "/", "/ops/nagi/"} {
		t.Run(path, func(t *testing.T) {
			inProgram(t, Config{Path: path, AllowActions: true}, func(s *served) {
				base := strings.TrimSuffix(s.page.Path(), "/")
				pages := s.crawl(s.page.Path())
				for _, want := range []string{"/", "/kinds", "/waits", "/page.css", "/page.js", "/kinds/Site", "/kinds/Site/home"} {
					if _, there := pages[base+want]; !there {
						s.Errorf("nothing leads to %s", base+want)
					}
				}
				object := pages[base+"/kinds/Site/home"]
				if !strings.Contains(object, "home.example") {
					s.Fatalf("the document is not shown, of %q:\n%s", slices.Sorted(maps.Keys(pages)), object)
				}
				if !strings.Contains(object, `action="`+base+`/act"`) {
					s.Errorf("no form acts below %s", base)
				}
				form := url.Values{"do": {"reconcile"}, "controller": {"sites"}, "kind": {"Site"}, "key": {"home"}}
				form.Set("token", regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(object)[1])
				answer := s.ask("GET", base+"/favicon.ico", nil)
				if at := answer.Header().Get("Location"); at != base+"/icon.svg" {
					s.Errorf("the icon is at %q", at)
				}
				answer = s.ask("GET", base+"/kinds/None", nil)
				if answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), `<a href="`+base+`/">`) {
					s.Errorf("of what is not there no link leads on: %d\n%s", answer.Code, answer.Body)
				}
				answer = s.ask("POST", base+"/act", form)
				if at := answer.Header().Get("Location"); answer.Code != http.StatusSeeOther ||
					at != base+"/kinds/Site/home?did=reconcile" {
					s.Errorf("after an act: %d, to %q\n%s", answer.Code, at, answer.Body)
				}
			})
		})
	}
}

// TestWhoFollowsIsLetGoWhenRunEnds: else the server that stops would wait for them.
func TestWhoFollowsIsLetGoWhenRunEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		conn, _ := natstest.Connect(t, natstest.Start(t).URL())
		p, err := New(Config{Conn: conn})
		must(t, err)
		stop := natstest.Run(t, p.Run)
		follows := make(chan struct{})
		go func() {
			defer close(follows)
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+DefaultPath+"live?view=/", nil)
			p.ServeHTTP(httptest.NewRecorder(), r)
		}()
		time.Sleep(time.Minute)
		select {
		case <-follows:
			t.Fatal("it is let go while the page runs")
		default:
		}
		stop()
		synctest.Wait()
		select {
		case <-follows:
		default:
			t.Error("it follows a page that has ended")
		}
		if err := p.Run(t.Context()); err == nil {
			t.Error("it runs twice")
		}
	})
}

// TestOthersAreNotServed: the names under which a browser may ask are those of this machine, or those that are named.
func TestOthersAreNotServed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		conn, _ := natstest.Connect(t, natstest.Start(t).URL())
		for host, code := range map[string]int{"localhost:8080": 200, "127.0.0.1": 200, "[::1]:80": 200, "evil.example": 421} {
			p, err := New(Config{Conn: conn})
			must(t, err)
			answer := httptest.NewRecorder()
			p.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "http://"+host+DefaultPath+"page.css", nil))
			if answer.Code != code {
				t.Errorf("%s: %d, want %d", host, answer.Code, code)
			}
		}
		p, err := New(Config{Conn: conn, Hosts: []string{"nagi.example"}})
		must(t, err)
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+DefaultPath+"page.css", nil))
		if answer.Code != 421 || !strings.Contains(answer.Body.String(), "nagi.example") {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		conn, _ := natstest.Connect(t, natstest.Start(t).URL())
		for want, cfg := range map[string]Config{
			"Conn is nil":           {},
			"begin and end with":    {Conn: conn, Path: "/debug"},
			"as \"/debug/nagi/\"":   {Conn: conn, Path: "debug/"},
			"Timeout -1s: it is be": {Conn: conn, Timeout: -time.Second},
		} {
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}

// TestThePageIsServedOverTLS: its own forms come from https then, and no other page's do.
func TestThePageIsServedOverTLS(t *testing.T) {
	inProgram(t, Config{}, func(s *served) {
		for origin, want := range map[string]int{
			"": http.StatusOK, "https://localhost:8443": http.StatusOK, "http://localhost:8443": http.StatusForbidden,
			"https://a.b": http.StatusForbidden,
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost:8443"+s.page.Path(), nil)
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			answer := httptest.NewRecorder()
			if s.mux.ServeHTTP(answer, r); answer.Code != want {
				t.Errorf("from %q: %d, want %d", origin, answer.Code, want)
			}
		}
	})
}

// TestThePageActsBehindAProxyThatDoesTLS, for its own forms alone. Who is refused reads both origins.
func TestThePageActsBehindAProxyThatDoesTLS(t *testing.T) {
	inProgram(t, Config{AllowActions: true, Hosts: []string{"nagi.example"}}, func(s *served) {
		const at = "http://nagi.example:8443/debug/nagi/"
		asks := func(method, path, origin string, form url.Values) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(s.Context(), method, at+path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", origin)
			answer := httptest.NewRecorder()
			s.mux.ServeHTTP(answer, r)
			return answer
		}
		const own = "https://nagi.example:8443"
		shown := asks("GET", "kinds/Site/home", own, nil).Body.String()
		token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(shown)
		if token == nil {
			s.Fatalf("no form has a token:\n%s", shown)
		}
		form := url.Values{"do": {"reconcile"}, "controller": {"sites"}, "kind": {"Site"}, "key": {"home"}, "token": token[1:]}
		for _, other := range []string{"https://nagi.example", "https://evil.example:8443", "null"} {
			answer := asks("POST", "act", other, form)
			for _, says := range []string{other, own, "http://nagi.example:8443", "Host"} {
				if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), says) {
					s.Errorf("from %s: %d, want 403 that says %q: %s", other, answer.Code, says, answer.Body)
				}
			}
		}
		form.Set("token", "another")
		if answer := asks("POST", "act", own, form); answer.Code != http.StatusForbidden {
			s.Errorf("without the token: %d", answer.Code)
		}
		form.Set("token", token[1])
		if answer := asks("POST", "act", own, form); answer.Code != http.StatusSeeOther {
			s.Errorf("its own form: %d %s", answer.Code, answer.Body)
		}
	})
}
