package controllerruntime

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriReplicasShareTheKeys: each change is synced by one of them, and what one enqueues by hand, by the one that
// has the key.
func TestKumoriReplicasShareTheKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, sites := t.Context(), w.sites()
		var replicas []*custom
		for _, name := range []string{"a", "b"} {
			c := kumori{sites: w.sites(), pages: w.pages()}.custom(nil)
			must(t, c.WithOptions(controller.WithShards(64), controller.WithMember(name, 1)))
			runKumori(t, c)
			replicas = append(replicas, c)
		}
		time.Sleep(10 * time.Second)
		const n = 40
		key := func(i int) string { return fmt.Sprint("site-", i) }
		for i := range n {
			must(t, sites.Create(ctx, newSite(key(i), "one")))
		}
		time.Sleep(5 * time.Second)
		for _, c := range replicas {
			for i := range n {
				c.EnqueueKey(key(i), controller.OperationManual)
			}
			time.Sleep(30 * time.Second)
		}
		shares := map[string]int{}
		for i := range n {
			for j, c := range replicas {
				if puts := c.seen.with(key(i), controller.OperationPut); puts > 0 {
					shares[fmt.Sprint(j)]++
					if manual := c.seen.with(key(i), controller.OperationManual); puts != 1 || manual != 2 {
						t.Errorf("%s was synced %d times for its put and %d times by hand", key(i), puts, manual)
					}
				}
			}
		}
		if shares["0"]+shares["1"] != n || shares["0"] == 0 || shares["1"] == 0 {
			t.Errorf("the shares are %v", shares)
		}
	})
}
