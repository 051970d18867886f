package kube

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownerproof"
	"github.com/nagi-runtime/nagi/internal/source"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// proving is a reconcile of the site shop/home whose controller wants proofs.
type proving struct {
	current.Reconcile
	proofs *ownerproof.Secrets
}

var home = owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}

func (*proving) Controller() string                { return "sites" }
func (*proving) MayOwn(source.Place, string) error { return nil }
func (*proving) Want(source.Place, string)         {}
func (*proving) Primary() current.Primary          { return current.Primary{Owner: home} }

func (p *proving) Prove(obj metav1.Object, in ownerproof.Resource) { owner.Prove(obj, p.proofs, in) }

// TestAdoptOrFailProvesWhatIsThePrimarysAlready, as after the first start with proofs, or after a new secret.
func TestAdoptOrFailProvesWhatIsThePrimarysAlready(t *testing.T) {
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	before, err := ownerproof.New([]byte("0123456789abcdef"))
	must(t, err)
	now, err := ownerproof.New([]byte("fedcba9876543210"), []byte("0123456789abcdef"))
	must(t, err)
	for name, prove := range map[string]func(metav1.Object){
		"none":  func(metav1.Object) {},
		"older": func(obj metav1.Object) { owner.Prove(obj, before, ownerproof.Kube("", "configmaps")) },
	} {
		settings := version("1", "1")
		settings.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		home.Own(settings)
		prove(settings)
		client := fake.NewSimpleDynamicClient(scheme.Scheme, settings)
		informer := stillInformer()
		k, err := New[*corev1.ConfigMap](client, configMaps, informer)
		must(t, err)
		must(t, informer.GetStore().Add(settings))
		ctx, cancel := context.WithTimeout(current.With(t.Context(), &proving{proofs: now}), 10*time.Second)
		must(t, k.AdoptOrFail(ctx, configMap("settings", "")))
		live, err := client.Resource(configMaps).Namespace("shop").Get(ctx, "settings", metav1.GetOptions{})
		must(t, err)
		proof := live.GetAnnotations()[entity.OwnerProofAnnotation]
		claim := owner.Claim{Kind: "Site", Instance: "here", Proofs: now}.At(ownerproof.Kube("", "configmaps"))
		if !claim.IsProven(live) || claim.IsProvenByOlder(live) {
			t.Errorf("%s: it carries the proof %q", name, proof)
		}
		client.ClearActions()
		must(t, informer.GetStore().Update(live))
		must(t, k.AdoptOrFail(ctx, configMap("settings", "")))
		if actions := client.Actions(); len(actions) != 0 {
			t.Errorf("%s: the second call sent %v", name, actions)
		}
		cancel()
	}
}
