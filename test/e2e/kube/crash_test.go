package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// victimEnv makes this test binary a controller that kills itself; its value is a victim.
const victimEnv = "NAGI_TEST_VICTIM"

// victim says where a process works, and at which of its writes to the API server it kills itself: after the answer has
// come and before the caller gets it.
type victim struct {
	Host      string
	Token     string
	CA        []byte
	NATS      string
	Namespace string
	Write     int64
}

// threeMaps writes a site's three ConfigMaps, by both ways of writing.
func threeMaps(ctx context.Context, maps *kube.Handle[*corev1.ConfigMap], namespace string) error {
	w := &world{namespace: namespace}
	for _, name := range []string{"one", "two"} {
		if _, err := maps.Apply(ctx, w.configMap(name, "value")); err != nil {
			return err
		}
	}
	_, err := maps.CreateOrUpdate(ctx, w.configMap("three", ""), func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"value": "value"}
		return nil
	})
	return err
}

// nextLease is that of the process that comes after the one that was killed. It is long enough for a slow machine.
var nextLease = controller.WithLeaseTiming(controller.LeaseTiming{
	Duration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 200 * time.Millisecond,
})

var shortLease = controller.WithLeaseTiming(controller.LeaseTiming{
	Duration: time.Second, RenewDeadline: 700 * time.Millisecond, RetryPeriod: 200 * time.Millisecond,
})

// run works until it is killed.
func (v *victim) run() error {
	var writes atomic.Int64
	cfg := &rest.Config{
		Host: v.Host, BearerToken: v.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: v.CA},
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			res, err := next.RoundTrip(req)
			if err == nil && req.Method != http.MethodGet && writes.Add(1) == v.Write {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
				select {}
			}
			return res, err
		})
	})
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(v.NATS, nats.Timeout(10*time.Second))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	sites, err := entity.NewClient[*site](ctx, js, entity.Config{
		Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage,
	})
	if err != nil {
		return err
	}
	informer := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithNamespace(v.Namespace)).Core().V1().ConfigMaps().Informer()
	maps, err := kube.New[*corev1.ConfigMap](client, configMaps, informer)
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(func(
		ctx context.Context, req controller.Request,
	) (controller.Result, error) {
		if req.Operations.Has(controller.OperationDelete) {
			return controller.Result{}, nil
		}
		return controller.Result{}, threeMaps(ctx, maps, v.Namespace)
	}), maps.Owns(), shortLease)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// sacrifice runs a process that kills itself at its nth write, and waits until it has.
func (w *world) sacrifice(write int64) {
	w.t.Helper()
	cfg := w.server.Config()
	v, err := json.Marshal(&victim{
		Host: cfg.Host, Token: cfg.BearerToken, CA: cfg.CAData,
		NATS: w.js.Conn().ConnectedUrl(), Namespace: w.namespace, Write: write,
	})
	must(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+string(v))
	var log bytes.Buffer
	cmd.Stderr = &log
	_ = cmd.Run() // its error only says that it was killed
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ctx.Err() != nil || !ok || !status.Signaled() {
		w.t.Fatalf("it did not come to its write %d: %v\n%s", write, cmd.ProcessState, log.String())
	}
}

// sacrificed runs a victim; TestMain calls it.
func sacrificed(value string) int {
	v := &victim{}
	if err := json.NewDecoder(strings.NewReader(value)).Decode(v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Fprintln(os.Stderr, v.run())
	return 1
}

// TestAProcessKilledAfterAnyWriteToKubernetes loses nothing and makes nothing twice, although it never learned the
// result of its last write or delete.
func TestAProcessKilledAfterAnyWriteToKubernetes(t *testing.T) {
	t.Parallel()
	for write := int64(1); write <= 3; write++ {
		t.Run(fmt.Sprint(write), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			w.sacrifice(write)
			left := func() (n int) {
				for _, name := range []string{"one", "two", "three"} {
					if w.liveMap(name) != nil {
						n++
					}
				}
				return n
			}
			if n := left(); n != int(write) {
				t.Fatalf("%d are there when it was killed, want %d", n, write)
			}
			second := func() *running {
				maps := w.maps()
				var seen calls
				r := w.run(w.applied(func(ctx context.Context, _ string) error {
					return threeMaps(ctx, maps, w.namespace)
				}, &seen, maps.Owns(), nextLease))
				natstest.Eventually(t, "the next process has reconciled", func() bool { return seen.count("home") > 0 })
				return r
			}
			r := second()
			natstest.Eventually(t, "all are there", func() bool { return left() == 3 })
			r.halt()
			if n := w.requests.writes("configmaps"); n != 3-int(write) {
				t.Errorf("the next process wrote %d times, want %d", n, 3-write)
			}
			must(t, w.sites.Delete(t.Context(), "home"))
			w.sacrifice(write)
			if n := left(); n != 3-int(write) || !w.hasRecord("home") {
				t.Fatalf("%d are left when it was killed, want %d; a record: %v", n, 3-write, w.hasRecord("home"))
			}
			deletes := w.requests.writes("configmaps")
			last := second()
			natstest.Eventually(t, "the site is torn down", func() bool { return !w.hasRecord("home") })
			last.halt()
			if n := left(); n != 0 {
				t.Errorf("%d are left", n)
			}
			if n := w.requests.writes("configmaps") - deletes; n != 3-int(write) {
				t.Errorf("the next process deleted %d times, want %d", n, 3-write)
			}
		})
	}
}
