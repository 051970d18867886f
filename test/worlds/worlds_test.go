package worlds

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

var (
	from  = flag.Uint64("from", 1, "the first seed")
	seeds = flag.Int("seeds", 2, "how many seeds")
	slots = flag.Int("shards", -1, "into how many slots the keys are divided that all replicas share; 0: one works; "+
		"-1: 16 in nights of each fifth seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

type (
	siteSpec struct {
		Title string `json:"title"`
		Pages int    `json:"pages"`
	}
	siteStatus struct {
		Note string `json:"note,omitempty"`
	}
	pageSpec struct {
		Title string `json:"title"`
	}
	site = entity.Object[siteSpec, siteStatus]
	page = entity.Object[pageSpec, entity.None]
)

// sites own pages in NATS.
func sites(*testing.T, Plan) Subject {
	return Subject{
		Primaries: "sites", Owned: []string{"pages"},
		Start: startSites,
		Document: func(r *rand.Rand, n int) []byte {
			return fmt.Appendf(nil, `{"spec":{"title":"t%d","pages":%d}}`, n, 1+r.IntN(3))
		},
		Wants: func(document []byte, _, key string) bool {
			var s site
			_ = json.Unmarshal(document, &s)
			_, number, _ := strings.Cut(key, ".")
			i, err := strconv.Atoi(number)
			return err == nil && i < s.Spec.Pages
		},
		Agrees: agreeSites,
	}
}

func pageName(site string, i int) string { return fmt.Sprintf("%s.%d", site, i) }

// clientsOf are the clients of one replica.
func clientsOf(ctx context.Context, p *Process) (*entity.Client[*site], *entity.Client[*page], error) {
	config := entity.Config{
		Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage, CompareInterval: p.Plan.Compare,
	}
	if p.Plan.File {
		config.Storage = jetstream.FileStorage
	}
	sites, err := entity.NewClient[*site](ctx, p.JetStream, config)
	if err != nil {
		return nil, nil, err
	}
	p.Closing(sites.Close)
	config.Kind, config.Bucket, config.StatusBucket = "Page", "pages", entity.NoStatusBucket
	pages, err := entity.NewClient[*page](ctx, p.JetStream, config)
	if err != nil {
		return nil, nil, err
	}
	p.Closing(pages.Close)
	return sites, pages, nil
}

func startSites(ctx context.Context, p *Process) (Controller, error) {
	sites, pages, err := clientsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	return controller.New("sites", sites, p.Reconciler(reconcilerOf(p, sites, pages)), append(p.Options(),
		controller.Owns(pages, controller.WithPrune()))...)
}

func reconcilerOf(p *Process, sites *entity.Client[*site], pages *entity.Client[*page]) controller.Reconciler {
	return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		for i := range s.Spec.Pages {
			one := &page{ObjectMeta: metav1.ObjectMeta{Name: pageName(req.Key, i)}}
			did, err := controller.CreateOrUpdate(ctx, pages, one, func(one *page) error {
				one.Spec.Title = s.Spec.Title
				return nil
			})
			if err != nil {
				return controller.Result{}, err
			}
			if did != controller.OperationResultNone { // else it may be another replica's, which the cache has not yet
				shows, err := pages.Lister().Get(one.Name)
				p.ReadsBack(one.Name, revisionOf(one), revisionOf(shows), err)
			}
		}
		s.Status.Note = s.Spec.Title
		if p.Plan.Dice("status").IntN(2) == 0 {
			return controller.Result{}, sites.UpdateStatus(ctx, s)
		}
		return controller.Result{}, controller.SetStatus(ctx, s)
	})
}

func revisionOf(p *page) uint64 {
	if p == nil {
		return 0
	}
	n, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
	return n
}

func titleOf(d Document) string {
	var s site
	_ = json.Unmarshal(d.Value, &s)
	return s.Spec.Title
}

// agreeSites wants each site's pages and no others.
func agreeSites(s Snapshot) (says, left []string) {
	pages := s.Owned["pages"]
	for key, doc := range s.Primaries {
		var one site
		_ = json.Unmarshal(doc.Value, &one)
		var status siteStatus
		_ = json.Unmarshal(recordOf(s.Records[key]).Status, &status)
		if status.Note != one.Spec.Title {
			says = append(says, fmt.Sprintf("%s has the title %s and the note %s", key, one.Spec.Title, status.Note))
		}
		for i := range one.Spec.Pages {
			var p page
			_ = json.Unmarshal(pages[pageName(key, i)].Value, &p)
			if p.Spec.Title != one.Spec.Title {
				says = append(says, fmt.Sprintf("page %d of %s has the title %q, want %s", i, key, p.Spec.Title, one.Spec.Title))
			}
		}
	}
	for name := range pages {
		key, number, _ := strings.Cut(name, ".")
		i, _ := strconv.Atoi(number)
		var one site
		_ = json.Unmarshal(s.Primaries[key].Value, &one)
		if _, there := s.Primaries[key]; !there {
			left = append(left, fmt.Sprintf("page %s of a site that is gone", name))
		} else if i >= one.Spec.Pages {
			says = append(says, fmt.Sprintf("page %s, which its site does not want", name))
		}
	}
	return says, left
}

// TestSoakWorlds plays sites with pages, with disks and with ConfigMaps in turn.
func TestSoakWorlds(t *testing.T) {
	subjects := []Maker{sites, disks, settings}
	for i := range *seeds {
		seed := *from + uint64(i)
		Nights(t, func(t *testing.T, p Plan) Subject { return subjects[p.Seed%3](t, p) }, Seeds{seed, 1, slotsOf(seed)})
	}
}

// slotsOf is into how many slots the keys are divided in the night of a seed. It goes by the seed alone, so that a night
// of many is played again without a word of shards.
func slotsOf(seed uint64) int {
	switch {
	case *slots >= 0:
		return *slots
	case seed%5 == 0:
		return 16
	}
	return 0
}
