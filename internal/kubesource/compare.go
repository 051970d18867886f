package kubesource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// settleTime is how long an informer has to show what a list has: an event may be on its way.
	settleTime = 3 * time.Second
	// listPatience is how long a comparison's list may take.
	listPatience = time.Minute
)

// known is an object as a list or the store has it.
type known struct {
	uid     types.UID
	version string
}

func know(obj metav1.Object) known { return known{obj.GetUID(), obj.GetResourceVersion()} }

// live is what the API server has.
type live struct {
	objects map[string]known
	ours    sets.Set[string] // of objects
	// versions are those of the lists by namespace; one of "" is of all.
	versions          map[string]string
	latest, namespace string // of versions
}

// versionFor returns the version of the list that would have an object; "" if it was not listed.
func (l *live) versionFor(key string) string {
	if version, all := l.versions[""]; all {
		return version
	}
	return l.versions[namespaceOf(key)]
}

// comparison compares an informer's store with a live list.
type comparison struct {
	*view
	prober Prober
	claims []owner.Claim // of the controllers whose secondaries the informer shows
	from   string        // the version of the store when the list was asked for
	live   live
}

// compare compares the store with a live list. found is the evidence that the view is old; nil if there is none.
// agrees says that the view is not old, whatever was found before, which is old.
//
// The rule: an object in the store that the list does not have so, and that is not newer than the list, has to change
// within settleTime. If it does not, and the informer has stayed at a version before the list's, the watch stands
// still; so it does if a covered object is missing that was made after that version. If the store has passed the list's
// version, the event is lost: etcd was restored, and has come to the old versions again.
func (v *view) compare(ctx context.Context, old *outdated) (found *outdated, agrees bool, err error) {
	c := &comparison{view: v, prober: v.errors.prober(), claims: v.errors.claims(), from: v.version()}
	if old != nil && old.wentBack { // until the API server has come to its version the informer is told nothing
		_, server, err := v.errors.ask(ctx)
		if err != nil || after(old.version, server) {
			return nil, false, err
		}
	}
	if err := c.list(ctx); err != nil {
		return nil, false, err
	}
	order, err := resourceversion.CompareResourceVersion(c.live.latest, c.from)
	if err != nil {
		return nil, false, err
	}
	if order < 0 {
		v.answered(ctx, c.live.namespace, c.from, c.live.latest)
		return nil, false, nil
	}
	wrong, missing := c.differences()
	if len(wrong)+len(missing) > 0 {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(settleTime):
		}
		before := wrong
		wrong, missing = c.differences()
		stayed := maps.Clone(wrong)
		maps.DeleteFunc(stayed, func(key string, stored known) bool {
			return before[key] != stored // it has changed meanwhile, so events come
		})
		found = c.judge(stayed, missing)
	}
	if old == nil || !old.wentBack {
		missing = c.madeLater(missing)
	}
	return found, found == nil && len(wrong)+len(missing) == 0, nil
}

// judge returns what the differences that stayed are evidence of; nil if they are of nothing.
func (c *comparison) judge(wrong, missing map[string]known) *outdated {
	now, latest := c.version(), c.live.latest
	if len(wrong) > 0 && !after(c.from, now) && !after(latest, now) {
		return &outdated{version: now, wentBack: true, err: fmt.Errorf("etcd was restored to an older state: "+
			"the informer shows %s, which the API server does not have, and is past its version %s; %s",
			anyOf(wrong), latest, whatToDo)}
	}
	if now != c.from {
		return nil // it moves, or was listed again
	}
	maps.Copy(wrong, c.madeLater(missing))
	if len(wrong) == 0 {
		return nil
	}
	return &outdated{version: now, err: fmt.Errorf("the watch stands still, maybe its connection is half-open: "+
		"the informer stays at resource version %s, and of %s the API server, which is at %s, has something else "+
		"than it shows; %s", now, anyOf(wrong), latest, whatToDo)}
}

func anyOf(objects map[string]known) string {
	for key, object := range objects {
		if len(objects) > 1 {
			return fmt.Sprintf("%d objects, as %q at %s", len(objects), key, object.version)
		}
		return fmt.Sprintf("%q at %s", key, object.version)
	}
	return ""
}

// differences returns what the store has and the list does not have so, and what the list has and the store should have
// and does not have at all.
func (c *comparison) differences() (wrong, missing map[string]known) {
	wrong, missing = map[string]known{}, map[string]known{}
	store := c.informer.GetStore()
	for _, item := range store.List() {
		obj, ok := source.MetaObject(item)
		if !ok {
			continue
		}
		key, stored := source.ObjectKey(obj), know(obj)
		listed := c.live.versionFor(key)
		if listed == "" || stored.version == "" || after(stored.version, listed) {
			continue
		}
		has, ok := c.live.objects[key]
		if !ok || has.version != stored.version || stored.uid != "" && has.uid != stored.uid {
			wrong[key] = stored // unless a transform of the informer has taken the uid off
		}
	}
	for key := range c.live.ours {
		if _, exists, err := store.GetByKey(key); !exists && err == nil {
			missing[key] = c.live.objects[key]
		}
	}
	return wrong, c.covered(missing)
}

// covered are those of the missing objects that the informer probably covers: it shows some of ours in their namespace,
// or in any if it is not confined to one.
func (c *comparison) covered(missing map[string]known) map[string]known {
	if len(missing) == 0 {
		return missing
	}
	all, ours := sets.New[string](), sets.New[string]()
	for _, item := range c.informer.GetStore().List() {
		if obj, ok := source.MetaObject(item); ok {
			all.Insert(obj.GetNamespace())
			if c.owns(obj) {
				ours.Insert(obj.GetNamespace())
			}
		}
	}
	confined := all.Len() < 2
	maps.DeleteFunc(missing, func(key string, _ known) bool {
		return !ours.Has(namespaceOf(key)) && (confined || ours.Len() == 0)
	})
	return missing
}

// madeLater are those of the missing objects that were written after the store's version. Others were passed over, so
// the informer does not cover them.
func (c *comparison) madeLater(missing map[string]known) map[string]known {
	later := maps.Clone(missing)
	maps.DeleteFunc(later, func(_ string, object known) bool { return !after(object.version, c.from) })
	return later
}

// owns reports whether a controller over the informer owns an object, which another installation's does not.
func (c *comparison) owns(obj metav1.Object) bool {
	return slices.ContainsFunc(c.claims, func(claim owner.Claim) bool { return claim.IsOwned(obj) })
}

// list lists in all namespaces; where that is not allowed, in those of which the store has objects and it is.
func (c *comparison) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	c.live = live{objects: map[string]known{}, ours: sets.New[string](), versions: map[string]string{}}
	err := c.listIn(ctx, "")
	if !apierrors.IsForbidden(err) {
		return err
	}
	for namespace := range namespacesIn(c.informer.GetStore()) {
		if err := c.listIn(ctx, namespace); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	if len(c.live.versions) == 0 {
		return err
	}
	return nil
}

func (c *comparison) listIn(ctx context.Context, namespace string) error {
	version, err := c.prober.EachLive(ctx, namespace, func(obj metav1.Object) {
		key := source.ObjectKey(obj)
		c.live.objects[key] = know(obj)
		if c.owns(obj) {
			c.live.ours.Insert(key)
		}
	})
	if err != nil {
		return err
	}
	c.live.versions[namespace] = version
	if c.live.latest == "" || after(version, c.live.latest) {
		c.live.latest, c.live.namespace = version, namespace
	}
	return nil
}
