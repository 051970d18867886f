package owner_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func secrets(t *testing.T, of ...byte) *owner.Secrets {
	t.Helper()
	var all [][]byte
	for _, c := range of {
		all = append(all, bytes.Repeat([]byte{c}, 32))
	}
	s, err := owner.NewSecrets(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatIsNotProvenMayNotBeDeletedWhereProofsAreWanted, and nothing may before somebody said in which place.
func TestWhatIsNotProvenMayNotBeDeletedWhereProofsAreWanted(t *testing.T) {
	a, b := secrets(t, 'a'), secrets(t, 'b', 'a')
	pages := owner.ResourceOfBucket("pages")
	home := owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}
	proven := func() *metav1.ObjectMeta {
		obj := object(home)
		owner.Prove(obj, a, pages)
		return obj
	}
	claim := owner.Claim{Kind: "Site", Instance: "here", Proofs: a}
	of := func(kind, instance string, by *owner.Secrets) owner.Claim {
		return owner.Claim{Kind: kind, Instance: instance, Proofs: by}.At(pages)
	}
	for name, test := range map[string]struct {
		claim         owner.Claim
		obj           *metav1.ObjectMeta
		change        func(*metav1.ObjectMeta)
		may, unproven bool
		older         bool
	}{
		"proven":                 {claim: claim.At(pages), obj: proven(), may: true},
		"by an older":            {claim: of("Site", "here", b), obj: proven(), may: true, older: true},
		"marked":                 {claim: claim.At(pages), obj: object(home), unproven: true},
		"in another place":       {claim: claim.At(owner.ResourceOfBucket("drafts")), obj: proven(), unproven: true},
		"in no place":            {claim: claim, obj: proven(), unproven: true},
		"behind an API":          {claim: claim.At(owner.ResourceOfAPI()), obj: object(home), may: true},
		"no proofs are wanted":   {claim: of("Site", "here", nil), obj: object(home), may: true},
		"another installation's": {claim: of("Site", "there", a), obj: proven()},
		"another kind's":         {claim: of("Shop", "here", a), obj: proven()},
		"another name": {claim: claim.At(pages), obj: proven(), unproven: true,
			change: func(m *metav1.ObjectMeta) { m.Name = "another" }},
		"another namespace": {claim: claim.At(pages), obj: proven(), unproven: true,
			change: func(m *metav1.ObjectMeta) { m.Namespace = "another" }},
		"another key": {claim: claim.At(pages), obj: proven(), unproven: true, change: func(m *metav1.ObjectMeta) {
			proof := m.Annotations[entity.OwnerProofAnnotation]
			entity.SetOwner(m, "Site", "away", "here")
			m.Annotations[entity.OwnerProofAnnotation] = proof
		}},
		"the labels gone": {claim: claim.At(pages), obj: proven(), may: true,
			change: func(m *metav1.ObjectMeta) { m.Labels = nil }},
		"the key's annotation gone": {claim: claim.At(pages), obj: proven(), unproven: true,
			change: func(m *metav1.ObjectMeta) { delete(m.Annotations, entity.OwnerKeyAnnotation) }},
		"labels that contradict": {claim: claim.At(pages), obj: proven(),
			change: func(m *metav1.ObjectMeta) { m.Labels[entity.OwnerKeyLabel] = "away" }},
	} {
		if test.change != nil {
			test.change(test.obj)
		}
		may, unproven := test.claim.MayDelete(test.obj), test.claim.IsUnproven(test.obj)
		if may != test.may || unproven != test.unproven {
			t.Errorf("%s: may be deleted: %v, unproven: %v", name, may, unproven)
		}
		if got := test.claim.IsProvenByOlder(test.obj); may && got != test.older {
			t.Errorf("%s: proven by an older secret: %v", name, got)
		}
		if proven := test.claim.IsProven(test.obj); proven && test.claim.Proofs == nil || test.unproven && proven {
			t.Errorf("%s: it is proven", name)
		}
	}
}

// TestProvingLeavesSharedAnnotationsAlone, and changes nothing where the proof is right already or cannot be made.
func TestProvingLeavesSharedAnnotationsAlone(t *testing.T) {
	a, pages := secrets(t, 'a'), owner.ResourceOfBucket("pages")
	obj := object(owner.Owner{Kind: "Site", Key: "home", Instance: "here"})
	shared := obj.Annotations
	before := maps.Clone(shared)
	owner.Prove(obj, a, owner.Resource{})
	owner.Prove(obj, a, owner.ResourceOfAPI())
	owner.Prove(obj, nil, pages)
	if !maps.Equal(obj.Annotations, before) {
		t.Errorf("it carries %v", obj.Annotations)
	}
	owner.Prove(obj, a, pages)
	proof := obj.Annotations[entity.OwnerProofAnnotation]
	if !maps.Equal(shared, before) || !strings.Contains(proof, ".") || len(obj.Annotations) != len(before)+1 {
		t.Errorf("shared %v, now %v", shared, obj.Annotations)
	}
	shared, before = obj.Annotations, maps.Clone(obj.Annotations)
	owner.Prove(obj, nil, pages)
	if _, ok := obj.Annotations[entity.OwnerProofAnnotation]; ok || !maps.Equal(shared, before) {
		t.Errorf("without secrets: shared %v, now %v", shared, obj.Annotations)
	}
	nobodys := &metav1.ObjectMeta{Name: "x"}
	owner.Prove(nobodys, a, pages)
	if len(nobodys.Annotations) > 0 {
		t.Errorf("nobody owns it, and it carries %v", nobodys.Annotations)
	}
}

// TestAProofGoesWithItsOwner: it is another's.
func TestAProofGoesWithItsOwner(t *testing.T) {
	obj := object(owner.Owner{Kind: "Site", Key: "home", Instance: "here"})
	owner.Prove(obj, secrets(t, 'a'), owner.ResourceOfBucket("pages"))
	proof := obj.Annotations[entity.OwnerProofAnnotation]
	if entity.SetOwner(obj, "Site", "home", "here"); obj.Annotations[entity.OwnerProofAnnotation] != proof {
		t.Error("the same owner took it off")
	}
	if entity.SetOwner(obj, "Site", "away", "here"); obj.Annotations[entity.OwnerProofAnnotation] != "" {
		t.Error("another owner left it")
	}
}
