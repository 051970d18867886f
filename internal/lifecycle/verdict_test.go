package lifecycle

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOneVerdictGoes, and each that is told is counted, each in its own place.
func TestOneVerdictGoes(t *testing.T) {
	var counts Ownerless
	places := map[*int]verdict{}
	for v := range verdicts {
		r := &rulings[v]
		if r.goes != (v == orphaned) || r.goes && (r.kept || r.unknown) {
			t.Errorf("verdict %d goes: %+v", v, *r)
		}
		if r.count == nil {
			if r.found != "" {
				t.Errorf("verdict %d is told and not counted", v)
			}
			continue
		}
		if other, taken := places[r.count(&counts)]; taken {
			t.Errorf("verdicts %d and %d are counted as one", v, other)
		}
		places[r.count(&counts)] = v
	}
}

// TestMarksSayWhoseAnObjectIs, as far as they can.
func TestMarksSayWhoseAnObjectIs(t *testing.T) {
	secrets, err := owner.NewSecrets([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	object := func(instance string) *metav1.ObjectMeta {
		obj := &metav1.ObjectMeta{Name: "page"}
		entity.SetOwner(obj, "Site", "home", instance)
		return obj
	}
	contradicts, both := object("here"), object("there")
	contradicts.Labels[entity.OwnerKeyLabel] = "other"
	both.Labels[entity.OwnerKeyLabel] = "other"
	claim, proofs := owner.Claim{Kind: "Site", Instance: "here"}, owner.Claim{Kind: "Site", Instance: "here", Proofs: secrets}
	pages := owner.ResourceOfBucket("pages")
	for name, test := range map[string]struct {
		claim owner.Claim
		obj   *metav1.ObjectMeta
		want  verdict
	}{
		"ours":                           {claim, object("here"), ours},
		"another installation's":         {claim, object("there"), foreign},
		"nobody's":                       {claim, object(""), foreign},
		"contradicting":                  {claim, contradicts, contradicting},
		"another's, and contradicting":   {claim, both, foreign},
		"without a proof":                {proofs, object("here"), unproven},
		"contradicting, without a proof": {proofs, contradicts, contradicting},
	} {
		if got := ruledByMarks(test.claim.At(pages), test.obj, owner.NamedBy(test.obj)); got != test.want {
			t.Errorf("%s: verdict %d, want %d", name, got, test.want)
		}
	}
}
