package entity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// byPath indexes by what a website has several of, or nothing.
var byPath = entity.WithIndex("path", func(w *Website) []string { return w.Spec.Paths })

func indexed(cfg entity.Config) entity.Config { cfg.Indexes = []entity.Index{byPath}; return cfg }

func pathed(name string, paths ...string) *Website {
	w := website(name)
	w.Spec.Paths = paths
	return w
}

// wantUnder compares what is found under a path.
func wantUnder(t *testing.T, client *entity.Client[*Website], path string, want ...string) {
	t.Helper()
	found, err := client.Lister().ByIndex("path", path)
	must(t, err)
	if got := namesOf(found); !slices.Equal(got, want) {
		t.Errorf("under %q are %v, want %v", path, got, want)
	}
}

func namesOf(found []*Website) []string {
	names := sets.New[string]()
	for _, w := range found {
		names.Insert(w.Name)
	}
	return sets.List(names)
}

// TestAnIndexReadsOwnWrites of each kind at once, while the informer hears of none of them.
func TestAnIndexReadsOwnWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		proxy := natstest.StartProxy(t, natstest.Start(t).URL())
		_, js := natstest.Connect(t, proxy.URL())
		client := newClient[*Website](t, js, indexed(websites))
		start(t, client)
		ctx := t.Context()
		for _, name := range []string{"a", "b", "c", "d"} {
			must(t, client.Create(ctx, pathed(name, "/old", "/"+name)))
		}
		time.Sleep(2 * time.Second)                                 // the overlay is empty
		proxy.Tamper(natstest.Each(func(m *natstest.Message) bool { // no news comes
			return m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "$KV.websites.")
		}, natstest.Fate{Lost: true}))
		must(t, client.Patch(ctx, "a", []byte(`{"spec":{"paths":["/new"]}}`)))
		must(t, client.Delete(ctx, "b"))
		must(t, client.Create(ctx, pathed("e", "/new", "/old", "/new")))
		must(t, client.Patch(ctx, "d", []byte(`{"spec":{"paths":null}}`)))
		wantUnder(t, client, "/old", "c", "e")
		wantUnder(t, client, "/new", "a", "e")
		wantUnder(t, client, "/d")
		found, err := client.Lister().ListMatching(entity.ListOptions{Index: "path", Value: "/new",
			Labels: labels.SelectorFromSet(labels.Set{"none": "has it"})})
		if err != nil || len(found) != 0 {
			t.Errorf("of a label that none has: %v, %v", found, err)
		}
	})
}

// TestAnIndexLivesAsLongAsItsClient: over each end and start of its informers, and for the clients that share its cache.
func TestAnIndexLivesAsLongAsItsClient(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, indexed(websites))
		shared, err := client.WithStatusBucket(t.Context(), "websites-audit")
		must(t, err)
		t.Cleanup(shared.Close)
		must(t, client.Create(t.Context(), pathed("a", "/")))
		for range 3 {
			stop, err := client.Start()
			must(t, err)
			wantUnder(t, client, "/", "a")
			stop()
		}
		stop, err := shared.Start()
		must(t, err)
		defer stop()
		wantUnder(t, shared, "/", "a")
	})
}

// TestAListChoosesByNamespaceLabelsAndIndex, live and in the cache.
func TestAListChoosesByNamespaceLabelsAndIndex(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := indexed(websites)
		cfg.Namespaced = true
		client := newClient[*Website](t, newServer(t), cfg)
		start(t, client)
		for i := range 12 {
			w := pathed(fmt.Sprintf("w%02d", i), fmt.Sprint("/", i%2))
			w.Namespace, w.Labels = fmt.Sprint("n", i%3), map[string]string{"four": fmt.Sprint(i % 4)}
			must(t, client.Create(t.Context(), w))
		}
		for _, test := range []struct {
			o    entity.ListOptions
			want string
		}{
			{entity.ListOptions{}, "w00 w01 w02 w03 w04 w05 w06 w07 w08 w09 w10 w11"},
			{entity.ListOptions{Namespace: "n1"}, "w01 w04 w07 w10"},
			{entity.ListOptions{Namespace: "n"}, ""},
			{entity.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"four": "3"})}, "w03 w07 w11"},
			{entity.ListOptions{Index: "path", Value: "/1"}, "w01 w03 w05 w07 w09 w11"},
			{entity.ListOptions{Index: "path"}, ""},
			{entity.ListOptions{Namespace: "n1", Index: "path", Value: "/1",
				Labels: labels.SelectorFromSet(labels.Set{"four": "3"})}, "w07"},
		} {
			for what, list := range map[string]func() ([]*Website, error){
				"live":   func() ([]*Website, error) { return client.ListMatching(t.Context(), test.o) },
				"cached": func() ([]*Website, error) { return client.Lister().ListMatching(test.o) },
			} {
				found, err := list()
				if got := strings.Join(namesOf(found), " "); err != nil || got != test.want {
					t.Errorf("%s, %+v: %q, %v, want %q", what, test.o, got, err, test.want)
				}
			}
		}
	})
}

func TestWhatNoListCanChooseIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, indexed(websites))
		cfg := indexed(entity.Config{Kind: "Website", Bucket: "named", Namespaced: true})
		named := newClient[*Website](t, js, cfg)
		for says, o := range map[string]entity.ListOptions{
			`no index "host": name it in Config.Indexes`: {Index: "host", Value: "a"},
			"a Value and no Index":                       {Value: "a"},
			"its keys have none":                         {Namespace: "shop"},
		} {
			if _, err := client.Lister().ListMatching(o); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("cached: %v, want %q", err, says)
			}
			if _, err := client.ListMatching(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("live: %v, want %q", err, says)
			}
		}
		for _, namespace := range []string{"*", "a.b", "a b", ">", "a\n"} {
			if _, err := named.ListMatching(t.Context(), entity.ListOptions{Namespace: namespace}); err == nil {
				t.Errorf("%q is taken for a namespace", namespace)
			}
		}
		none := func(*Website) []string { return nil }
		for says, indexes := range map[string][]entity.Index{
			"index 2 of kind Website has no name or no function": {byPath, {}},
			"make it with WithIndex":                             {entity.WithIndex[*Website]("path", nil)},
			"is there already":                                   {byPath, byPath},
			"is for *entity.None":                                {entity.WithIndex("x", func(*entity.None) []string { return nil })},
			`index "` + entity.OwnerIndex + `"`:                  {entity.WithIndex(entity.OwnerIndex, none)},
		} {
			cfg := websites
			cfg.Indexes = indexes
			_, err := entity.NewClient[*Website](t.Context(), js, cfg)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if got := indexed(websites).Differences(websites); !slices.Equal(got, []string{"Indexes"}) {
			t.Errorf("different are %v", got)
		}
		if got := indexed(websites).Differences(indexed(websites)); len(got) != 0 {
			t.Errorf("different are %v", got)
		}
	})
}

// TestAnIndexSeesNoStatus, neither of what the cache has nor of what is read live.
func TestAnIndexSeesNoStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := websites
		cfg.Indexes = []entity.Index{entity.WithIndex("url", func(w *Website) []string { return w.Status.URLs })}
		client := newClient[*Website](t, newServer(t), cfg)
		start(t, client)
		w := website("a")
		must(t, client.Create(t.Context(), w))
		w.Status.URLs = []string{"u"}
		must(t, client.UpdateStatus(t.Context(), w))
		by := entity.ListOptions{Index: "url", Value: "u"}
		live, err := client.ListMatching(t.Context(), by)
		cached, err2 := client.Lister().ListMatching(by)
		if len(live)+len(cached) != 0 || err != nil || err2 != nil {
			t.Errorf("live %d, cached %d, %v, %v", len(live), len(cached), err, err2)
		}
		if all, err := client.ListMatching(t.Context(), entity.ListOptions{}); err != nil || all[0].Status.URLs == nil {
			t.Errorf("the list has lost the status: %v", err)
		}
	})
}

// TestAFunctionOfAnIndexThatPanicsHarmsItsEntityAlone.
func TestAFunctionOfAnIndexThatPanicsHarmsItsEntityAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := websites
		cfg.Indexes = []entity.Index{entity.WithIndex("path", func(w *Website) []string { return w.Spec.Paths[:1] })}
		client := newClient[*Website](t, newServer(t), cfg)
		start(t, client)
		must(t, client.Create(t.Context(), website("none")))
		must(t, client.Create(t.Context(), pathed("one", "/")))
		wantUnder(t, client, "/", "one")
		time.Sleep(2 * time.Second)
		wantUnder(t, client, "/", "one")
		if all, err := client.Lister().List(nil); err != nil || len(all) != 2 {
			t.Errorf("the cache has %d, %v", len(all), err)
		}
	})
}
