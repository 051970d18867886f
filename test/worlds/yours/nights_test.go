// Package yours tries a controller in worlds as a user of Nagi does: with what package worlds exports, and nothing else.
package yours

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/worlds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The controller: each site owns a page of the same name, with the site's title.
type (
	titled struct {
		Title string `json:"title"`
	}
	site = entity.Object[titled, entity.None]
	page = entity.Object[titled, entity.None]
)

type reconciler struct {
	sites *entity.Client[*site]
	pages *entity.Client[*page]
}

func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	s, err := r.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	p := &page{ObjectMeta: metav1.ObjectMeta{Name: req.Key}}
	_, err = controller.CreateOrUpdate(ctx, r.pages, p, func(p *page) error {
		p.Spec.Title = s.Spec.Title
		return nil
	})
	return controller.Result{}, err
}

// TestSoakNights plays three nights; N is how many.
func TestSoakNights(t *testing.T) {
	worlds.Nights(t, func(*testing.T, worlds.Plan) worlds.Subject {
		return worlds.Subject{
			Primaries: "sites", Owned: []string{"pages"},
			Start:    startReplica,
			Document: func(_ *rand.Rand, n int) []byte { return fmt.Appendf(nil, `{"spec":{"title":"t%d"}}`, n) },
			Wants:    func(_ []byte, bucket, key string) bool { return true },
			Agrees:   agrees,
		}
	}, worlds.Seeds{From: 1, N: 3})
}

// startReplica makes what main makes of one replica, with the world's connection and options.
func startReplica(ctx context.Context, p *worlds.Process) (worlds.Controller, error) {
	sites, err := entity.NewClient[*site](ctx, p.JetStream,
		entity.Config{Kind: "Site", Bucket: "sites", CompareInterval: p.Plan.Compare})
	if err != nil {
		return nil, err
	}
	p.Closing(sites.Close)
	pages, err := entity.NewClient[*page](ctx, p.JetStream, entity.Config{
		Kind: "Page", Bucket: "pages", StatusBucket: entity.NoStatusBucket, CompareInterval: p.Plan.Compare,
	})
	if err != nil {
		return nil, err
	}
	p.Closing(pages.Close)
	return controller.New("sites", sites, p.Reconciler(&reconciler{sites, pages}),
		append(p.Options(), controller.Owns(pages))...)
}

// agrees says what is not as it should be, and which pages are left of sites that are gone.
func agrees(s worlds.Snapshot) (wrong, left []string) {
	for key, d := range s.Primaries {
		if want, is := titleOf(d), titleOf(s.Owned["pages"][key]); is != want {
			wrong = append(wrong, fmt.Sprintf("page %s has the title %q, want %q", key, is, want))
		}
	}
	for key := range s.Owned["pages"] {
		if _, there := s.Primaries[key]; !there {
			left = append(left, fmt.Sprintf("page %s, whose site is gone", key))
		}
	}
	return wrong, left
}

func titleOf(d worlds.Document) string {
	var one struct{ Spec titled }
	_ = json.Unmarshal(d.Value, &one)
	return one.Spec.Title
}
