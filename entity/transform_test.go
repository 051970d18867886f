package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// short keeps what a cache of websites needs: no paths, and the first letter of the host.
func short(obj any) (any, error) {
	w := obj.(*Website)
	w.Spec.Paths = nil
	w.Spec.Host = w.Spec.Host[:min(1, len(w.Spec.Host))]
	return w, nil
}

// transforming returns a client whose informer has a transform and has synced.
func transforming(t *testing.T, js jetstream.JetStream, transform cache.TransformFunc) *entity.Client[*Website] {
	t.Helper()
	client := newClient[*Website](t, js, websites)
	must(t, client.Informer().SetTransform(transform))
	start(t, client)
	return client
}

// holdCache keeps the cache of a client from taking what arrives, until release is called.
func holdCache[T entity.IEntity](t *testing.T, client *entity.Client[T]) (release func()) {
	t.Helper()
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	cancel := client.Subscribe(entity.Hooks{Arrived: func(string, natsinformer.Entry) { <-held }})
	t.Cleanup(cancel)
	t.Cleanup(release)
	return release
}

// shapes are what a handler was given: the hosts of the objects of a key.
type shapes struct {
	mu   sync.Mutex
	seen map[string][]string
}

func (s *shapes) handler() cache.ResourceEventHandler {
	add := func(kind string, obj any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.seen == nil {
			s.seen = map[string][]string{}
		}
		w := obj.(*Website)
		s.seen[w.Name] = append(s.seen[w.Name], fmt.Sprintf("%s %s %v", kind, w.Spec.Host, w.Spec.Paths))
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { add("add", obj) }, UpdateFunc: func(_, obj any) { add("update", obj) },
		DeleteFunc: func(obj any) { add(fmt.Sprintf("delete %v", natsinformer.DeleteOf(obj).Evidenced), obj) },
	}
}

func (s *shapes) of(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen[key], ", ")
}

func wantShort(t *testing.T, what string, w *Website, err error) {
	t.Helper()
	must(t, err)
	if w.Spec.Host != "a" || w.Spec.Paths != nil || !entity.IsTransformed(w) {
		t.Errorf("%s: %+v, transformed %v", what, w.Spec, entity.IsTransformed(w))
	}
}

func site() *Website {
	w := website("a")
	w.Spec.Paths = []string{"/"}
	return w
}

// TestAllReadersOfACacheSeeWhatItsTransformMade: of an own write, too, before the cache has it.
func TestAllReadersOfACacheSeeWhatItsTransformMade(t *testing.T) {
	for what, write := range map[string]func(ctx context.Context, c *entity.Client[*Website]) error{
		"Create": func(ctx context.Context, c *entity.Client[*Website]) error { return c.Create(ctx, site()) },
		"CreateDocument": func(ctx context.Context, c *entity.Client[*Website]) error {
			_, err := c.CreateDocument(ctx, "a", []byte(`{"spec":{"host":"abc","paths":["/"]}}`))
			return err
		},
		"Update": func(ctx context.Context, c *entity.Client[*Website]) error {
			w := site()
			return errors.Join(c.Create(ctx, w), c.Update(ctx, w))
		},
		"Patch": func(ctx context.Context, c *entity.Client[*Website]) error {
			return errors.Join(c.Create(ctx, site()), c.Patch(ctx, "a", []byte(`{"spec":{"paths":["/x"]}}`)))
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := testContext(t)
			client := transforming(t, newServer(t), short)
			var seen shapes
			_, err := client.Informer().AddEventHandler(seen.handler())
			must(t, err)
			release := holdCache(t, client)
			must(t, write(ctx, client))
			for _, when := range []string{"own write", "cached"} {
				w, err := client.Lister().Get("a")
				wantShort(t, when, w, err)
				all, err := client.Lister().List(nil)
				must(t, err)
				wantShort(t, when+", listed", all[0], nil)
				if w.Generation == 0 || w.ResourceVersion != fmt.Sprint(w.Generation) || w.Kind != "Website" {
					t.Errorf("%s: %+v", when, w)
				}
				release()
				natstest.Eventually(t, "the cache has it", func() bool {
					return client.Informer().Cursor() >= uint64(w.Generation)
				})
			}
			item, _, err := client.Informer().GetStore().GetByKey("a")
			must(t, err)
			wantShort(t, "store", item.(*Website), nil)
			live, err := client.Get(ctx, "a")
			must(t, err)
			listed, err := client.List(ctx)
			must(t, err)
			for what, w := range map[string]*Website{"Get": live, "List": listed[0]} {
				if len(w.Spec.Host) < 3 || len(w.Spec.Paths) != 1 || entity.IsTransformed(w) {
					t.Errorf("%s: %+v, transformed %v", what, w.Spec, entity.IsTransformed(w))
				}
			}
			must(t, client.Delete(ctx, "a"))
			natstest.Eventually(t, "the handler has the delete", func() bool {
				return strings.HasSuffix(seen.of("a"), "delete true a []")
			})
			if got := seen.of("a"); strings.Contains(got, "/") || strings.Contains(got, "bc") {
				t.Errorf("the handler got %s", got)
			}
		})
	}
}

// TestWhatWasDeletedBeforeTheCacheReadItIsTransformedOnce.
func TestWhatWasDeletedBeforeTheCacheReadItIsTransformedOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		srv := natstest.Start(t)
		var hidden unseen
		_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(hidden.deliver))
		_, admin := natstest.Connect(t, srv.URL())
		client := transforming(t, js, func(obj any) (any, error) {
			w := obj.(*Website)
			w.Spec.Host += "!"
			return w, nil
		})
		var seen shapes
		_, err := client.Informer().AddEventHandler(seen.handler())
		must(t, err)
		hidden.of("$KV.websites.a")
		must(t, client.Create(ctx, website("a")))
		must(t, keyValue(t, admin, "websites").Delete(ctx, "a"))
		hidden.of("")
		must(t, client.Create(ctx, website("other"))) // it shows that something is missing
		natstest.Eventually(t, "the handler has the delete", func() bool { return strings.Contains(seen.of("a"), "delete") })
		if got, want := seen.of("a"), "add a.example.com! [], delete true a.example.com! []"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestADocumentThatATransformRefusesIsInvalid, at once where this process wrote it.
func TestADocumentThatATransformRefusesIsInvalid(t *testing.T) {
	ctx := testContext(t)
	js := newServer(t)
	for name, c := range map[string]struct {
		transform cache.TransformFunc
		why       string
	}{
		"an error": {
			func(obj any) (any, error) {
				if w := obj.(*Website); w.Spec.Replicas == 13 {
					return nil, errors.New("thirteen")
				}
				return obj, nil
			}, "the transform that was set with SetTransform failed: thirteen",
		},
		"a panic": {
			func(obj any) (any, error) {
				if w := obj.(*Website); w.Spec.Replicas == 13 {
					panic("thirteen")
				}
				return obj, nil
			}, "the transform that was set with SetTransform panicked: thirteen",
		},
		"another type": {
			func(obj any) (any, error) {
				if w := obj.(*Website); w.Spec.Replicas == 13 {
					return &unstructured.Unstructured{}, nil
				}
				return obj, nil
			}, "the transform that was set with SetTransform returned a *unstructured.Unstructured: return a *entity.",
		},
		"nothing": {
			func(obj any) (any, error) {
				if w := obj.(*Website); w.Spec.Replicas == 13 {
					return (*Website)(nil), nil
				}
				return obj, nil
			}, "the transform that was set with SetTransform returned no object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := transforming(t, js, c.transform)
			key := strings.ReplaceAll(name, " ", "-")
			w := website(key)
			must(t, client.Create(ctx, w))
			natstest.Eventually(t, "cached", func() bool { return client.Informer().Cursor() >= uint64(w.Generation) })
			release := holdCache(t, client)
			refused := func(when string) {
				t.Helper()
				_, err := client.Lister().Get(key)
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%s: %v", when, err)
				}
				all, err := client.Lister().List(nil)
				must(t, err)
				for _, w := range all {
					if w.Name == key && w.Spec.Replicas == 0 {
						return
					}
				}
				t.Errorf("%s: the last good version is not listed: %v", when, all)
			}
			w.Spec.Replicas = 13
			must(t, client.Update(ctx, w))
			refused("own write")
			release()
			natstest.Eventually(t, "invalid", func() bool { return client.Informer().IsInvalid(key) })
			refused("invalid")
			if why := entity.WhyInvalid(client.Informer().Invalid()[key]); !strings.Contains(why.Reason, c.why) {
				t.Errorf("why: %+v", why)
			}
			w.Spec.Replicas = 1
			must(t, client.Update(ctx, w))
			natstest.Eventually(t, "mended", func() bool {
				got, err := client.Lister().Get(key)
				return err == nil && got.Spec.Replicas == 1 && !client.Informer().IsInvalid(key)
			})
			must(t, client.Delete(ctx, key))
		})
	}
}

// TestWhyATransformRefusesADocumentWithSecretsIsNotTold: its words may be the secret.
func TestWhyATransformRefusesADocumentWithSecretsIsNotTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.SecretFields = []string{"spec.host"}
		client := newClient[*Website](t, js, cfg)
		must(t, client.Informer().SetTransform(func(obj any) (any, error) {
			return nil, errors.New("bad " + obj.(*Website).Spec.Host)
		}))
		start(t, client)
		must(t, client.Create(testContext(t), website("a")))
		_, err := client.Lister().Get("a")
		if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "example.com") ||
			!strings.Contains(err.Error(), "SetTransform") {
			t.Error(err)
		}
	})
}

// TestATransformCannotTakeWhatTheRuntimeNeeds: whose a document is, what is to become of it, and its revision.
func TestATransformCannotTakeWhatTheRuntimeNeeds(t *testing.T) {
	ctx := testContext(t)
	shared := map[string]string{} // a transform may give all objects one map
	ours, labels := map[string]string{}, map[string]string{}
	for _, name := range entity.RuntimeAnnotations {
		if name != entity.ExpiresAnnotation && name != entity.DocumentHashAnnotation { // no document has it
			ours[name] = "v"
		}
	}
	for _, name := range entity.RuntimeLabels {
		labels[name] = "v"
	}
	for name, transform := range map[string]cache.TransformFunc{
		"all metadata": func(obj any) (any, error) { return &Website{Spec: obj.(*Website).Spec}, nil },
		"in place": func(obj any) (any, error) {
			w := obj.(*Website)
			clear(w.Annotations)
			clear(w.Labels)
			w.Generation, w.ResourceVersion, w.TypeMeta = 0, "", metav1.TypeMeta{Kind: "Other"}
			return w, nil
		},
		"changed": func(obj any) (any, error) {
			w := obj.(*Website)
			for _, values := range []map[string]string{w.Annotations, w.Labels} {
				for name := range values {
					values[name] = "other"
				}
			}
			w.Status.Ready = true
			w.DeletionTimestamp = &metav1.Time{}
			return w, nil
		},
		"shared": func(obj any) (any, error) {
			w := obj.(*Website)
			w.Annotations, w.Labels = shared, shared
			return w, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := transforming(t, newServer(t), transform)
			w := website("a")
			w.Annotations, w.Labels = maps.Clone(ours), maps.Clone(labels)
			w.Annotations["x"], w.Labels["x"] = "y", "y"
			must(t, client.Create(ctx, w))
			plain := website("plain")
			plain.Annotations = map[string]string{"x": "y"}
			must(t, client.Create(ctx, plain))
			for _, when := range []string{"own write", "cached"} {
				owned, err := client.Lister().OwnedBy("v", "v")
				must(t, err)
				if len(owned) != 1 {
					t.Fatalf("%s: owned are %v", when, owned)
				}
				got := owned[0]
				for _, values := range []map[string]string{got.Annotations, got.Labels} {
					delete(values, "x")
				}
				if !maps.Equal(got.Annotations, ours) || !maps.Equal(got.Labels, labels) || got.Name != "a" ||
					got.Kind != "Website" || uint64(got.Generation) != uint64(w.Generation) || got.Status.Ready ||
					got.ResourceVersion != w.ResourceVersion || got.DeletionTimestamp != nil {
					t.Errorf("%s: %+v", when, got)
				}
				natstest.Eventually(t, "cached", func() bool { return client.Informer().Cursor() >= uint64(plain.Generation) })
			}
			if len(shared) != 0 {
				t.Errorf("the transform's own map was changed: %v", shared)
			}
			got, err := client.Lister().Get("plain")
			must(t, err)
			if delete(got.Annotations, "x"); len(got.Annotations)+len(got.Labels) != 0 {
				t.Errorf("what owns nothing has %v and %v", got.Annotations, got.Labels)
			}
		})
	}
}

// TestATransformCannotTakeAnyAnnotationOfThisPackage: what has a constant is in the list that the test above takes.
func TestATransformCannotTakeAnyAnnotationOfThisPackage(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				list := entity.RuntimeAnnotations
				if strings.HasSuffix(name.Name, "Label") {
					list = entity.RuntimeLabels
				} else if !strings.HasSuffix(name.Name, "Annotation") {
					continue
				}
				text, ok := spec.Values[i].(*ast.BasicLit)
				if !ok {
					t.Errorf("%s is no literal", name)
					continue
				}
				value, err := strconv.Unquote(text.Value)
				must(t, err)
				if found++; !slices.Contains(list, value) {
					t.Errorf("a transform may take %s, %q: it is in no list of owner.go", name, value)
				}
			}
			return true
		})
	}
	if want := len(entity.RuntimeAnnotations) + len(entity.RuntimeLabels); found != want {
		t.Errorf("%d constants, and %d names in the lists", found, want)
	}
}

// TestATransformIsSetBeforeTheFirstUser, and is that of the clients: also of those that share the cache, and of the
// informers after the first.
func TestATransformIsSetBeforeTheFirstUser(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		client := newClient[*Website](t, newServer(t), websites)
		other, err := client.WithStatusBucket(ctx, "other")
		must(t, err)
		t.Cleanup(other.Close)
		first := other.Informer()
		must(t, first.SetTransform(short))
		if err := client.Records().Informer().SetTransform(short); err == nil || !strings.Contains(err.Error(), "records") {
			t.Errorf("a transform of records: %v", err)
		}
		must(t, client.Create(ctx, site()))
		for range 2 {
			stop, err := client.Start()
			must(t, err)
			for _, c := range []*entity.Client[*Website]{client, other} {
				if err := c.Informer().SetTransform(short); err == nil || !strings.Contains(err.Error(), "already started") {
					t.Errorf("while it runs: %v", err)
				}
			}
			w, err := client.Lister().Get("a")
			wantShort(t, "lister", w, err)
			stop()
		}
		if err := first.SetTransform(short); err == nil || !strings.Contains(err.Error(), "ask the client for another") {
			t.Errorf("of an informer that has ended: %v", err)
		}
		must(t, client.Informer().SetTransform(nil))
		start(t, client)
		w, err := client.Lister().Get("a")
		must(t, err)
		if len(w.Spec.Paths) != 1 || entity.IsTransformed(w) {
			t.Errorf("without a transform: %+v", w.Spec)
		}
		other.Close()
		if err := other.Informer().SetTransform(short); err == nil {
			t.Error("a closed client took a transform")
		}
	})
}

// TestAnUpdateKeepsWhatATransformLeftOut of the object that it is made of, wherever that was read.
func TestAnUpdateKeepsWhatATransformLeftOut(t *testing.T) {
	const document = `{"spec":{"host":"abc","replicas":9007199254740993,"paths":["/","/x"],` +
		`"settings":{"a":"1","b":"2"},"unknown":{"n":1}}}`
	for transformName, transform := range map[string]cache.TransformFunc{
		"in place": func(obj any) (any, error) {
			w, err := short(obj)
			delete(w.(*Website).Spec.Settings, "b")
			return w, err
		},
		"no spec": func(obj any) (any, error) { return &Website{ObjectMeta: obj.(*Website).ObjectMeta}, nil },
		"nothing": func(obj any) (any, error) { return obj, nil },
	} {
		js := newServer(t)
		client := transforming(t, js, transform)
		var handled sync.Map
		_, err := client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { handled.Store(obj.(*Website).ResourceVersion, obj) },
			UpdateFunc: func(_, obj any) { handled.Store(obj.(*Website).ResourceVersion, obj) },
		})
		must(t, err)
		for readName, read := range map[string]func(revision string) (*Website, error){
			"lister": func(string) (*Website, error) { return client.Lister().Get("a") },
			"store": func(string) (*Website, error) {
				item, _, err := client.Informer().GetStore().GetByKey("a")
				return item.(*Website).DeepCopy(), err
			},
			"handler": func(revision string) (*Website, error) {
				natstest.Eventually(t, "handled", func() bool { _, ok := handled.Load(revision); return ok })
				item, _ := handled.Load(revision)
				return item.(*Website).DeepCopy(), nil
			},
			"live": func(string) (*Website, error) { return client.Get(t.Context(), "a") },
		} {
			t.Run(transformName+", "+readName, func(t *testing.T) {
				ctx := testContext(t)
				kv := keyValue(t, js, "websites")
				revision, err := kv.PutString(ctx, "a", document)
				must(t, err)
				must(t, client.Informer().WaitKey(ctx, "a", revision))
				w, err := read(fmt.Sprint(revision))
				must(t, err)
				w.Labels = map[string]string{"l": "v"}
				must(t, client.Update(ctx, w))
				w.Labels["l"] = "w"
				must(t, client.Update(ctx, w)) // what was written is known, too
				entry, err := kv.Get(ctx, "a")
				must(t, err)
				var got struct {
					Spec     json.RawMessage
					Metadata metav1.ObjectMeta
				}
				must(t, json.Unmarshal(entry.Value(), &got))
				var spec, want map[string]any
				must(t, json.Unmarshal(got.Spec, &spec))
				must(t, json.Unmarshal([]byte(document), &want))
				if fmt.Sprint(spec) != fmt.Sprint(want["spec"]) || got.Metadata.Labels["l"] != "w" ||
					!strings.Contains(string(got.Spec), "9007199254740993") {
					t.Errorf("the document is %s", entry.Value())
				}
			})
		}
	}
}

// TestAnUpdateThroughATransformWritesWhatWasChanged, and removes what was removed and seen.
func TestAnUpdateThroughATransformWritesWhatWasChanged(t *testing.T) {
	ctx := testContext(t)
	js := newServer(t)
	client := transforming(t, js, func(obj any) (any, error) {
		w, err := short(obj)
		delete(w.(*Website).Spec.Settings, "hidden")
		return w, err
	})
	before := func() *Website {
		w := site()
		w.Spec.Replicas, w.Spec.Settings = 3, map[string]string{"hidden": "h", "a": "1", "b": "2"}
		return w
	}
	for name, c := range map[string]struct {
		change  func(*Website)
		want    func(*Website)
		refused string // the path
	}{
		"a value":         {func(w *Website) { w.Spec.Replicas = 4 }, func(w *Website) { w.Spec.Replicas = 4 }, ""},
		"no value":        {func(w *Website) { w.Spec.Replicas = 0 }, func(w *Website) { w.Spec.Replicas = 0 }, ""},
		"a changed value": {func(w *Website) { w.Spec.Host = "new" }, func(w *Website) { w.Spec.Host = "new" }, ""},
		"members of a map": {
			func(w *Website) { delete(w.Spec.Settings, "a"); w.Spec.Settings["c"] = "3" },
			func(w *Website) { delete(w.Spec.Settings, "a"); w.Spec.Settings["c"] = "3" }, "",
		},
		"a map":  {func(w *Website) { w.Spec.Settings = nil }, nil, "spec.settings"},
		"a list": {func(w *Website) { w.Spec.Paths = []string{"/new"} }, nil, "spec.paths"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, client.Create(ctx, before()))
			t.Cleanup(func() { must(t, client.Delete(context.WithoutCancel(ctx), "a")) })
			w, err := client.Lister().Get("a")
			must(t, err)
			c.change(w)
			err = client.Update(ctx, w)
			if c.refused != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.refused+": ") {
					t.Fatal(err)
				}
				if w, err = client.Get(ctx, "a"); err != nil {
					t.Fatal(err)
				}
				c.change(w)
				must(t, client.Update(ctx, w)) // what was read whole may be changed
				got, err := client.Get(ctx, "a")
				must(t, err)
				if fmt.Sprint(got.Spec) != fmt.Sprint(w.Spec) {
					t.Errorf("got %+v, want %+v", got.Spec, w.Spec)
				}
				return
			}
			must(t, err)
			got, err := client.Get(ctx, "a")
			must(t, err)
			want := before()
			c.want(want)
			if fmt.Sprint(got.Spec) != fmt.Sprint(want.Spec) {
				t.Errorf("got %+v, want %+v", got.Spec, want.Spec)
			}
			shown, err := client.Lister().Get("a")
			must(t, err)
			if shown.Generation != got.Generation || shown.Spec.Paths != nil || shown.Spec.Settings["hidden"] != "" {
				t.Errorf("the lister shows %+v", shown)
			}
		})
	}
}

// TestWhatIsWrittenWholeMayLoseWhatATransformLeavesOut, because its writer has removed it.
func TestWhatIsWrittenWholeMayLoseWhatATransformLeavesOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, statusBucket := range []string{"", entity.NoStatusBucket} {
			ctx := testContext(t)
			cfg := websites
			cfg.StatusBucket = statusBucket
			client := newClient[*Website](t, newServer(t), cfg)
			must(t, client.Informer().SetTransform(short))
			start(t, client)
			created := site()
			must(t, client.Create(ctx, created))
			for name, read := range map[string]func() (*Website, error){
				"Create": func() (*Website, error) { return created, nil },
				"Get":    func() (*Website, error) { return client.Get(ctx, "a") },
				"List": func() (*Website, error) {
					all, err := client.List(ctx)
					return all[0], err
				},
			} {
				live, err := client.Get(ctx, "a")
				must(t, err)
				live.Spec.Paths = []string{"/"}
				must(t, client.Update(ctx, live))
				created.ResourceVersion = live.ResourceVersion
				w, err := read()
				must(t, err)
				w.Spec.Paths = nil
				must(t, client.Update(ctx, w))
				got, err := client.Get(ctx, "a")
				must(t, err)
				if got.Spec.Paths != nil || got.Spec.Host != "a.example.com" {
					t.Errorf("%s, status bucket %q: %+v", name, statusBucket, got.Spec)
				}
			}
		}
	})
}

// TestAnUpdateOfWhatDoesNotTellHowItWasReadLosesNothing: what a transform left out of it, and what its writer removed,
// look the same.
func TestAnUpdateOfWhatDoesNotTellHowItWasReadLosesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		js := newServer(t)
		client := transforming(t, js, short)
		kindSet := func(w *Website, err error) *Website {
			must(t, err)
			w.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Kind: strings.Clone("Website")})
			return w
		}
		throughJSON := func(w *Website, err error) (again *Website) {
			must(t, err)
			data, err := json.Marshal(w)
			must(t, err)
			must(t, json.Unmarshal(data, &again))
			return again
		}
		removed, replicas := func(w *Website) { w.Spec.Paths = nil }, func(w *Website) { w.Spec.Replicas++ }
		host := func(w *Website) { w.Spec.Host = "new" }
		for name, c := range map[string]struct {
			read    func() *Website
			change  func(*Website)
			refused bool
		}{
			"live, kind set, removed":        {func() *Website { return kindSet(client.Get(ctx, "a")) }, removed, true},
			"live, kind set, changed":        {func() *Website { return kindSet(client.Get(ctx, "a")) }, replicas, false},
			"live, kind set, hidden changed": {func() *Website { return kindSet(client.Get(ctx, "a")) }, host, false},
			"live, through JSON, removed":    {func() *Website { return throughJSON(client.Get(ctx, "a")) }, removed, true},
			"live, through JSON, changed":    {func() *Website { return throughJSON(client.Get(ctx, "a")) }, replicas, false},
			"cached, kind set":               {func() *Website { return kindSet(client.Lister().Get("a")) }, replicas, true},
			"cached, through JSON":           {func() *Website { return throughJSON(client.Lister().Get("a")) }, replicas, true},
			"cached, kind set, hidden is given": {
				func() *Website { return kindSet(client.Lister().Get("a")) }, func(w *Website) { w.Spec = site().Spec }, false,
			},
		} {
			must(t, client.Create(ctx, site()))
			w := c.read()
			before, err := keyValue(t, js, "websites").Get(ctx, "a")
			must(t, err)
			c.change(w)
			want := w.DeepCopy()
			err = client.Update(ctx, w)
			got, readErr := client.Get(ctx, "a")
			must(t, readErr)
			if c.refused {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "without setting its kind, or use Patch") ||
					uint64(got.Generation) != before.Revision() {
					t.Errorf("%s: %v, and the document is %+v", name, err, got.Spec)
				}
			} else if err != nil || fmt.Sprint(got.Spec) != fmt.Sprint(want.Spec) {
				t.Errorf("%s: %v, and the document is %+v, want %+v", name, err, got.Spec, want.Spec)
			}
			must(t, client.Delete(ctx, "a"))
		}
	})
}

// TestAnUpdateThroughATransformIsOfTheRevisionThatWasRead.
func TestAnUpdateThroughATransformIsOfTheRevisionThatWasRead(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		js := newServer(t)
		client := transforming(t, js, short)
		must(t, client.Create(ctx, site()))
		w, err := client.Lister().Get("a")
		must(t, err)
		_, err = keyValue(t, js, "websites").PutString(ctx, "a", `{"spec":{"host":"xyz","paths":["/y"]}}`)
		must(t, err)
		w.Spec.Replicas = 2
		wantError(t, "overtaken", apierrors.IsConflict, client.Update(ctx, w))
		must(t, client.Delete(ctx, "a"))
		wantError(t, "deleted", apierrors.IsNotFound, client.Update(ctx, w))

		plain := newClient[*Website](t, js, websites)
		must(t, client.Create(ctx, site()))
		w, err = client.Lister().Get("a")
		must(t, err)
		wantError(t, "by a client without the transform", apierrors.IsInvalid, plain.Update(ctx, w))
		again := w.DeepCopy()
		again.Name = "b"
		wantError(t, "created again", apierrors.IsInvalid, client.Create(ctx, again))
		w.Status.Ready = true
		must(t, plain.UpdateStatus(ctx, w)) // of the status it takes nothing away
		if !entity.IsTransformed(w) {
			t.Error("UpdateStatus forgot how the object was read")
		}
		wantError(t, "after a status", apierrors.IsInvalid, plain.Update(ctx, w))
	})
}

// TestTheWholeDocumentOfATransformedObject is what the bucket has, without what no record has.
func TestTheWholeDocumentOfATransformedObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const document = `{"spec":{"host":"abc","paths":["/"],"unknown":{"n":1}},"status":{"ready":true}}`
		ctx := testContext(t)
		js := newServer(t)
		client := transforming(t, js, short)
		kv := keyValue(t, js, "websites")
		cached := func(revision uint64) *Website {
			must(t, client.Informer().WaitKey(ctx, "a", revision))
			item, _, err := client.Informer().GetStore().GetByKey("a")
			must(t, err)
			return item.(*Website)
		}
		check := func(what string, obj *Website) {
			t.Helper()
			whole, err := client.EnginePort().WholeDocument(ctx, obj)
			must(t, err)
			if got := string(whole); !strings.Contains(got, `"abc"`) || !strings.Contains(got, `"paths":["/"]`) ||
				!strings.Contains(got, `"unknown":{"n":1}`) || strings.Contains(got, "status") {
				t.Errorf("%s: %s", what, got)
			}
		}
		revision, err := kv.PutString(ctx, "a", document)
		must(t, err)
		first := cached(revision)
		check("cached", first)
		check("a copy, of which the leader has the document", first.DeepCopy())
		revision, err = kv.PutString(ctx, "a", `{"spec":{"host":"xyz"}}`)
		must(t, err)
		_ = cached(revision)
		check("overtaken", first)
		_, err = client.EnginePort().WholeDocument(ctx, first.DeepCopy())
		wantError(t, "a copy of another revision", apierrors.IsConflict, err)
		must(t, client.Delete(ctx, "a"))
		_, err = client.EnginePort().WholeDocument(ctx, first.DeepCopy())
		wantError(t, "a copy of what was deleted", apierrors.IsNotFound, err)
		check("deleted", first)
		live := site()
		must(t, client.Create(ctx, live))
		live, err = client.Get(ctx, "a")
		must(t, err)
		if whole, err := client.EnginePort().WholeDocument(ctx, live); err != nil || !strings.Contains(string(whole), `"/"`) {
			t.Errorf("read live: %s, %v", whole, err)
		}
	})
}

// lock holds what its type does not tell.
type lock struct{ held any }

func (l lock) MarshalJSON() ([]byte, error) { return json.Marshal(l.held) }

func (l *lock) UnmarshalJSON(data []byte) error {
	held := &lockKey{}
	l.held = held
	return json.Unmarshal(data, held)
}

type lockKey struct {
	Note     string `json:"note,omitempty"`
	Password string `json:"password,omitempty" nagi:"secret"`
}

// TestTheWholeDocumentLacksTheSecretsThatInterfacesHold, with and without a transform.
func TestTheWholeDocumentLacksTheSecretsThatInterfacesHold(t *testing.T) {
	type doorSpec struct {
		Note string `json:"note,omitempty"`
		Lock *lock  `json:"lock,omitempty"`
	}
	type door = entity.Object[doorSpec, struct{}]
	for name, transform := range map[string]cache.TransformFunc{
		"no transform": nil,
		"transform":    func(obj any) (any, error) { obj.(*door).Spec.Note = ""; return obj, nil },
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				client := newClient[*door](t, newServer(t), entity.Config{Kind: "Door", Bucket: "doors"})
				if transform != nil {
					must(t, client.Informer().SetTransform(transform))
				}
				start(t, client)
				for document, want := range map[string]string{
					`{"spec":{"note":"n","lock":{"note":"m","password":"s3cr3t"},"unknown":1}}`: `{"note":"n","lock":{}}`,
					`{"spec":{"note":"n","unknown":1}}`:                                         `{"note":"n","unknown":1}`,
				} {
					revision, err := client.CreateDocument(t.Context(), "a", []byte(document))
					must(t, err)
					must(t, client.Informer().WaitKey(t.Context(), "a", revision))
					cached, err := client.Lister().Get("a")
					must(t, err)
					whole, err := client.EnginePort().WholeDocument(t.Context(), cached)
					must(t, err)
					if !strings.HasSuffix(string(whole), `"spec":`+want+`}`) {
						t.Errorf("%s becomes %s", document, whole)
					}
					must(t, client.Delete(t.Context(), "a"))
				}
			})
		})
	}
}

// kindless is a type without a kind.
type kindless struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Value             string `json:"value,omitempty"`
}

func (k *kindless) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (k *kindless) DeepCopyObject() runtime.Object {
	c := *k
	k.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// TestATypeWithoutAKindTakesNoTransform, because its objects could not tell that they are not whole.
func TestATypeWithoutAKindTakesNoTransform(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*kindless](t, newServer(t), websites)
		err := client.Informer().SetTransform(func(obj any) (any, error) { return obj, nil })
		if err == nil || !strings.Contains(err.Error(), "TypeMeta") {
			t.Error(err)
		}
		must(t, client.Informer().SetTransform(nil))
	})
}

// TestAnUnstructuredDocumentIsTransformedAndKept, numbers beyond 2^53 and lists too.
func TestAnUnstructuredDocumentIsTransformedAndKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const document = `{"spec":{"big":9007199254740993,"list":[{"a":1}],"shown":true},"other":"x"}`
		ctx := testContext(t)
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, websites)
		must(t, client.Informer().SetTransform(func(obj any) (any, error) {
			u := obj.(*unstructured.Unstructured)
			delete(u.Object, "other")
			u.Object["spec"] = map[string]any{"shown": u.Object["spec"].(map[string]any)["shown"]}
			delete(u.Object, "metadata")
			return u, nil
		}))
		start(t, client)
		kv := keyValue(t, js, "websites")
		revision, err := kv.PutString(ctx, "a", document)
		must(t, err)
		must(t, client.Informer().WaitKey(ctx, "a", revision))
		u, err := client.Lister().Get("a")
		must(t, err)
		if spec := u.Object["spec"].(map[string]any); len(spec) != 1 || u.GetName() != "a" || u.GetKind() != "Website" ||
			u.GetResourceVersion() != "1" || u.Object["other"] != nil || !entity.IsTransformed(u) {
			t.Errorf("the lister has %v", u.Object)
		}
		must(t, unstructured.SetNestedField(u.Object, false, "spec", "shown"))
		must(t, client.Update(ctx, u))
		entry, err := kv.Get(ctx, "a")
		must(t, err)
		for _, part := range []string{`"big":9007199254740993`, `"list":[{"a":1}]`, `"shown":false`, `"other":"x"`} {
			if !strings.Contains(string(entry.Value()), part) {
				t.Errorf("the document is %s, without %s", entry.Value(), part)
			}
		}
	})
}
