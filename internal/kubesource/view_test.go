package kubesource

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer has objects and a version, and counts what it is asked.
type apiServer struct {
	mu            sync.Mutex
	version       int64
	objects       map[string]*metav1.PartialObjectMetadata
	forbidden     bool // in all namespaces at once
	probes, lists int
}

func (s *apiServer) ask(namespace string) error {
	if s.forbidden && namespace == "" {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errDone)
	}
	return nil
}

func (s *apiServer) Probe(_ context.Context, namespace string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	return strconv.FormatInt(s.version, 10), s.ask(namespace)
}

func (s *apiServer) EachLive(_ context.Context, namespace string, f func(metav1.Object)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	for _, obj := range s.objects {
		if namespace == "" || obj.Namespace == namespace {
			f(obj)
		}
	}
	return strconv.FormatInt(s.version, 10), s.ask(namespace)
}

// at sets the server's version, and forgets what it was asked.
func (s *apiServer) at(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.probes, s.lists = version, 0, 0
}

func (s *apiServer) put(objects ...*metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range objects {
		s.objects[obj.Namespace+"/"+obj.Name] = obj
	}
}

func (s *apiServer) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

func (s *apiServer) asked() (probes, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probes, s.lists
}

// viewed is a source's health over a store and an API server, on the clock of a bubble.
type viewed struct {
	*watched
	server *apiServer
}

// viewOf has both at version 1000, and one object of the site "home" at version 900 in both.
func viewOf(t *testing.T) *viewed {
	v := &viewed{watched: watchOnly(t), server: &apiServer{objects: map[string]*metav1.PartialObjectMetadata{}}}
	v.errors.ProbeWith(v.server)
	v.informer.version.Store(1000)
	v.server.at(1000)
	v.server.put(versioned("settings", 900))
	v.shows(t, versioned("settings", 900))
	return v
}

func versioned(name string, version int64) *metav1.PartialObjectMetadata {
	obj := object(name, "home")
	obj.ResourceVersion = strconv.FormatInt(version, 10)
	return obj
}

func (v *viewed) shows(t *testing.T, objects ...*metav1.PartialObjectMetadata) {
	t.Helper()
	for _, obj := range objects {
		must(t, v.informer.GetIndexer().Add(obj))
	}
}

// bookmark lets the informer come to a version, as a bookmark or an event does.
func (v *viewed) bookmark(version int64) { v.informer.version.Store(version) }

func (v *viewed) healthy(t *testing.T) {
	t.Helper()
	if err := v.err(); err != nil {
		t.Errorf("it is degraded: %v", err)
	}
}

// TestAServerBelowTheInformerWasRestored, and the view is old until the informer is below that version.
func TestAServerBelowTheInformerWasRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.at(905)
		advance(followSilence - time.Second)
		v.healthy(t)
		advance(2 * time.Second)
		says(t, v.err(), "older state", "905", "1000", "restart the process", "new informer")
		v.bookmark(1001)
		advance(time.Hour)
		says(t, v.err(), "older state")
		answered := v.answered.Load()
		v.bookmark(906)
		advance(2 * followTick)
		v.healthy(t)
		if n := v.answered.Load() - answered; n != 1 {
			t.Errorf("what waits for it was woken %d times", n)
		}
	})
}

// TestARestoredServerThatHasCaughtUpIsBelievedWhenAllAgrees, and neither before it has nor while anything differs.
func TestARestoredServerThatHasCaughtUpIsBelievedWhenAllAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.at(950)
		advance(followSilence + 2*time.Second)
		says(t, v.err(), "older state")
		advance(time.Hour) // all agrees, but what changes now would not be shown
		says(t, v.err(), "older state")
		v.server.put(versioned("lost", 970))
		v.server.at(1100)
		v.bookmark(1100)
		advance(time.Hour)
		says(t, v.err(), "older state")
		v.shows(t, versioned("lost", 970))
		advance(2 * comparePause)
		v.healthy(t)
	})
}

// TestAProbeInOneNamespaceTellsTheVersion where all may not be listed.
func TestAProbeInOneNamespaceTellsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.forbidden = true
		v.server.at(905)
		advance(followSilence + 2*time.Second)
		says(t, v.err(), "older state")
	})
}

// TestAWatchThatStandsStill: the server has something else than the store shows, and the informer stays where it is.
func TestAWatchThatStandsStill(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*viewed)
		stale  bool
	}{
		"changed": {func(v *viewed) { v.server.put(versioned("settings", 1005)) }, true},
		"gone":    {func(v *viewed) { v.server.remove("shop/settings") }, true},
		"replaced": {func(v *viewed) {
			other := versioned("settings", 1005)
			other.UID = "another"
			v.server.put(other)
		}, true},
		"made beside others": {func(v *viewed) { v.server.put(versioned("new", 1005)) }, true},
		"forbidden, changed": {func(v *viewed) {
			v.server.forbidden = true
			v.server.put(versioned("settings", 1005))
		}, true},
		"not covered since ever": {func(v *viewed) { v.server.put(versioned("other", 800)) }, false},
		"of nobody": {func(v *viewed) {
			other := object("other", "")
			other.ResourceVersion = "1005"
			v.server.put(other)
		}, false},
		"in another namespace": {func(v *viewed) {
			other := versioned("other", 1005)
			other.Namespace = "elsewhere"
			v.server.put(other)
		}, false},
		"nothing": {func(*viewed) {}, false},
	} {
		for sign, after := range map[string]time.Duration{
			"own write": 2*followTick + settleTime,
			"silence":   followSilence + bookmarkPatience + settleTime + 4*followTick,
		} {
			t.Run(name+" by "+sign, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := viewOf(t)
					defer v.stop()
					test.change(v)
					v.server.at(1010)
					if sign == "own write" {
						v.errors.NoteUnshown()
					}
					advance(after)
					if !test.stale {
						v.healthy(t)
						return
					}
					says(t, v.err(), "stands still", "restart the process", "new informer")
					v.bookmark(1005)
					advance(2 * followTick)
					v.healthy(t)
				})
			})
		}
	}
}

// TestAnEventThatIsOnItsWayIsNotMissed: what the list has is shown within settleTime, or the informer moves.
func TestAnEventThatIsOnItsWayIsNotMissed(t *testing.T) {
	for name, arrive := range map[string]func(*testing.T, *viewed){
		"it comes": func(t *testing.T, v *viewed) {
			v.shows(t, versioned("settings", 1005))
			v.bookmark(1005)
		},
		"others come first": func(_ *testing.T, v *viewed) { v.bookmark(1003) },
		"listed again":      func(_ *testing.T, v *viewed) { v.bookmark(999) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := viewOf(t)
				defer v.stop()
				v.server.put(versioned("settings", 1005))
				v.server.at(1010)
				v.errors.NoteUnshown()
				advance(followTick + settleTime/2)
				arrive(t, v)
				advance(settleTime)
				v.healthy(t)
			})
		})
	}
}

// TestAnInformerThatHasPassedAListAndShowsSomethingElseHasLostEvents, as where a restored server has caught up before
// anybody asked.
func TestAnInformerThatHasPassedAListAndShowsSomethingElseHasLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.put(versioned("settings", 880))
		v.errors.NoteUnshown()
		advance(2*followTick + settleTime)
		says(t, v.err(), "older state", "shop/settings")
	})
}

// TestASignThatProvesToBeNothingCostsFewLists, and the next one is looked at all the same.
func TestASignThatProvesToBeNothingCostsFewLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.at(1010)
		for range 3600 {
			v.errors.NoteUnshown()
			advance(time.Second)
		}
		if _, lists := v.server.asked(); lists < 3 || lists > 15 {
			t.Errorf("%d lists in an hour of such signs", lists)
		}
		v.server.put(versioned("settings", 1005))
		for range int(comparePauseMost / time.Second) {
			v.errors.NoteUnshown()
			advance(time.Second)
		}
		advance(settleTime)
		says(t, v.err(), "stands still")
	})
}

// TestAQuietInformerCostsNoLists: bookmarks follow the probe.
func TestAQuietInformerCostsNoLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		for n := range int64(100) {
			v.server.mu.Lock()
			v.server.version = 2000 + 10*n
			v.server.mu.Unlock()
			advance(followSilence + 62*time.Second)
			v.bookmark(2000 + 10*n)
		}
		if probes, lists := v.server.asked(); probes > 101 || lists > 0 {
			t.Errorf("%d probes and %d lists", probes, lists)
		}
		v.healthy(t)
	})
}

// TestVersionsThatCannotBeComparedSayNothing.
func TestVersionsThatCannotBeComparedSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.at(0)
		v.server.put(versioned("settings", 1))
		v.errors.NoteUnshown()
		advance(time.Hour)
		v.healthy(t)
	})
}

// TestATransformThatTakesTheUIDOffIsNoDifference.
func TestATransformThatTakesTheUIDOffIsNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		stored := versioned("settings", 900)
		stored.UID = types.UID("")
		v.shows(t, stored)
		v.errors.NoteUnshown()
		advance(time.Minute)
		v.healthy(t)
	})
}
