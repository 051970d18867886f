package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	primaries = 300
	// names is how many names the shops of the scenario have, so that some are free.
	names = 330
)

func shopName(i int) string { return fmt.Sprintf("shop-%03d", i) }

// callPatience is how long a call of the people waits while its server is down.
const callPatience = 500 * time.Millisecond

// write creates, updates and deletes shops until ctx ends. A write that fails because a server is down is not tried
// again: only the shops that exist in the end count.
func (w *world) write(ctx context.Context, rng *rand.Rand) (writes int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return writes
		case <-tick.C:
		}
		if w.change(ctx, rng, shopName(rng.IntN(names))) == nil {
			writes++
		}
	}
}

// change does something to a shop; a tenth of the deletes leave no trace in the stream.
func (w *world) change(ctx context.Context, rng *rand.Rand, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	text := strconv.FormatUint(rng.Uint64(), 36)
	dice := rng.IntN(100)
	s, err := w.shops.Get(ctx, name)
	switch {
	case err != nil:
		return w.shops.Create(ctx, &shop{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: shopSpec{text}})
	case dice < 2:
		stream, err := w.js.Stream(ctx, "KV_shops")
		if err != nil {
			return err
		}
		return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV.shops."+name))
	case dice < 12:
		return w.shops.Delete(ctx, name)
	}
	s.Spec.Text = text
	return w.shops.Update(ctx, s)
}

// vandalise deletes and edits secondaries by hand until ctx ends.
func (w *world) vandalise(ctx context.Context, rng *rand.Rand) (deeds int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return deeds
		case <-tick.C:
		}
		if w.deed(ctx, rng, shopName(rng.IntN(names))) == nil {
			deeds++
		}
	}
}

func (w *world) deed(ctx context.Context, rng *rand.Rand, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	switch rng.IntN(8) {
	case 0:
		return w.kube.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case 1:
		_, err := w.kube.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType,
			[]byte(`{"data":{"text":"vandalised"}}`), metav1.PatchOptions{FieldManager: "vandal"})
		return err
	case 2:
		return w.kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case 3:
		_, err := w.kube.CoreV1().Secrets(namespace).Patch(ctx, name, types.MergePatchType,
			[]byte(`{"stringData":{"text":"vandalised"}}`), metav1.PatchOptions{FieldManager: "vandal"})
		return err
	case 4:
		return w.routes.Delete(ctx, name)
	case 5:
		return w.routes.Patch(ctx, name, []byte(`{"spec":{"text":"vandalised"}}`))
	case 6:
		w.cloud.vandalise(name, true)
	default:
		w.cloud.vandalise(name, false)
	}
	return nil
}
