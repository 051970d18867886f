package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/labels"
)

// labelled creates websites, the first few of them of the blue team.
func labelled(t *testing.T, client *entity.Client[*Website], blue, others int) {
	t.Helper()
	for i := range blue + others {
		w := website(fmt.Sprintf("w%04d", i))
		if i < blue {
			w.Labels = map[string]string{"team": "blue"}
		}
		must(t, client.Create(t.Context(), w))
	}
}

var ofBlue = entity.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"team": "blue"})}

func wantLeft(t *testing.T, client *entity.Client[*Website], want int) {
	t.Helper()
	all, err := client.List(t.Context())
	must(t, err)
	if len(all) != want {
		t.Errorf("%d documents are left, want %d", len(all), want)
	}
}

func TestDeleteAllOfDeletesWhatIsChosen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), indexed(websites))
		labelled(t, client, 40, 41)
		must(t, client.Create(t.Context(), pathed("other", "/x")))
		for _, test := range []struct {
			options       entity.ListOptions
			deleted, left int
		}{
			{ofBlue, 40, 42},
			{ofBlue, 0, 42},
			{entity.ListOptions{Index: "path", Value: "/x"}, 1, 41},
		} {
			n, err := client.DeleteAllOf(t.Context(), test.options)
			must(t, err)
			if n != test.deleted {
				t.Errorf("%d were deleted, want %d", n, test.deleted)
			}
			wantLeft(t, client, test.left)
		}
	})
}

// TestDeleteAllOfCountsAsTheBrakeDoes: ten that are more than half need their number.
func TestDeleteAllOfCountsAsTheBrakeDoes(t *testing.T) {
	for name, test := range map[string]struct {
		blue, others int
		options      []entity.DeleteAllOption
		refused      string
	}{
		"nine of nine":        {9, 0, nil, ""},
		"ten of twenty":       {10, 10, nil, ""},
		"ten of nineteen":     {10, 9, nil, `10 of all 19 documents of kind Website in bucket "websites" are chosen`},
		"confirmed":           {10, 9, []entity.DeleteAllOption{entity.IfCount(10)}, ""},
		"another number":      {10, 9, []entity.DeleteAllOption{entity.IfCount(9)}, "9 documents of kind Website were expected, and 10"},
		"few, another number": {2, 9, []entity.DeleteAllOption{entity.IfCount(1)}, "1 documents of kind Website were expected, and 2"},
		"none expected":       {1, 0, []entity.DeleteAllOption{entity.IfCount(0)}, "0 documents of kind Website were expected"},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				client := newClient[*Website](t, newServer(t), websites)
				labelled(t, client, test.blue, test.others)
				n, err := client.DeleteAllOf(t.Context(), ofBlue, test.options...)
				if test.refused == "" {
					must(t, err)
					if n != test.blue {
						t.Errorf("%d were deleted, want %d", n, test.blue)
					}
					wantLeft(t, client, test.others)
					return
				}
				mass, ok := errors.AsType[*entity.MassDeleteError](err)
				if !ok || mass.Chosen != test.blue || mass.Known != test.blue+test.others {
					t.Fatalf("error %#v", err)
				}
				if !strings.Contains(err.Error(), test.refused) || n != 0 {
					t.Errorf("%d were deleted, and the error is %q", n, err)
				}
				wantLeft(t, client, test.blue+test.others)
			})
		})
	}
}

func TestCountOnlyDeletesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		labelled(t, client, 12, 0)
		n, err := client.DeleteAllOf(t.Context(), ofBlue, entity.CountOnly())
		must(t, err)
		if n != 12 {
			t.Errorf("it counts %d, want 12", n)
		}
		wantLeft(t, client, 12)
	})
}

// TestDeleteAllOfIsOfOneNamespace, and counts in it.
func TestDeleteAllOfIsOfOneNamespace(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := websites
		cfg.Namespaced = true
		client := newClient[*Website](t, newServer(t), cfg)
		for i := range 30 {
			w := website(fmt.Sprint("w", i))
			w.Namespace = []string{"a", "b", "b"}[i%3]
			must(t, client.Create(t.Context(), w))
		}
		_, err := client.DeleteAllOf(t.Context(), entity.ListOptions{Namespace: "a"})
		if err == nil || !strings.Contains(err.Error(), `in namespace "a" of bucket "websites"`) ||
			!strings.Contains(err.Error(), "entity.IfCount(10)") {
			t.Errorf("error %v", err)
		}
		n, err := client.DeleteAllOf(t.Context(), entity.ListOptions{Namespace: "a"}, entity.IfCount(10))
		must(t, err)
		if n != 10 {
			t.Errorf("%d were deleted, want 10", n)
		}
		wantLeft(t, client, 20)
	})
}

// TestDeleteAllOfLooksAgainAtWhatIsWrittenMeanwhile, and leaves what is chosen no more.
func TestDeleteAllOfLooksAgainAtWhatIsWrittenMeanwhile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		other := newClient[*Website](t, js, websites)
		labelled(t, other, 4, 0)
		var mu sync.Mutex
		meanwhile := map[string]func() error{
			"w0000": func() error { return other.Patch(t.Context(), "w0000", []byte(`{"spec":{"replicas":7}}`)) },
			"w0001": func() error {
				return other.Patch(t.Context(), "w0001", []byte(`{"metadata":{"labels":{"team":"red"}}}`))
			},
			"w0002": func() error { return other.Delete(t.Context(), "w0002") },
		}
		cfg := websites
		cfg.OnWrite = func(_ context.Context, w entity.Write) (nats.Header, func(error)) {
			mu.Lock()
			do := meanwhile[w.Key]
			delete(meanwhile, w.Key)
			mu.Unlock()
			if do != nil {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
			return nil, nil
		}
		client := newClient[*Website](t, js, cfg)
		n, err := client.DeleteAllOf(t.Context(), ofBlue)
		must(t, err)
		if n != 2 {
			t.Errorf("%d were deleted, want 2", n)
		}
		left, err := other.List(t.Context())
		must(t, err)
		if len(left) != 1 || left[0].Name != "w0001" {
			t.Errorf("left are %v", left)
		}
	})
}

// TestDeleteAllOfSaysHowFarItCame when it cannot go on, and goes on when it is called again.
func TestDeleteAllOfSaysHowFarItCame(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		sent := 0
		cfg := websites
		cfg.OnWrite = func(_ context.Context, w entity.Write) (nats.Header, func(error)) {
			mu.Lock()
			defer mu.Unlock()
			if sent++; sent == 300 { // 250 of them create
				cancel()
			}
			return nil, nil
		}
		client := newClient[*Website](t, newServer(t), cfg)
		labelled(t, client, 250, 0)
		n, err := client.DeleteAllOf(ctx, ofBlue, entity.IfCount(250))
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(),
			fmt.Sprintf("%d of 250 documents of kind Website were deleted, count the rest and call it again", n)) {
			t.Fatalf("error %v after %d", err, n)
		}
		if n == 0 || n >= 250 {
			t.Errorf("%d were deleted", n)
		}
		left, err := client.DeleteAllOf(t.Context(), ofBlue, entity.CountOnly())
		must(t, err)
		if left > 250-n || left < 250-n-16 {
			t.Errorf("%d are left after %d, want as many less, or those on their way", left, n)
		}
		again, err := client.DeleteAllOf(t.Context(), ofBlue, entity.IfCount(left))
		must(t, err)
		if again != left {
			t.Errorf("%d of %d were deleted", again, left)
		}
		wantLeft(t, client, 0)
	})
}

func TestDeleteAllOfRefusesOptionsThatCannotBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		labelled(t, client, 2, 0)
		for want, call := range map[string]func() (int, error){
			"option 1 is nil": func() (int, error) { return client.DeleteAllOf(t.Context(), ofBlue, nil) },
			`has no index "x"`: func() (int, error) {
				return client.DeleteAllOf(t.Context(), entity.ListOptions{Index: "x"})
			},
			"ask Lister.OwnedBy": func() (int, error) {
				return client.DeleteAllOf(t.Context(), entity.ListOptions{
					Index: entity.OwnerIndex, Value: entity.OwnerIndexValue("Shop", "one"),
				})
			},
			"its keys have none": func() (int, error) {
				return client.DeleteAllOf(t.Context(), entity.ListOptions{Namespace: "a"})
			},
		} {
			if n, err := call(); err == nil || !strings.Contains(err.Error(), want) || n != 0 {
				t.Errorf("%d were deleted, error %v, want %q", n, err, want)
			}
		}
		wantLeft(t, client, 2)
	})
}
