package kubesource

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
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
	forbidden     func(namespace string) bool
	down          error
	notOlderThan  func(ctx context.Context, version string) error // for one that is yet to come
	probes, lists int
}

func (s *apiServer) askLocked(namespace string) error {
	if s.forbidden != nil && s.forbidden(namespace) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errDone)
	}
	return s.down
}

// inAllAtOnce is what may be forbidden.
func inAllAtOnce(namespace string) bool { return namespace == "" }

func (s *apiServer) Probe(ctx context.Context, namespace, notOlderThan string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	version := strconv.FormatInt(s.version, 10)
	if after(notOlderThan, version) {
		refuse := s.notOlderThan
		s.mu.Unlock()
		err := refuse(ctx, notOlderThan)
		s.mu.Lock()
		return version, err
	}
	return version, s.askLocked(namespace)
}

// refuses is how etcd answers. Its error is wrapped as that of a handle is.
func refuses(context.Context, string) error {
	err := apierrors.NewTimeoutError("Too large resource version: 1000, current: 905", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return fmt.Errorf("list configmaps: %w", err)
}

// waits is how an API server answers that keeps a cache, seen over client-go, which asks again and again.
func waits(ctx context.Context, _ string) error {
	<-ctx.Done()
	return lost(ctx.Err())
}

// ignores is an aggregated API server that knows nothing of versions.
func ignores(context.Context, string) error { return nil }

func (s *apiServer) EachLive(_ context.Context, namespace string, f func(metav1.Object)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if err := s.askLocked(namespace); err != nil {
		return "", err
	}
	for _, obj := range s.objects {
		if namespace == "" || obj.Namespace == namespace {
			f(obj)
		}
	}
	return strconv.FormatInt(s.version, 10), nil
}

// set changes how the server is.
func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
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
	v := &viewed{watched: watchOnly(t), server: &apiServer{
		objects: map[string]*metav1.PartialObjectMetadata{}, notOlderThan: refuses,
	}}
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

// catchUp has the informer show all that the server has.
func (v *viewed) catchUp(t *testing.T) {
	t.Helper()
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	var items []any
	for _, obj := range v.server.objects {
		items = append(items, obj)
	}
	must(t, v.informer.GetIndexer().Replace(items, ""))
	v.bookmark(v.server.version)
}

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
		advance(comparePauseMost + settleTime)
		v.healthy(t)
	})
}

// TestAProbeInOneNamespaceTellsTheVersion where all may not be listed.
func TestAProbeInOneNamespaceTellsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.set(func(s *apiServer) { s.forbidden = inAllAtOnce })
		v.server.at(905)
		advance(followSilence + 2*time.Second)
		says(t, v.err(), "older state")
	})
}

// TestOneSmallerVersionIsNoProofThatEtcdWentBack: the API server has to say so when it is asked, too.
func TestOneSmallerVersionIsNoProofThatEtcdWentBack(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*viewed) func(context.Context, string) error
		proof  bool
	}{
		"refuses": {func(*viewed) func(context.Context, string) error { return refuses }, true},
		"waits":   {func(*viewed) func(context.Context, string) error { return waits }, true},
		"ignores": {func(*viewed) func(context.Context, string) error { return ignores }, false},
		"fails": {func(*viewed) func(context.Context, string) error {
			return func(context.Context, string) error { return apierrors.NewInternalError(errDone) }
		}, false},
		"is away": {func(v *viewed) func(context.Context, string) error {
			return func(ctx context.Context, version string) error {
				v.server.set(func(s *apiServer) { s.down = lost(syscall.ECONNREFUSED) })
				return waits(ctx, version)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := viewOf(t)
				defer v.stop()
				v.server.set(func(s *apiServer) { s.version, s.notOlderThan = 905, test.answer(v) })
				advance(followSilence + followTick + 2*waitsAfter)
				if err := v.errors.view.err(); (err != nil) != test.proof {
					t.Errorf("it is taken for a proof: %v, want %v", err, test.proof)
				}
			})
		})
	}
}

// TestAProbeInOneNamespaceIsEnough where another may not be listed.
func TestAProbeInOneNamespaceIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		for n := range 20 {
			secret := versioned("settings", 900)
			secret.Namespace = fmt.Sprint("secret-", n)
			v.shows(t, secret)
		}
		v.server.set(func(s *apiServer) {
			s.version, s.forbidden = 905, func(namespace string) bool { return namespace != "shop" }
		})
		advance(followSilence + 2*time.Second)
		says(t, v.err(), "older state")
	})
}

// TestARestoredServerThatHasCaughtUpNeedNotShowWhatTheInformerDoesNotCover: what is another installation's, or in a
// namespace that it is not confined to.
func TestARestoredServerThatHasCaughtUpNeedNotShowWhatTheInformerDoesNotCover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		theirs, elsewhere := versioned("theirs", 800), versioned("elsewhere", 800)
		entity.SetOwner(theirs, "Site", "home", "there")
		elsewhere.Namespace = "elsewhere"
		v.server.put(theirs, elsewhere)
		v.server.at(950)
		advance(followSilence + 2*time.Second)
		says(t, v.err(), "older state")
		v.server.at(1100)
		v.bookmark(1100)
		advance(comparePauseMost + settleTime)
		v.healthy(t)
	})
}

// TestAnOutdatedViewCostsFewLists, however many sources share the informer, and none while the API server is below the
// informer, for nothing can agree before.
func TestAnOutdatedViewCostsFewLists(t *testing.T) {
	for name, test := range map[string]struct {
		change             func(*viewed)
		lists, afterNotice int
	}{
		"etcd went back": {func(v *viewed) { v.server.at(905) }, 0, 0},
		"the watch stands still": {func(v *viewed) {
			v.server.put(versioned("settings", 1005))
			v.server.at(1010)
			v.errors.NoteUnshown()
		}, 15, 1},
		"etcd went back and has caught up": {func(v *viewed) {
			v.server.put(versioned("settings", 880))
			v.errors.NoteUnshown()
		}, 15, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := viewOf(t)
				defer v.stop()
				for range 3 {
					defer watchAlso(t, v.informer).stop()
				}
				test.change(v)
				for v.err() == nil {
					advance(followTick)
				}
				advance(4 * followTick)
				if _, lists := v.server.asked(); lists > test.afterNotice {
					t.Errorf("%d lists when it was noticed, want %d", lists, test.afterNotice)
				}
				v.server.set(func(s *apiServer) { s.probes, s.lists = 0, 0 })
				advance(time.Hour)
				if probes, lists := v.server.asked(); lists > test.lists || probes > 4*40+15 {
					t.Errorf("%d lists and %d probes in an hour", lists, probes)
				}
				if v.err() == nil {
					t.Error("it is not known any more")
				}
			})
		})
	}
}

// TestAllSourcesOverAnInformerSeeThatItIsOutdated, also one that comes later.
func TestAllSourcesOverAnInformerSeeThatItIsOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		second := watchAlso(t, v.informer)
		defer second.stop()
		v.server.at(905)
		advance(followSilence + 2*time.Second)
		third := watchAlso(t, v.informer)
		defer third.stop()
		advance(followTick)
		for _, w := range []*watched{v.watched, second, third} {
			says(t, w.err(), "older state")
			if w.changed.Load() == 0 {
				t.Error("a source was not told")
			}
		}
		v.bookmark(906)
		advance(2 * followTick)
		for _, w := range []*watched{v.watched, second, third} {
			if err, n := w.err(), w.answered.Load(); err != nil || n != 1 {
				t.Errorf("%v; what waits for it was woken %d times", err, n)
			}
		}
	})
}

// TestAnOutdatedViewHidesNoOtherTrouble.
func TestAnOutdatedViewHidesNoOtherTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.at(905)
		advance(followSilence + 2*time.Second)
		v.errors.report(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errDone))
		says(t, v.err(), "older state", "forbidden")
	})
}

// TestAComparisonThatFailsSaysWhy, until one does not.
func TestAComparisonThatFailsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.put(versioned("settings", 1005))
		v.server.at(1010)
		v.errors.NoteUnshown()
		advance(2*followTick + settleTime)
		v.server.set(func(s *apiServer) { s.down = apierrors.NewInternalError(errDone) })
		advance(time.Minute)
		says(t, v.err(), "stands still", "cannot be compared", "Internal error")
		v.server.set(func(s *apiServer) { s.down = nil })
		v.catchUp(t)
		advance(comparePauseMost)
		v.healthy(t)
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
			v.server.set(func(s *apiServer) { s.forbidden = inAllAtOnce })
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
		"in another namespace, where several are shown": {func(v *viewed) {
			elsewhere, new := versioned("settings", 900), versioned("new", 1005)
			elsewhere.Namespace, new.Namespace = "elsewhere", "third"
			v.shows(t, elsewhere)
			v.server.put(elsewhere, new)
		}, true},
		"another installation's": {func(v *viewed) {
			other := versioned("other", 1005)
			entity.SetOwner(other, "Site", "home", "there")
			v.server.put(other)
		}, false},
		"a namespace forbidden, another changed": {func(v *viewed) {
			secret := versioned("settings", 900)
			secret.Namespace = "secret"
			v.shows(t, secret)
			v.server.put(versioned("settings", 1005))
			v.server.set(func(s *apiServer) {
				s.forbidden = func(namespace string) bool { return namespace != "shop" }
			})
		}, true},
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
					v.catchUp(t)
					advance(2 * followTick)
					v.healthy(t)
				})
			})
		}
	}
}

// TestAWatchThatGoesOnIsBelievedWhenAllAgrees, and not because it moves: events may be lost.
func TestAWatchThatGoesOnIsBelievedWhenAllAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.put(versioned("settings", 1005))
		v.server.at(1010)
		v.errors.NoteUnshown()
		advance(2*followTick + settleTime)
		says(t, v.err(), "stands still")
		v.bookmark(1010)
		for range 3600 {
			advance(time.Second)
			if v.err() == nil {
				t.Fatal("the informer has moved, and that was believed")
			}
		}
		v.catchUp(t)
		advance(comparePauseMost + settleTime)
		v.healthy(t)
	})
}

// TestAWatchThatStandsStillAgainIsLookedAtAsSoonAsItGoesOn, however long it stood.
func TestAWatchThatStandsStillAgainIsLookedAtAsSoonAsItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.put(versioned("settings", 1005))
		v.server.at(1010)
		v.errors.NoteUnshown()
		advance(2*followTick + settleTime)
		says(t, v.err(), "stands still")
		v.bookmark(1003)
		advance(time.Hour)
		says(t, v.err(), "stands still", "1003")
		v.catchUp(t)
		advance(2 * followTick)
		v.healthy(t)
	})
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

// TestAStoreThatIsBehindItsInformerHasLostNothing: what the informer has read is put into the store a moment later.
func TestAStoreThatIsBehindItsInformerHasLostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		v.server.put(versioned("settings", 1005))
		v.server.at(1010)
		v.informer.shown.Store(1000)
		v.bookmark(1010)
		v.errors.NoteUnshown()
		advance(followTick + settleTime/2)
		v.informer.shown.Store(1003)
		advance(settleTime)
		v.healthy(t)
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
			v.server.set(func(s *apiServer) { s.version = 2000 + 10*n })
			advance(followSilence + 62*time.Second)
			v.bookmark(2000 + 10*n)
		}
		if probes, lists := v.server.asked(); probes > 101 || lists > 0 {
			t.Errorf("%d probes and %d lists", probes, lists)
		}
		v.healthy(t)
	})
}

// TestAQuietInformerCostsFewListsWhereBookmarksAreRare, as where the API server's cache learns of etcd's progress each
// ten minutes; and a watch that stands still is noticed all the same.
func TestAQuietInformerCostsFewListsWhereBookmarksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		defer v.stop()
		now := int64(2000)
		minute := func() {
			now += 10
			v.server.set(func(s *apiServer) { s.version = now })
			advance(time.Minute)
		}
		for n := range 6 * 60 {
			if minute(); n%10 == 0 {
				v.bookmark(now)
			}
		}
		if _, lists := v.server.asked(); lists > 4 {
			t.Errorf("%d lists in six hours", lists)
		}
		v.healthy(t)
		v.server.put(versioned("settings", now+1))
		for range 15 {
			minute()
		}
		says(t, v.err(), "stands still")
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
