package after

import (
	"context"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/recorder"
)

func Run(ctx context.Context, cfg manager.Config, address string, dns DNS) error {
	cfg.Name = "sites"
	m, err := manager.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // after Run it does nothing
	seen, health := metrics.New(), probes.New()
	c, err := newController(ctx, m, dns, seen.Controller())
	if err != nil {
		return err
	}
	health.Add("sites", c)
	handlers := health.Handlers()
	handlers["/metrics"] = seen.Handler()
	if err := m.Add(c, &probes.Server{Address: address, Handlers: handlers}); err != nil {
		return err
	}
	return m.Run(ctx)
}

func newController(
	ctx context.Context, m *manager.Manager, dns DNS, seen controller.Option,
) (*controller.Controller[*Site], error) {
	theme := entity.WithIndex("theme", func(site *Site) []string { return []string{site.Spec.Theme} })
	sites, err := manager.Client[*Site](ctx, m,
		entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true, Indexes: []entity.Index{theme}})
	if err != nil {
		return nil, err
	}
	pages, err := manager.Client[*Page](ctx, m, entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true})
	if err != nil {
		return nil, err
	}
	themes, err := manager.Client[*Theme](ctx, m, entity.Config{Kind: "Theme", Bucket: "themes"})
	if err != nil {
		return nil, err
	}
	events, err := m.NewRecorder(recorder.Config{})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", sites, &SiteReconciler{Sites: sites, Pages: pages, DNS: dns, Events: events},
		controller.WithPrimary(controller.WithPredicate(controller.GenerationChanged())),
		controller.Owns(pages),
		controller.WatchesIndexed(themes, "theme"),
		controller.WithWorkers(4),
		controller.WithEventRecorder(events),
		seen)
}
