package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// watching is a run of nagi that goes on.
type watching struct {
	*world
	text bytes.Buffer
	seen int
	code chan int
	stop context.CancelFunc
}

func (w *world) watches(args ...string) *watching {
	ctx, stop := context.WithCancel(w.Context())
	r := &watching{world: w, code: make(chan int, 1), stop: stop}
	env := Env{
		Streams: out.Streams{Out: &r.text, Err: &r.text}, Options: []nats.Option{natstest.Dialer()}, Cluster: w.cluster,
	}
	go func() { r.code <- Run(ctx, env, append([]string{"--server", w.srv.URL()}, args...)) }()
	return r
}

// within is what was printed in the time to come.
func (r *watching) within(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	all := r.text.String()
	news := all[r.seen:]
	r.seen = len(all)
	return news
}

// ends stops it, and wants exit code 0.
func (r *watching) ends() {
	r.Helper()
	select {
	case code := <-r.code:
		r.Errorf("it has ended, with %d\n%s", code, r.text.String())
		return
	default:
	}
	r.stop()
	if code := <-r.code; code != 0 {
		r.Errorf("stopped, it ends with %d\n%s", code, r.text.String())
	}
}

// TestAWatchedTreeFollowsWhatKubernetesAnswers: it shows what has changed there at the next look, says when the API server
// refuses or is away, and goes on when it answers again.
func TestAWatchedTreeFollowsWhatKubernetesAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		open := shopCluster(gardenObjects()...)
		client, discover, err := open("", "")
		w.must(err)
		var fails atomic.Pointer[error]
		client.(*fake.FakeDynamicClient).PrependReactor("list", "*",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				if err := fails.Load(); err != nil {
					return true, nil, *err
				}
				return false, nil, nil
			})
		w.cluster = func(string, string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
			return client, discover, nil
		}
		r := w.watches("tree", "Garden/north", "-w", "--kubeconfig", "some")
		w.wantIn(r.within(time.Second), "deployments.apps/shop/web         1/2 ready", "CrashLoopBackOff")
		if news := r.within(time.Minute); news != "" {
			t.Errorf("nothing changed, and it shows\n%s", news)
		}
		web, err := client.Resource(deployments).Namespace("shop").Get(w.Context(), "web", metav1.GetOptions{})
		w.must(err)
		w.must(unstructured.SetNestedField(web.Object, int64(2), "status", "readyReplicas"))
		_, err = client.Resource(deployments).Namespace("shop").Update(w.Context(), web, metav1.UpdateOptions{})
		w.must(err)
		w.wantIn(r.within(lookInterval+time.Second), "deployments.apps/shop/web         2/2 ready")

		for says, err := range map[string]error{
			"not looked at: list deployments.apps: the API server stops": apierrors.NewServiceUnavailable("the API server stops"),
			"the user may not list deployments.apps in all namespaces":   apierrors.NewForbidden(deployments.GroupResource(), "", nil),
		} {
			fails.Store(&err)
			news := r.within(lookInterval + time.Second)
			w.wantIn(news, says, "Bed/east")
			if strings.Contains(news, "shop/web") {
				t.Errorf("it shows what was not looked at:\n%s", news)
			}
			if news := r.within(time.Minute); news != "" {
				t.Errorf("nothing changed, and it shows\n%s", news)
			}
			fails.Store(nil)
			w.wantIn(r.within(lookInterval+time.Second), "deployments.apps/shop/web         2/2 ready")
		}
		r.ends()
	})
}

// TestAWatchedTreeFollowsWhatAnAPIAnswers, as its controller says it.
func TestAWatchedTreeFollowsWhatAnAPIAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		one := external.Resource{ID: "disk-1", OwnerKey: "shop/one"}
		api := &things{Listed: cloudtest.NewListed(one)}
		w.gadgets(api)
		w.put("gadgets", "shop.one", `{"spec":{"title":"one"}}`)
		w.settle()
		r := w.watches("tree", "Gadget/shop/one", "-w")
		first := r.within(time.Second)
		w.wantIn(first, "Outside: Thing/disk-1   Listed")
		api.Resources.Store(&[]external.Resource{one, {ID: "disk-2", OwnerKey: "shop/one"}})
		w.wantIn(r.within(2*time.Minute), "Outside: Thing/disk-1   Listed", "Outside: Thing/disk-2   Listed")
		away := errors.New("503")
		api.Fails.Store(&away)
		w.wantIn(r.within(3*time.Minute), "Away", "that API is away since ", "Outside: Thing/disk-2   Listed")
		if news := r.within(time.Minute); news != "" {
			t.Errorf("nothing changed, and it shows\n%s", news)
		}
		api.Resources.Store(&[]external.Resource{one})
		api.Fails.Store(nil)
		news := r.within(3 * time.Minute)
		w.wantIn(news, "Outside: Thing/disk-1   Listed")
		last := news[max(0, strings.LastIndex(news, "OBJECT")):]
		if strings.Contains(last, "Away") || strings.Contains(last, "disk-2") {
			t.Errorf("when it is back, it shows at last\n%s", last)
		}
		r.ends()
	})
}

// TestTheEndOfALongNoteIsShown: it names the right that is missing. Of one that is even longer the end is in -o json.
func TestTheEndOfALongNoteIsShown(t *testing.T) {
	const end = "who administers the cluster grants it)"
	inWorld(t, func(w *world) {
		w.family()
		namespace := func(i int) string { return strings.Repeat(string(rune('a'+i)), 60) }
		for n, cut := range map[int]bool{6: false, 25: true} {
			var role, args []string
			for i := range n {
				role = append(role, namespace(i))
				args = append(args, "--kube-namespace", role[i])
			}
			w.cluster = roleIn(shopCluster(gardenObjects()...), role...)
			args = append([]string{"tree", "Garden/north", "--kubeconfig", "some"}, args...)
			r := w.nagi(args...)
			if got := strings.Contains(r.out, end); r.code != 0 || got == cut {
				t.Errorf("%d namespaces: the end is shown: %v\n%s", n, got, r.out)
			}
			if told := strings.Contains(r.err, "the same command with -o json shows all of it"); told != cut {
				t.Errorf("%d namespaces: it is told that something is cut: %v\n%s", n, told, r.err)
			}
			w.wantIn(w.ok(append(args, "-o", "json")...), end)
			if n == 25 {
				r := w.watches(append(args, "-w")...)
				if news := r.within(time.Minute); strings.Count(news, "shows all of it") != 1 {
					t.Errorf("a watch tells it elsewhere than once, below the tree:\n%s", news)
				}
				r.ends()
			}
		}
	})
}

// TestAWatchedTraceFollowsWhatChanges: the state of an owner in NATS, and what the API server says of an object.
func TestAWatchedTraceFollowsWhatChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		client, discover, err := shopCluster(gardenObjects()...)("", "")
		w.must(err)
		w.cluster = func(string, string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
			return client, discover, nil
		}
		r := w.watches("trace", "deployments/shop/web", "-w", "--kubeconfig", "some")
		w.wantIn(r.within(time.Second), "deployments.apps/shop/web   Kubernetes   1/2 ready", "Garden/north", "Retrying")
		w.put("gardens-status", "north", `{"schemaVersion":1,"phase":"Terminal","observedRevision":1,"conditions":[{"type":
			"Reconciled","status":"False","reason":"Terminal","observedGeneration":9,"message":"no garden"}]}`)
		w.wantIn(r.within(time.Second), "Terminal", "no garden")
		web, err := client.Resource(deployments).Namespace("shop").Get(w.Context(), "web", metav1.GetOptions{})
		w.must(err)
		w.must(unstructured.SetNestedField(web.Object, int64(2), "status", "readyReplicas"))
		_, err = client.Resource(deployments).Namespace("shop").Update(w.Context(), web, metav1.UpdateOptions{})
		w.must(err)
		w.wantIn(r.within(lookInterval+time.Second), "deployments.apps/shop/web   Kubernetes   2/2 ready")
		if news := r.within(time.Minute); news != "" {
			t.Errorf("nothing changed, and it shows\n%s", news)
		}
		r.ends()
	})
}
