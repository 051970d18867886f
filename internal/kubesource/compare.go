package kubesource

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
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
	owned   bool // it names a primary of this controller
}

// live is what the API server has.
type live struct {
	objects map[string]known
	// versions are those of the lists by namespace; one of "" is of all.
	versions map[string]string
	latest   string // of versions
}

// versionFor returns the version of the list that would have an object; "" if it was not listed.
func (l *live) versionFor(key string) string {
	if version, all := l.versions[""]; all {
		return version
	}
	namespace, _, _ := cache.SplitMetaNamespaceKey(key)
	return l.versions[namespace]
}

// after reports whether a version comes after another one. Versions that cannot be compared do not.
func after(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// compare compares the store with a live list. found is the evidence that the view is old; nil if there is none.
// agrees says that the view is not old, whatever was found before.
//
// The rule: an object in the store that the list does not have so, and that is not newer than the list, has to change
// within settleTime. If it does not, and the informer has stayed at a version before the list's, the watch stands
// still; so it does if an object is missing that was made after that version, in a namespace where the store has others
// that this controller owns. If the informer has passed the list's version, the event is lost: etcd was restored, and
// has come to the old versions again.
func (v *view) compare(ctx context.Context) (found *outdated, agrees bool, err error) {
	from := v.informer.LastSyncResourceVersion()
	l, err := v.list(ctx)
	if err != nil {
		return nil, false, err
	}
	if order, err := resourceversion.CompareResourceVersion(l.latest, from); err != nil || order < 0 {
		v.answered(from, l.latest)
		return nil, false, err
	}
	wrong, missing := v.differences(l)
	if len(wrong)+len(missing) == 0 {
		return nil, v.caughtUp(l.latest), nil
	}
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-time.After(settleTime):
	}
	before := wrong
	wrong, missing = v.differences(l)
	maps.DeleteFunc(wrong, func(key string, stored known) bool {
		return before[key] != stored // it has changed meanwhile, so events come
	})
	return v.judge(l, from, wrong, missing), false, nil
}

// judge returns what the differences that stayed are evidence of; nil if they are of nothing.
func (v *view) judge(l *live, from string, wrong, missing map[string]known) *outdated {
	now := v.informer.LastSyncResourceVersion()
	if len(wrong) > 0 && !after(from, now) && !after(l.latest, now) {
		return &outdated{version: now, wentBack: true, err: fmt.Errorf("etcd was restored to an older state: "+
			"the informer shows %s, which the API server does not have, and is past its version %s; %s",
			anyOf(wrong), l.latest, whatToDo)}
	}
	if now != from {
		return nil // it moves, or was listed again
	}
	maps.Copy(wrong, v.unshown(l, missing, from))
	if len(wrong) == 0 {
		return nil
	}
	return &outdated{version: now, err: fmt.Errorf("the watch stands still, maybe its connection is half-open: "+
		"the informer stays at resource version %s, and of %s the API server, which is at %s, has something else "+
		"than it shows; %s", from, anyOf(wrong), l.latest, whatToDo)}
}

// caughtUp reports whether a list is late enough to show that nothing is lost any more: until a restored etcd has come
// to the version that the informer waits for, the informer is told nothing, whatever it shows now.
func (v *view) caughtUp(version string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.outdated == nil || !after(v.outdated.version, version)
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

// differences returns what the store has and the list does not have so, and what this controller's primaries own in the
// list and the store does not have at all.
func (v *view) differences(l *live) (wrong, missing map[string]known) {
	wrong, missing = map[string]known{}, map[string]known{}
	store := v.informer.GetStore()
	for _, item := range store.List() {
		obj, ok := source.MetaObject(item)
		if !ok {
			continue
		}
		key, stored := source.ObjectKey(obj), v.know(obj)
		listed := l.versionFor(key)
		if listed == "" || stored.version == "" || after(stored.version, listed) {
			continue
		}
		has, ok := l.objects[key]
		if !ok || has.version != stored.version || stored.uid != "" && has.uid != stored.uid {
			wrong[key] = stored // unless a transform of the informer has taken the uid off
		}
	}
	for key, object := range l.objects {
		if _, exists, err := store.GetByKey(key); object.owned && !exists && err == nil {
			missing[key] = object
		}
	}
	return wrong, missing
}

// unshown are those of the missing objects that the informer would show if its watch went on.
func (v *view) unshown(l *live, missing map[string]known, from string) map[string]known {
	if len(missing) == 0 {
		return nil
	}
	shown := sets.New[string]() // namespaces
	for _, item := range v.informer.GetStore().List() {
		if obj, ok := source.MetaObject(item); ok && v.owns(obj) {
			shown.Insert(obj.GetNamespace())
		}
	}
	unshown := map[string]known{}
	for key, object := range missing {
		namespace, _, _ := cache.SplitMetaNamespaceKey(key)
		if shown.Has(namespace) && after(object.version, from) {
			unshown[key] = object
		}
	}
	return unshown
}

func (v *view) know(obj metav1.Object) known {
	return known{uid: obj.GetUID(), version: obj.GetResourceVersion(), owned: v.owns(obj)}
}

func (v *view) owns(obj metav1.Object) bool { return v.kind != "" && owner.Of(obj).Kind == v.kind }

// list lists in all namespaces; where that is not allowed, in those of which the store has objects.
func (v *view) list(ctx context.Context) (*live, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	l := &live{objects: map[string]known{}, versions: map[string]string{}}
	err := v.listInto(ctx, l, "")
	if !apierrors.IsForbidden(err) {
		return l, err
	}
	namespaces := sets.New[string]()
	for _, key := range v.informer.GetStore().ListKeys() {
		namespace, _, _ := cache.SplitMetaNamespaceKey(key)
		namespaces.Insert(namespace)
	}
	if len(namespaces) == 0 || namespaces.Has("") {
		return nil, err
	}
	for namespace := range namespaces {
		if err := v.listInto(ctx, l, namespace); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (v *view) listInto(ctx context.Context, l *live, namespace string) error {
	version, err := v.errors.prober().EachLive(ctx, namespace, func(obj metav1.Object) {
		l.objects[source.ObjectKey(obj)] = v.know(obj)
	})
	if err != nil {
		return err
	}
	l.versions[namespace] = version
	if l.latest == "" || after(version, l.latest) {
		l.latest = version
	}
	return nil
}
