package livepage_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/livepage"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
)

type Site = entity.Object[struct {
	Host string `json:"host"`
}, entity.None]

// run is a program with one controller, whose listener serves the page beside probes and metrics.
func run(ctx context.Context, url string, listening func(string, net.Addr)) error {
	m, err := manager.New(ctx, manager.Config{Name: "sites", URL: url, Service: service.For(service.Config{})})
	if err != nil {
		return err
	}
	defer m.Close(context.Background())
	sites, err := manager.Client[*Site](ctx, m, entity.Config{Kind: "Site", Bucket: "sites"})
	if err != nil {
		return err
	}
	seen, health := metrics.New(), probes.New()
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil },
	), m.Controller(), seen.Controller(), registry.Publish(registry.Options{}))
	if err != nil {
		return err
	}
	page, err := livepage.New(livepage.Config{Conn: m.Conn()}) // with users on the server: a connection as a reader
	if err != nil {
		return err
	}
	health.Add("sites", c)
	handlers := health.Handlers()
	handlers["/metrics"] = seen.Handler()
	handlers[page.Path()] = page
	server := &probes.Server{Address: ":0", Handlers: handlers, Listening: listening}
	if err := m.Add(c, page, server); err != nil {
		return err
	}
	return m.Run(ctx)
}

// The page of a manager's controllers, at /debug/nagi/ of the listener that serves the probes.
func Example() {
	server, err := natstest.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, server.URL(), func(_ string, address net.Addr) { at <- address })
	}()
	select {
	case address := <-at:
		answer, err := http.Get("http://" + address.String() + "/debug/nagi/")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer answer.Body.Close()
		html, err := io.ReadAll(answer.Body)
		fmt.Println(answer.Status, strings.Contains(string(html), "<h1>Controllers</h1>"), err)
		stop()
		fmt.Println(<-ended)
	case err := <-ended:
		fmt.Println(err)
	}
	// Output:
	// 200 OK true <nil>
	// <nil>
}
