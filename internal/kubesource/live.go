package kubesource

import (
	"context"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// livePatience is how long the lists of what a primary owns may take.
	livePatience = time.Minute
	// refusalPatience is for how long the API server may refuse these lists before the cache alone decides: one that
	// has just started refuses everybody, and has no paths of CustomResourceDefinitions, for some seconds.
	refusalPatience = 30 * time.Second
	// refusalForgotten is after what time without a list it is not known whether it was refused all along.
	refusalForgotten = 5 * time.Minute
)

// OwnedLive asks the API server for what a primary owns. The error is marked if the server did not answer. Where it
// refuses for refusalPatience, by rights or because it has no such resource, only what can be read one by one is found,
// and the host is told.
func (s *Source) OwnedLive(ctx context.Context, key string) ([]metav1.Object, error) {
	d, ok := s.config.Deleter.(LiveOwner)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	namespaces := func() []string { return s.reach.namespaces(s.informer, key) }
	objects, err := d.OwnedLive(ctx, s.config.Kind, key, namespaces)
	refused := apierrors.IsForbidden(err) || kubeapi.UnknownResource(err)
	if lasts, news := s.reach.refused(refused); !lasts {
		return objects, s.health.errors.NoteUnanswered(err)
	} else if news {
		klog.FromContext(ctx).Info("The API server refuses to list, so when a teardown ends the cache alone tells "+
			"what is left: grant the verb list, in a ClusterRole, or in a Role of each namespace of its objects",
			"source", s.name, "err", err)
	}
	if len(objects) == 0 {
		s.host.Unlisted()
	}
	return objects, nil
}

// reach is where a source may list. The zero value is ready.
type reach struct {
	mu     sync.Mutex
	had    sets.Set[string] // namespaces in which the source has deleted something
	since  time.Time        // of the refusal; zero: there is none
	latest time.Time
	told   notify.Fact
}

// deletedIn remembers a namespace: what was there may have been the last that the cache had of it.
func (r *reach) deletedIn(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.had == nil {
		r.had = sets.New[string]()
	}
	r.had.Insert(namespace)
}

// namespaces are those of all that the source shows or has deleted, and that of the primary.
func (r *reach) namespaces(informer cache.SharedIndexInformer, primary string) []string {
	r.mu.Lock()
	all := r.had.Clone()
	r.mu.Unlock()
	if all == nil {
		all = sets.New[string]()
	}
	for _, key := range append(informer.GetStore().ListKeys(), primary) {
		namespace, _, _ := cache.SplitMetaNamespaceKey(key)
		all.Insert(namespace)
	}
	return sets.List(all.Delete(""))
}

// refused notes whether the last list was. lasts says that lists are refused for refusalPatience, and news that this is
// said for the first time.
func (r *reach) refused(refused bool) (lasts, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !refused {
		r.since, r.told = time.Time{}, notify.Fact{}
		return false, false
	}
	if r.since.IsZero() || now.Sub(r.latest) > refusalForgotten {
		r.since = now
	}
	r.latest = now
	lasts = now.Sub(r.since) >= refusalPatience
	return lasts, lasts && r.told.Tell("refused")
}

// freed is for an object that is gone, or that another owns by now.
func (s *Source) freed(obj metav1.Object) {
	for _, key := range s.Freed(source.ObjectKey(obj)) {
		s.host.Resume(key)
	}
}
