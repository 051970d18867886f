package kube

import (
	"context"
	"errors"
	"testing"

	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var errElsewhere = errors.New("in another namespace")

// confined is a reconcile whose primary may own nothing in a place.
type confined struct {
	reconcilectx.Reconcile
	place source.Place
	key   string
}

func (*confined) Controller() string { return "sites" }

func (c *confined) MayOwn(place source.Place, key string) error {
	c.place, c.key = place, key
	return errElsewhere
}

// TestAHandleWritesNothingThatThePrimaryMayNotOwn, and deletes nothing of the kind.
func TestAHandleWritesNothingThatThePrimaryMayNotOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for name, write := range map[string]func(context.Context, *Handle[*corev1.ConfigMap]) error{
			"Apply": func(ctx context.Context, k *Handle[*corev1.ConfigMap]) error {
				_, err := k.Apply(ctx, configMap("settings", "one"))
				return err
			},
			"CreateOrUpdate": func(ctx context.Context, k *Handle[*corev1.ConfigMap]) error {
				_, err := k.CreateOrUpdate(ctx, configMap("settings", ""), func(*corev1.ConfigMap) error { return nil })
				return err
			},
			"AdoptOrFail": func(ctx context.Context, k *Handle[*corev1.ConfigMap]) error {
				return k.AdoptOrFail(ctx, configMap("settings", ""))
			},
			"Delete": func(ctx context.Context, k *Handle[*corev1.ConfigMap]) error {
				return k.Delete(ctx, version("1", "1"))
			},
		} {
			client := fake.NewSimpleDynamicClient(scheme.Scheme)
			informer := stillInformer()
			k, err := New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), informer)
			must(t, err)
			r := &confined{}
			err = write(reconcilectx.With(t.Context(), r), k)
			if !errors.Is(err, errElsewhere) || r.place.Informer != informer || r.key != "shop/settings" {
				t.Errorf("%s: %v; asked for %q", name, err, r.key)
			}
			if actions := client.Actions(); len(actions) != 0 {
				t.Errorf("%s: it sent %v", name, actions)
			}
		}
	})
}
