package entity

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/intern"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

type packedSpec struct {
	Host  string   `json:"host"`
	Paths []string `json:"paths"`
}

type packedSite = Object[packedSpec, None]

func packedCodec[T IEntity](t *testing.T) *codec[T] {
	t.Helper()
	cfg := Config{Kind: "Website", Bucket: "websites"}.withDefaults()
	return must(newCodec[T](cfg, newKeyspace(cfg)))
}

func ownedSite(i int) *packedSite {
	name := fmt.Sprint("site-", i)
	site := &packedSite{
		TypeMeta: metav1.TypeMeta{Kind: "Website", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: "12", Generation: 12,
			Labels: map[string]string{"app": "shop", "team": fmt.Sprint("team-", i%40)},
		},
		Spec: packedSpec{Host: name + ".example.com", Paths: []string{"/"}},
	}
	SetOwner(site, "Shop", fmt.Sprint("shop-", i), "instance")
	return site
}

// TestAnObjectIsUnpackedAsItWasPacked, whatever its metadata has.
func TestAnObjectIsUnpackedAsItWasPacked(t *testing.T) {
	p := newPacker(packedCodec[*packedSite](t), &intern.Pool{})
	for name, change := range map[string]func(*packedSite){
		"an owner":       func(*packedSite) {},
		"nothing":        func(s *packedSite) { s.Labels, s.Annotations = nil, nil },
		"labels alone":   func(s *packedSite) { s.Annotations = nil },
		"annotations":    func(s *packedSite) { s.Labels = nil },
		"the same names": func(s *packedSite) { s.Annotations = map[string]string{"app": "", "team": "x"} },
		"a namespace":    func(s *packedSite) { s.Namespace = "shops" },
		"the rest": func(s *packedSite) {
			s.UID, s.Finalizers, s.CreationTimestamp = "7", []string{"a"}, metav1.NewTime(time.Unix(1e9, 0))
			s.OwnerReferences, s.GenerateName = []metav1.OwnerReference{{Name: "b"}}, "c"
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, metadataOnly := range []bool{false, true} {
				site := ownedSite(1)
				change(site)
				if metadataOnly {
					site.Spec = packedSpec{}
				}
				want := site.DeepCopyObject()
				held := p.pack(site, metadataOnly)
				if got := p.unpack(held); !reflect.DeepEqual(got, want) {
					t.Errorf("only metadata %v: got %+v, want %+v", metadataOnly, got, want)
				}
				wanted := want.(*packedSite)
				if held.GetName() != wanted.Name || held.GetNamespace() != wanted.Namespace ||
					held.GetResourceVersion() != wanted.ResourceVersion || held.GetGeneration() != wanted.Generation ||
					!reflect.DeepEqual(held.GetLabels(), wanted.Labels) || !SameOwner(held, wanted) ||
					OwnerIndexValueOf(held) != OwnerIndexValueOf(wanted) {
					t.Errorf("only metadata %v: it is held as %+v", metadataOnly, held)
				}
			}
		})
	}
}

// TestACopyOfAPackedObjectChangesAlone: the informer marks one for those who hear of a delete.
func TestACopyOfAPackedObjectChangesAlone(t *testing.T) {
	p := newPacker(packedCodec[*packedSite](t), &intern.Pool{})
	for _, metadataOnly := range []bool{false, true} {
		held := p.pack(ownedSite(1), metadataOnly)
		gone := held.DeepCopyObject().(IEntity)
		annotations := gone.GetAnnotations()
		annotations["why"] = "deleted"
		gone.SetAnnotations(annotations)
		gone.SetResourceVersion("13")
		was, is := p.unpack(held).(*packedSite), p.unpack(gone).(*packedSite)
		if was.Annotations["why"] != "" || was.ResourceVersion != "12" {
			t.Errorf("only metadata %v: the original is %+v", metadataOnly, was)
		}
		if is.Annotations["why"] != "deleted" || is.ResourceVersion != "13" || is.Generation != 12 ||
			!IsOwnedBy(is, "Shop", "shop-1") {
			t.Errorf("only metadata %v: the copy is %+v", metadataOnly, is)
		}
		is.Labels["app"] = "other"
		if p.unpack(held).(*packedSite).Labels["app"] != "shop" {
			t.Errorf("only metadata %v: what was unpacked shares labels with the cache", metadataOnly)
		}
	}
}

// labelled has labels of its own.
type labelled struct{ packedSite }

func (l *labelled) GetLabels() map[string]string    { return map[string]string{"a": "own"} }
func (l *labelled) DeepCopyObject() kruntime.Object { out := *l; return &out }

func TestATypeWithLabelsOfItsOwnIsNotPacked(t *testing.T) {
	if newPacker(packedCodec[*labelled](t), &intern.Pool{}) != nil {
		t.Error("it is packed")
	}
}

// TestOwnersTakeLittleOfACache: it was 811 and 259 bytes for each object, and would be 1,308 and 1,269 unpacked.
func TestOwnersTakeLittleOfACache(t *testing.T) {
	const objects = 4000
	for _, c := range []struct {
		metadataOnly bool
		most         int
	}{{false, 1000}, {true, 350}} {
		d := &documentCache[*packedSite]{}
		d.packer = newPacker(packedCodec[*packedSite](t), &d.pool)
		all := make([]kruntime.Object, objects)
		before := reachable()
		for i := range all {
			site := ownedSite(i)
			if c.metadataOnly {
				site.Spec = packedSpec{}
			}
			all[i] = d.hold(site, !c.metadataOnly)
		}
		each := (reachable() - before) / objects
		runtime.KeepAlive(all)
		t.Logf("only metadata %v: %d bytes for each object", c.metadataOnly, each)
		if each > c.most {
			t.Errorf("only metadata %v: an object takes %d bytes of the cache, want at most %d", c.metadataOnly, each, c.most)
		}
	}
}

func reachable() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
