// Package page serves the live page: HTML that shows kinds, documents, what they own and what waits, and that follows
// changes.
//
// The rule: it shows what its user may read, and acts only if it was told to. What others wrote reaches the browser as
// text. Nothing is loaded from elsewhere, and each view says all that it has to say without the script.
package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config says what is shown, and to whom.
type Config struct {
	Conn *nats.Conn
	JS   jetstream.JetStream
	// Prefix is that of the services API; "" means the default.
	Prefix string
	// Timeout is how long to wait for an answer.
	Timeout time.Duration
	// Cluster is where Kubernetes is; nil: it is not looked at.
	Cluster *tree.Cluster
	// Remedies say where Cluster and its namespaces are set.
	Remedies tree.Remedies
	// Plain is a bucket that the registry does not have, and that is shown beside its kinds; nil for none.
	Plain *kinds.Kind
	// Actions says that the page may act, with the rights of its user.
	Actions bool
	// Base is before each of the page's paths as a browser asks for them, such as "/debug/nagi"; the page itself is
	// asked without it.
	Base string
	// Hosts are the names, without ports, under which a browser may ask for it. Requests for others are refused, so
	// that no name that somebody else has pointed here makes the page one of his own.
	Hosts []string
}

// Page is an http.Handler. Run it, and close it after use.
type Page struct {
	cfg       Config
	mux       *http.ServeMux
	templates *template.Template
	token     string
	buckets   *follow.Set
	history   history
	waits     waits
	rows      rows
	news      news
	viewers   chan struct{} // has a place for each who follows
	ended     chan struct{} // closed with Run

	controllers *tree.Controllers // know what documents own behind APIs

	asking turn.Turn // found and asked are those of who has it
	found  *registry.Kinds
	asked  time.Time

	mu      sync.Mutex
	readers map[follow.Place]*documents.Reader
	events  map[string]events // by bucket and key
	trees   map[string]owned  // likewise
	writes  map[string]writes // likewise
}

// mostViewers is how many may follow at once.
const mostViewers = 32

//go:embed assets
var assets embed.FS

// New makes a page. It asks nothing yet.
func New(cfg Config) (*Page, error) {
	p := &Page{
		cfg: cfg, mux: http.NewServeMux(), token: rand.Text(), news: news{changed: make(chan struct{})},
		viewers: make(chan struct{}, mostViewers), ended: make(chan struct{}), asking: turn.New(),
		waits: waits{turn: turn.New()},
	}
	p.buckets = &follow.Set{JS: cfg.JS, Changed: p.news.tell}
	p.controllers = &tree.Controllers{Of: func(name string) ask.Controller {
		return p.controller(name).Patient(cfg.Timeout / 2) // a tree has the whole for itself and all answers
	}}
	var err error
	p.templates, err = template.New("").Funcs(functions).Funcs(template.FuncMap{
		"at":       p.at,
		"fragment": func(of part) (template.HTML, error) { return p.render(of.Template, of.Data) },
		"heading":  func(v *view) (template.HTML, error) { return p.render(v.Heading, v.Head) },
	}).ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, err
	}
	static := http.FileServerFS(files)
	p.mux.Handle("GET /page.css", static)
	p.mux.Handle("GET /page.js", static)
	p.mux.Handle("GET /icon.svg", static)
	p.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, p.at("/icon.svg"), http.StatusMovedPermanently) // of answers that are no page
	})
	p.mux.HandleFunc("GET /live", p.live)
	p.mux.HandleFunc("POST /act", p.act)
	p.mux.HandleFunc("GET /", p.show)
	return p, nil
}

// Run asks controllers how they are, for the plots, until ctx ends. Then it lets go of those who follow the page. It
// may run once.
func (p *Page) Run(ctx context.Context) {
	defer close(p.ended)
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() { p.tellOfCuts(ctx) })
	for {
		p.sample(ctx)
		p.news.tell()
		select {
		case <-ctx.Done():
			return
		case <-time.After(sampleInterval):
		}
	}
}

// tellOfCuts lets who follows know at once when the connection is lost, and when it is back.
func (p *Page) tellOfCuts(ctx context.Context) {
	changed := p.cfg.Conn.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	defer p.cfg.Conn.RemoveStatusListener(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			p.news.tell()
		}
	}
}

// Close ends what follows buckets. What asks for one after that is refused.
func (p *Page) Close() { p.buckets.Close() }

// at is where a browser finds a path of the page.
func (p *Page) at(path string) string { return p.cfg.Base + path }

// LoopbackHosts are the names of this machine to itself.
func LoopbackHosts() []string { return []string{"localhost", "127.0.0.1", "::1", "[::1]"} }

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.guard(w, r) {
		return
	}
	p.mux.ServeHTTP(w, r)
}

// kindsInterval is how often the registry is read, at most.
const kindsInterval = 10 * time.Second

// kinds are those of the registry, and the plain bucket. Where that is shown the registry need not be readable.
func (p *Page) kinds(ctx context.Context) (*registry.Kinds, error) {
	if err := p.asking.Take(ctx); err != nil {
		return nil, err
	}
	defer p.asking.Give()
	if p.found != nil && time.Since(p.asked) < kindsInterval {
		return p.found, nil
	}
	within, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	found, err := registry.List(within, p.cfg.JS)
	if err != nil && (p.cfg.Plain == nil || ctx.Err() != nil) {
		return nil, err
	}
	if p.cfg.Plain != nil {
		found.Entries = append(found.Entries, p.cfg.Plain.Entry)
	}
	p.found, p.asked = &found, time.Now()
	return p.found, nil
}

// kind is one of them.
func (p *Page) kind(ctx context.Context, name string) (*kinds.Kind, error) {
	found, err := p.kinds(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := kinds.Of(found.Entries, name)
	if err == nil && p.cfg.Plain != nil && kind.Entry == p.cfg.Plain.Entry {
		return p.cfg.Plain, nil
	}
	return kind, err
}

// read reads a document and its record, live. IsNotFound if there is no document; the record is there all the same.
func (p *Page) read(ctx context.Context, kind *kinds.Kind, key string) (kinds.Document, error) {
	return p.reader(kind).Get(ctx, key)
}

// reader is that of a kind; there is one for each bucket.
func (p *Page) reader(kind *kinds.Kind) *documents.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := follow.Place{Bucket: kind.Bucket, StatusBucket: kind.StatusBucket}
	r := p.readers[at]
	if r == nil {
		if p.readers == nil {
			p.readers = map[follow.Place]*documents.Reader{}
		}
		r = documents.New(p.cfg.JS, kind, p.cfg.Timeout)
		p.readers[at] = r
	}
	return r
}

func (p *Page) controller(name string) ask.Controller {
	return ask.Controller{Conn: p.cfg.Conn, Prefix: p.cfg.Prefix, Name: name}
}

// ask asks a controller one thing that reads.
func (p *Page) ask(ctx context.Context, name, verb string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	return p.controller(name).Do(ctx, ask.Read, verb, "", request, answer)
}

// show answers with a whole page.
func (p *Page) show(w http.ResponseWriter, r *http.Request) {
	v, err := p.view(r.Context(), r.URL, false)
	if err != nil {
		p.fail(w, r, err, "")
		return
	}
	p.respond(w, http.StatusOK, v)
}

func (p *Page) respond(w http.ResponseWriter, code int, v *view) {
	var text bytes.Buffer
	if err := p.templates.ExecuteTemplate(&text, "page", v); err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes())
}

// render is the HTML of a fragment.
func (p *Page) render(name string, data any) (template.HTML, error) {
	var text bytes.Buffer
	if err := p.templates.ExecuteTemplate(&text, name, data); err != nil {
		return "", fmt.Errorf("fragment %s: %w", name, err)
	}
	return template.HTML(text.String()), nil
}
