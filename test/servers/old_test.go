package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/internal/ports"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// tooOld reports whether an error names the version that was found and the one that is wanted.
func tooOld(err error, js jetstream.JetStream) bool {
	return err != nil && strings.Contains(err.Error(), "too old") && strings.Contains(err.Error(), "2.9 or newer") &&
		strings.Contains(err.Error(), js.Conn().ConnectedServerVersion())
}

// TestAnOldServerIsRefused at once, with its version and the one that is wanted, and nothing is made there. One that
// refuses no request would leave the informers without an answer for ever.
func TestAnOldServerIsRefused(t *testing.T) {
	t.Parallel()
	p := newProcess(t, refused, "-js", "-sd", t.TempDir())
	_, js := natstest.Connect(t, p.url())
	for _, bindOnly := range []bool{false, true} {
		_, err := entity.NewClient[*site](t.Context(), js,
			entity.Config{Kind: "Site", Bucket: "sites", BindOnly: bindOnly})
		if !tooOld(err, js) || !strings.Contains(err.Error(), `bucket "sites"`) {
			t.Errorf("BindOnly %t: got %v", bindOnly, err)
		}
	}
	if _, err := js.Stream(t.Context(), "KV_sites"); err == nil {
		t.Error("the bucket was made")
	}
}

// TestAnInformerSaysThatTheServerIsOld, and works when the server is replaced by a newer one with the same store.
func TestAnInformerSaysThatTheServerIsOld(t *testing.T) {
	t.Parallel()
	p := newProcess(t, refused, "-js", "-sd", t.TempDir())
	_, js := natstest.Connect(t, p.url())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_sites", Subjects: []string{"$KV.sites.>"}, MaxMsgsPerSubject: 1,
	})
	must(t, err)
	_, err = js.Publish(t.Context(), "$KV.sites.home", []byte(`{}`))
	must(t, err)
	informer, err := natsinformer.New(js, natsinformer.Config{
		Bucket: "sites", Decode: func(e natsinformer.Entry) (runtime.Object, error) {
			return &site{ObjectMeta: metav1.ObjectMeta{Name: e.Key}}, nil
		},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	natstest.Eventually(t, "it says so", func() bool { return tooOld(informer.Status().Err, js) })
	p.become(versions[0])
	natstest.Eventually(t, "it has synced", informer.HasSynced)
	if !informer.Exists("home") {
		t.Error("home does not exist")
	}
	natstest.Eventually(t, "nothing is wrong any more", func() bool { return informer.Status().Err == nil })
}

// TestAnOldLeafNodeIsNotRefused: what the client is connected to only passes on what a newer server answers.
func TestAnOldLeafNodeIsNotRefused(t *testing.T) {
	t.Parallel()
	leaves, err := ports.Claim()
	must(t, err)
	t.Cleanup(func() { ports.Release(leaves) })
	natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.JetStreamDomain, o.LeafNode.Host, o.LeafNode.Port = "hub", ports.Host, leaves
	}))
	hub := url.URL{Scheme: "nats-leaf", Host: ports.Address(leaves)}
	config := filepath.Join(t.TempDir(), "leaf.conf")
	must(t, os.WriteFile(config, fmt.Appendf(nil, "leafnodes { remotes = [ { url: %q } ] }\n", hub.String()), 0o600))
	p := newProcess(t, refused, "-c", config)
	nc, _ := natstest.Connect(t, p.url())
	js, err := jetstream.NewWithDomain(nc, "hub")
	must(t, err)
	natstest.Eventually(t, "JetStream answers through the leaf", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
	w := &world{t: t, v: refused, server: p, url: p.url(), domain: "hub", replicas: 1, js: js}
	w.sites, w.pages = w.client(js, "Site", "sites"), w.client(js, "Page", "pages")
	w.lead()
	w.make("stays", "goes")
	must(t, w.sites.Delete(t.Context(), "goes"))
	w.tornDown("goes")
	w.left("stays")
}
