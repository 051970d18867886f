// Package livepage serves Nagi's live page from a process of yours, a controller's own for instance: controllers with
// their queues and the members that share the keys, kinds and documents, one document with what it owns and why it
// waits, and a banner while a brake holds deletes. It is the page of `nagi ui`, which serves it from a terminal.
//
//	page, err := livepage.New(livepage.Config{Conn: conn})
//	...
//	err = m.Add(page, &probes.Server{Address: ":8080", Handlers: map[string]http.Handler{livepage.DefaultPath: page}})
//
// Then http://localhost:8080/debug/nagi/ shows it; from a Kubernetes pod, kubectl port-forward brings it there.
//
// # Who sees what
//
// The page reads with the rights of its connection, and shows what it reads to whoever reaches the address and is let
// in by the Auth of the server, if that has one. It answers only browsers that ask for it under a name of Config.Hosts;
// without any these are the names of the loopback interface. Give it a connection whose user has the rights of
// [github.com/nagi-runtime/nagi/entity.RoleReader]: a controller's own user may not ask the services API, so with that
// one the page shows documents, and says what it may not read.
//
// A proxy between the page and browsers, one that does TLS for instance, has to pass on the header Host as the browser
// sends it, with the port; Config.Hosts has that name. Else the page takes its own forms for those of another page.
//
// It changes nothing, unless Config.AllowActions lets it; that needs the rights of
// [github.com/nagi-runtime/nagi/entity.RoleOperator], and to delete documents those of
// [github.com/nagi-runtime/nagi/entity.RoleWriter].
package livepage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/page"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

const (
	// DefaultPath is where the page is, if Config.Path does not say otherwise.
	DefaultPath = "/debug/nagi/"
	// DefaultTimeout is how long the page waits for one answer, if Config.Timeout does not say otherwise.
	DefaultTimeout = 5 * time.Second
)

// Config says what is shown, where, and to whom.
type Config struct {
	// Conn is what the page reads with, and has to be there. It stays open when the page ends.
	Conn *nats.Conn
	// Domain is the JetStream domain where the buckets are. "" is that of the connection's account.
	Domain string
	// Prefix is that of the services API, as in service.Config. "" is the default one.
	Prefix string
	// Path is where the page is served, and begins and ends with a slash. "" is DefaultPath.
	Path string
	// Hosts are the names, without ports, under which a browser may ask for the page. None are those of the loopback
	// interface. Others open the page to whoever reaches the address under that name.
	Hosts []string
	// AllowActions has the page offer what a user may do: reconcile, unpark, suspend and resume a key, delete a
	// document, and restore or release what a brake holds. Whoever may see the page may do it then.
	AllowActions bool
	// Timeout is how long to wait for one answer. 0 is DefaultTimeout.
	Timeout time.Duration
	// Kubernetes and Discovery show what a document owns in a cluster. With either nil it is named, and not read.
	Kubernetes dynamic.Interface
	Discovery  discovery.DiscoveryInterface
	// Namespaces are looked at in the cluster, beside that of the document, where the page may not list in all
	// namespaces. None is right for a page that may.
	Namespaces []string
}

// Page is an http.Handler for its path and all below, and a runnable of a manager. Its methods may be called
// concurrently.
type Page struct {
	page *page.Page
	http http.Handler
	path string
	ran  atomic.Bool
}

// New makes a page. It asks the server nothing yet. It returns an error for a config that cannot be.
func New(cfg Config) (*Page, error) {
	if cfg.Conn == nil {
		return nil, errors.New("livepage: Config.Conn is nil: give it a connection, of a user who may read")
	}
	if cfg.Path == "" {
		cfg.Path = DefaultPath
	}
	if !strings.HasPrefix(cfg.Path, "/") || !strings.HasSuffix(cfg.Path, "/") || strings.Contains(cfg.Path, "//") {
		return nil, fmt.Errorf("livepage: Config.Path %q: it has to begin and end with one slash, as %q does",
			cfg.Path, DefaultPath)
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("livepage: Config.Timeout %v: it is below zero; 0 is %v", cfg.Timeout, DefaultTimeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if len(cfg.Hosts) == 0 {
		cfg.Hosts = page.LoopbackHosts()
	}
	js, err := jetStream(cfg)
	if err != nil {
		return nil, fmt.Errorf("livepage: %w", err)
	}
	base := strings.TrimSuffix(cfg.Path, "/")
	inside := page.Config{
		Conn: cfg.Conn, JS: js, Prefix: cfg.Prefix, Timeout: cfg.Timeout, Actions: cfg.AllowActions, Hosts: cfg.Hosts,
		Base: base, Remedies: tree.Remedies{
			Cluster:    "Config.Kubernetes and Config.Discovery of package livepage",
			Namespaces: "Config.Namespaces of package livepage says where else to look",
		},
	}
	if cfg.Kubernetes != nil && cfg.Discovery != nil {
		inside.Cluster = &tree.Cluster{
			Client: cfg.Kubernetes, Discovery: cfg.Discovery, Namespaces: cfg.Namespaces,
		}
	}
	p, err := page.New(inside)
	if err != nil {
		return nil, fmt.Errorf("livepage: %w", err)
	}
	return &Page{page: p, http: http.StripPrefix(base, p), path: cfg.Path}, nil
}

func jetStream(cfg Config) (jetstream.JetStream, error) {
	if cfg.Domain != "" {
		return jetstream.NewWithDomain(cfg.Conn, cfg.Domain)
	}
	return jetstream.New(cfg.Conn)
}

// Path is where the page is to be served: http.ServeMux.Handle(p.Path(), p).
func (p *Page) Path() string { return p.path }

// StartsFirst has a manager start the page before it fills its caches: it is of use above all where that takes long.
func (p *Page) StartsFirst() bool { return true }

// Run takes the samples of the plots until ctx ends. Then it lets go of the browsers that follow the page, and of the
// buckets that it follows: without Run these last until the connection closes, and the plots are empty. It may run
// once.
func (p *Page) Run(ctx context.Context) error {
	if p.ran.Swap(true) {
		return errors.New("livepage: Run was called before: make another page with New")
	}
	p.page.Run(ctx)
	p.page.Close()
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.http.ServeHTTP(w, r) }
