package entity_test

import (
	"fmt"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

func names(list []*Website) []string {
	out := make([]string, 0, len(list))
	for _, site := range list {
		out = append(out, site.Name)
	}
	sort.Strings(out)
	return out
}

func TestTheListerReadsItsOwnWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		lister := client.Lister()
		// Each write is read back at once. In some of the rounds that is before the cache has the write.
		for i := range 50 {
			site := website("a")
			must(t, client.Create(t.Context(), site))
			got, err := lister.Get("a")
			must(t, err)
			if got.ResourceVersion != site.ResourceVersion {
				t.Fatalf("round %d: read revision %s after creating %s", i, got.ResourceVersion, site.ResourceVersion)
			}
			got.Spec.Replicas = i + 1
			must(t, client.Update(t.Context(), got))
			got.Status.URLs = []string{strconv.Itoa(i)}
			must(t, client.UpdateStatus(t.Context(), got))
			must(t, client.Patch(t.Context(), "a", []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)))
			got, err = lister.Get("a")
			must(t, err)
			if got.Spec.Replicas != i+1 || got.Labels["patched"] != "yes" ||
				len(got.Status.URLs) != 1 || got.Status.URLs[0] != strconv.Itoa(i) {
				t.Fatalf("round %d: read %+v", i, got)
			}
			if list, err := lister.List(
				labels.SelectorFromSet(labels.Set{"patched": "yes"}),
			); err != nil || len(list) != 1 {
				t.Fatalf("round %d: listed %v, %v", i, names(list), err)
			}
			must(t, client.Delete(t.Context(), "a"))
			_, err = lister.Get("a")
			wantError(t, "get after delete", apierrors.IsNotFound, err)
			if list, err := lister.List(nil); err != nil || len(list) != 0 {
				t.Fatalf("round %d: listed %v after the delete, %v", i, names(list), err)
			}
		}
	})
}

func TestTheListerNeverGoesBackWhileOthersWrite(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		mine, theirs := newClient[*Website](t, js, websites), newClient[*Website](t, js, websites)
		start(t, mine)
		must(t, mine.Create(t.Context(), website("a")))
		ctx := testContext(t)
		var writers sync.WaitGroup
		var writing atomic.Int64
		for i, client := range []*entity.Client[*Website]{mine, theirs} {
			writing.Add(1)
			writers.Go(func() {
				defer writing.Add(-1)
				for n := range 100 {
					must(t, client.Patch(ctx, "a", fmt.Appendf(nil, `{"spec":{"settings":{"w%d":"%d"}}}`, i, n)))
				}
			})
		}
		var last uint64
		for n := 0; writing.Load() > 0; n++ {
			got, err := mine.Lister().Get("a")
			must(t, err)
			if uint64(got.Generation) < last {
				t.Fatalf("read revision %d after %d", got.Generation, last)
			}
			if last = uint64(got.Generation); n%100 == 0 {
				time.Sleep(time.Microsecond) // a writer may wait before it tries again
			}
		}
		writers.Wait()
	})
}

func TestTheListerHandsOutCopies(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		site := website("a")
		site.Spec.Settings = map[string]string{"k": "v"}
		entity.SetOwner(site, "Shop", "s", "i")
		must(t, client.Create(t.Context(), site))
		site.Status.URLs = []string{"u"}
		must(t, client.UpdateStatus(t.Context(), site))
		spoil := func(w *Website) {
			w.Spec.Settings["k"] = "spoilt"
			w.Annotations["x"] = "spoilt"
			w.Status.URLs[0] = "spoilt"
		}
		for range 2 { // once from own writes, once from the cache
			got, err := client.Lister().Get("a")
			must(t, err)
			spoil(got)
			list, err := client.Lister().List(nil)
			must(t, err)
			spoil(list[0])
			owned, err := client.Lister().OwnedBy("Shop", "s")
			must(t, err)
			spoil(owned[0])
			got, err = client.Lister().Get("a")
			must(t, err)
			if got.Spec.Settings["k"] != "v" || got.Annotations["x"] != "" || got.Status.URLs[0] != "u" {
				t.Fatalf("got %+v", got)
			}
			rec, err := client.Record(t.Context(), "a")
			must(t, err)
			wantNow(t, "the caches have the writes", func() bool {
				return client.Informer().Cursor() >= uint64(site.Generation) &&
					client.Records().Informer().Cursor() >= rec.Revision
			})
		}
	})
}

func TestTheListerHandsOutCopiesOfWhatHasNoStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		site := website("a")
		site.Spec.Settings = map[string]string{"k": "v"}
		must(t, client.Create(t.Context(), site))
		for range 2 { // once from own writes, once from the cache
			got, err := client.Lister().Get("a")
			must(t, err)
			got.Spec.Settings["k"] = "spoilt"
			got, err = client.Lister().Get("a")
			must(t, err)
			if got.Spec.Settings["k"] != "v" {
				t.Fatalf("got %+v", got)
			}
			must(t, client.Informer().WaitCursor(testContext(t), uint64(site.Generation)))
		}
	})
}

func TestOwnedByFollowsTheOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		for i := range 6 {
			site := website(fmt.Sprintf("a%d", i))
			entity.SetOwner(site, "Shop", fmt.Sprintf("shop/%d", i%2), "i")
			must(t, client.Create(t.Context(), site))
			list, err := client.Lister().OwnedBy("Shop", fmt.Sprintf("shop/%d", i%2))
			if must(t, err); len(list) != i/2+1 {
				t.Errorf("after %s: %v are owned", site.Name, names(list))
			}
		}
		check := func(when string) {
			t.Helper()
			for key, want := range map[string]string{"shop/0": "[a0 a2 a4]", "shop/1": "[a1 a3 a5]", "shop/2": "[]"} {
				list, err := client.Lister().OwnedBy("Shop", key)
				must(t, err)
				if got := fmt.Sprint(names(list)); got != want {
					t.Errorf("%s: %s owns %s, want %s", when, key, got, want)
				}
			}
		}
		check("own writes")
		wantNow(t, "the cache has the writes", func() bool { return len(client.Informer().GetStore().ListKeys()) == 6 })
		check("cached")
		moved, err := client.Lister().Get("a0")
		must(t, err)
		entity.SetOwner(moved, "Shop", "shop/2", "i")
		must(t, client.Update(t.Context(), moved))
		for key, want := range map[string]string{"shop/0": "[a2 a4]", "shop/2": "[a0]"} {
			list, err := client.Lister().OwnedBy("Shop", key)
			must(t, err)
			if got := fmt.Sprint(names(list)); got != want {
				t.Errorf("moved: %s owns %s, want %s", key, got, want)
			}
		}
	})
}

func TestTheListerSaysInvalidForWhatDoesNotDecode(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		kv := keyValue(t, js, "websites")
		_, err := kv.PutString(t.Context(), "bad", `nonsense`)
		must(t, err)
		start(t, client)
		_, err = client.Lister().Get("bad")
		wantError(t, "first seen", apierrors.IsInvalid, err)

		must(t, client.Create(t.Context(), website("a")))
		wantNow(t, "the watch has seen it", func() bool { // a revision that was replaced before is never seen
			_, there, _ := client.Informer().GetStore().GetByKey("a")
			return there
		})
		_, err = kv.PutString(t.Context(), "a", `{"spec":{"replicas":"x"}}`)
		must(t, err)
		wantNow(t, "the update is invalid", func() bool {
			_, err := client.Lister().Get("a")
			return apierrors.IsInvalid(err)
		})
		if list, err := client.Lister().List(nil); err != nil || fmt.Sprint(names(list)) != "[a]" {
			t.Errorf("the last good version is not listed: %v, %v", names(list), err)
		}
		// An own write mends it, and the lister shows that at once.
		_, err = kv.PutString(t.Context(), "a", `{"spec":{}}`)
		must(t, err)
		wantNow(t, "it is mended", func() bool {
			_, err := client.Lister().Get("a")
			return err == nil
		})
	})
}

func TestAListersFirstReadStartsTheCache(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		_, err := client.Lister().Get("a")
		must(t, err)
		client.Close()
		if _, err = client.Lister().Get("a"); err == nil {
			t.Error("a closed client reads its cache")
		}
	})
}

func TestAStragglingReadDoesNotBringBackAStoppedCache(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		must(t, client.Create(t.Context(), website("a")))
		stop, err := client.Start()
		must(t, err)
		_, err = client.Lister().Get("a")
		must(t, err)
		stop()
		_, err = client.Lister().Get("a")
		wantError(t, "read after the last user stopped", apierrors.IsServiceUnavailable, err)
		if n := consumers(t, js, "websites"); n != 0 {
			t.Errorf("%d consumers", n)
		}
		start(t, client)
		_, err = client.Lister().Get("a")
		must(t, err)
	})
}

func TestListReadsTheServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		for i := range 200 {
			must(t, client.Create(t.Context(), website(fmt.Sprintf("k%03d", i))))
		}
		must(t, client.Delete(t.Context(), "k000"))
		site := website("k001")
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		_, err := keyValue(t, js, "websites").PutString(t.Context(), "k002", "nonsense")
		must(t, err)
		list, err := client.List(testContext(t))
		must(t, err)
		if len(list) != 198 {
			t.Errorf("listed %d of 198", len(list))
		}
		for _, got := range list {
			if got.Status.Ready != (got.Name == "k001") {
				t.Errorf("%s: status %+v", got.Name, got.Status)
			}
		}
		must(t, js.DeleteStream(t.Context(), "KV_websites"))
		if _, err := client.List(testContext(t)); err == nil {
			t.Error("listed a bucket that is gone")
		}
	})
}

func BenchmarkListerGet(b *testing.B) {
	client := newClient[*Website](b, newServer(b), websites)
	start(b, client)
	site := website("a")
	site.Spec.Paths = []string{"/a", "/b"}
	entity.SetOwner(site, "Shop", "s", "i")
	must(b, client.Create(b.Context(), site))
	site.Status = WebsiteStatus{Ready: true, URLs: []string{"u"}}
	must(b, client.UpdateStatus(b.Context(), site))
	rec, err := client.Record(b.Context(), "a")
	must(b, err)
	must(b, client.Informer().WaitCursor(testContext(b), uint64(site.Generation)))
	must(b, client.Records().Informer().WaitCursor(testContext(b), rec.Revision))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Lister().Get("a"); err != nil {
			b.Fatal(err)
		}
	}
}
