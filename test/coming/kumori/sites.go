// Package kumori has the controller that docs/from-kumori.md shows. Its tests run the sentences of that page.
package kumori

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type SiteSpec struct {
	Title string `json:"title"`
	Theme string `json:"theme,omitempty"`
}

type SiteStatus struct {
	Published bool `json:"published"`
}

type (
	// Site is the primary.
	Site = entity.Object[SiteSpec, SiteStatus]
	// Page is what a site owns.
	Page = entity.Object[SiteSpec, entity.None]
	// Theme is what sites refer to.
	Theme = entity.Object[entity.None, entity.None]

	none = *entity.None
)

// Clients are those of the controller.
type Clients struct {
	Sites  *entity.Client[*Site]
	Pages  *entity.Client[*Page]
	Themes *entity.Client[*Theme]
}

// SiteController publishes a site as its pages.
type SiteController struct {
	*controllerruntime.ControllerRuntime[*Site, *Page, none, none, none, *Theme, none, none, none]
	Clients
}

// NewSiteController returns one that has not run.
func NewSiteController(c Clients) *SiteController {
	s := &SiteController{Clients: c}
	s.ControllerRuntime = controllerruntime.NewControllerRuntime[*Site, *Page, none, none, none, *Theme, none, none, none](
		"sites", "Site",
		nil,      // a Kubernetes clientset, for events about Kubernetes objects
		c.Sites,  // the primary
		nil, nil, // informers of Kubernetes secondaries, and tertiaries
		c.Pages, nil, nil, nil, // secondaries in NATS
		c.Themes, nil, nil, nil, // tertiaries in NATS
		nil, // external clients
		time.Minute,
	)
	s.SetCustomController(s)
	return s
}

// SyncHandler makes the world match a site, or cleans up after one that is gone.
func (c *SiteController) SyncHandler(key string) error {
	ctx := c.Context(key)
	site, err := c.Sites.Lister().Get(key)
	if apierrors.IsNotFound(err) {
		return c.cleanUp(ctx, key)
	}
	if err != nil {
		return err
	}
	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name}}
	if _, err := controller.CreateOrUpdate(ctx, c.Pages, page, func(page *Page) error {
		page.Spec.Title = site.Spec.Title
		return nil
	}); err != nil {
		return err
	}
	site.Status.Published = true
	return controller.SetStatus(ctx, site)
}

func (c *SiteController) cleanUp(ctx context.Context, key string) error {
	pages, err := c.Pages.Lister().OwnedBy("Site", key)
	for _, page := range pages {
		if gone := c.Pages.Delete(ctx, page.Name); !apierrors.IsNotFound(gone) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
