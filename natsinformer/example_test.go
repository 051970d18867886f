package natsinformer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// A bucket of any Kubernetes-shaped objects becomes a SharedIndexInformer.
func ExampleNew() {
	server, err := natstest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	nc, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.PingInterval(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "settings"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := kv.PutString(ctx, "shop", `{"data":{"color":"blue"}}`); err != nil {
		log.Fatal(err)
	}

	informer, err := natsinformer.New(js, natsinformer.Config{
		Bucket: "settings",
		Decode: func(e natsinformer.Entry) (runtime.Object, error) {
			settings := &corev1.ConfigMap{}
			if err := json.Unmarshal(e.Value, settings); err != nil {
				return nil, err
			}
			settings.Name = e.Key
			return settings, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	deleted := make(chan natsinformer.Deletion)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) { deleted <- natsinformer.DeleteOf(obj) },
	}); err != nil {
		log.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		informer.RunWithContext(run)
	}()
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)

	// Read your own write.
	revision, err := kv.PutString(ctx, "shop", `{"data":{"color":"red"}}`)
	if err != nil {
		log.Fatal(err)
	}
	if err := informer.WaitKey(ctx, "shop", revision); err != nil {
		log.Fatal(err)
	}
	obj, _, _ := informer.GetStore().GetByKey("shop")
	fmt.Println(obj.(*corev1.ConfigMap).Data["color"])

	if err := kv.Delete(ctx, "shop"); err != nil {
		log.Fatal(err)
	}
	deletion := <-deleted
	fmt.Println(deletion.Reason, deletion.Evidenced)
	stop()
	<-stopped
	// Output:
	// red
	// Delete true
}
