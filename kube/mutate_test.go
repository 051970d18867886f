package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// listening is a reconcile of the site "home" that notes which names are waited for, and what is told.
type listening struct {
	reconcilectx.Reconcile
	awaited, told []string
}

func (*listening) Controller() string                    { return "sites" }
func (*listening) MayOwn(source.Place, string) error     { return nil }
func (*listening) Want(source.Place, string)             {}
func (*listening) MustName(source.Place) bool            { return false }
func (*listening) Prove(metav1.Object, owner.Resource)   {}
func (l *listening) WarnOnce(object, _ string, _ string) { l.told = append(l.told, object) }
func (l *listening) AwaitName(_ source.Place, o string) bool {
	l.awaited = append(l.awaited, o)
	return true
}
func (*listening) Primary() reconcilectx.Primary {
	return reconcilectx.Primary{Owner: owner.Owner{Kind: "Site", Key: "home", Instance: "here"}}
}

// TestATTLOfAKubernetesObjectIsRefused, before anything is asked or written.
func TestATTLOfAKubernetesObjectIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, option := range []controller.WriteOption{controller.WithTTL(time.Hour), controller.WithoutTTL()} {
			client := fake.NewSimpleDynamicClient(scheme.Scheme)
			k, err := New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), stillInformer())
			must(t, err)
			ctx := reconcilectx.With(t.Context(), &listening{})
			_, err = k.CreateOrUpdateWith(ctx, configMap("settings", ""),
				func(*corev1.ConfigMap) error { return nil }, option)
			if err == nil || !strings.Contains(err.Error(), "Kubernetes have no TTL") || len(client.Actions()) > 0 {
				t.Errorf("%v; it sent %v", err, client.Actions())
			}
		}
	})
}

// TestWhatMutateDoesNotGetIsNotSaidOfTheObject: it may write another object, and return what came of that.
func TestWhatMutateDoesNotGetIsNotSaidOfTheObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for name, refused := range map[string]error{
			"owned": &controller.AlreadyOwnedError{Object: "other"}, "exists": &controller.ResourceExistsError{Key: "other"},
		} {
			client := fake.NewSimpleDynamicClient(scheme.Scheme)
			k, err := New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), stillInformer())
			must(t, err)
			r, calls := &listening{}, 0
			_, err = k.CreateOrUpdate(reconcilectx.With(context.Background(), r), configMap("settings", ""),
				func(*corev1.ConfigMap) error {
					calls++
					return refused
				})
			if !errors.Is(err, refused) || calls != 1 || len(r.awaited)+len(r.told) > 0 {
				t.Errorf("%s: %v after %d calls; waits for %q, told of %q", name, err, calls, r.awaited, r.told)
			}
			if actions := client.Actions(); len(actions) > 1 {
				t.Errorf("%s: it sent %v", name, actions)
			}
		}
	})
}
