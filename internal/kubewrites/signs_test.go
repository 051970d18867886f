package kubewrites

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// signs counts what an overlay tells of an old cache.
type signs struct{ suspected, unshown atomic.Int64 }

func (s *signs) Suspect()     { s.suspected.Add(1) }
func (s *signs) NoteUnshown() { s.unshown.Add(1) }

// syncedInformer has a store that the test fills itself.
type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

// TestAWriteBelowTheCacheIsASign that etcd went back; one that the cache shows already is none.
func TestAWriteBelowTheCacheIsASign(t *testing.T) {
	for name, test := range map[string]struct {
		write, cached metav1.Object // none: not in the cache
		sign          bool
	}{
		"above":                    {write: version("a", "1001")},
		"above what is cached":     {write: version("a", "1001"), cached: version("a", "900")},
		"shown":                    {write: version("a", "900"), cached: version("a", "900")},
		"below, not cached":        {write: version("a", "905"), sign: true},
		"below what is cached":     {write: version("a", "905"), cached: version("a", "950"), sign: true},
		"another one of that name": {write: version("b", "905"), cached: version("a", "950"), sign: true},
		"a delete has no version":  {cached: version("a", "950")},
	} {
		synctest.Test(t, func(t *testing.T) {
			informer := syncedInformer{cache.NewSharedIndexInformer(
				&cache.ListWatch{}, &corev1.ConfigMap{}, 0, cache.Indexers{})}
			s := &signs{}
			o := NewOverlay(informer, s)
			var items []any
			if test.cached != nil {
				items = append(items, test.cached)
			}
			must(t, informer.GetStore().Replace(items, "1000"))
			w := Write{uid: "a"}
			if test.write != nil {
				w = WriteOf(test.write)
			}
			o.Add(t.Context(), "shop/settings", w)
			if signed := s.suspected.Load() > 0; signed != test.sign {
				t.Errorf("%s: a sign is %v, want %v", name, signed, test.sign)
			}
			time.Sleep(2 * longest)
		})
	}
}

// TestAWriteThatTheCacheDoesNotShowIsASign once there was time for it, until the cache shows it.
func TestAWriteThatTheCacheDoesNotShowIsASign(t *testing.T) {
	for name, test := range map[string]struct {
		write Write
		show  func(cache.Store) error
	}{
		"write":  {WriteOf(version("a", "10")), func(s cache.Store) error { return s.Update(version("a", "10")) }},
		"delete": {Write{uid: "a"}, func(s cache.Store) error { return s.Delete(version("a", "9")) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			o, store := overlaid()
			s := o.signs.(*signs)
			must(t, store.Add(version("a", "9")))
			o.Add(t.Context(), "shop/settings", test.write)
			time.Sleep(lateAfter)
			if n := s.unshown.Load(); n > 0 {
				t.Errorf("%s: it was a sign %d times before there was time", name, n)
			}
			time.Sleep(pruneEvery)
			synctest.Wait()
			n := s.unshown.Load()
			if n != 1 {
				t.Errorf("%s: it was a sign %d times, want once", name, n)
			}
			must(t, test.show(store))
			time.Sleep(2 * pruneEvery)
			if s.unshown.Load() != n {
				t.Errorf("%s: it is a sign though the cache shows it", name)
			}
		})
	}
}
