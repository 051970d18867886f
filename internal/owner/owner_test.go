package owner_test

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func object(o owner.Owner) *metav1.ObjectMeta {
	obj := &metav1.ObjectMeta{Name: "settings"}
	o.Own(obj)
	return obj
}

func TestAnObjectNamesItsOwnerInAnnotationsAndInLabels(t *testing.T) {
	for _, o := range []owner.Owner{
		{},
		{"Site", "home", "here"},
		{"Site", "home", ""},
		{"Site", "shop/home", "here"},
		{"Site", strings.Repeat("long", 30), "installation/one"},
	} {
		obj := object(o)
		if got := owner.Of(obj); got != o {
			t.Errorf("annotations name %+v, want %+v", got, o)
		}
		if o.IsNone() {
			if len(obj.Labels) > 0 || len(obj.Annotations) > 0 {
				t.Errorf("nobody owns it, but it has %v and %v", obj.Labels, obj.Annotations)
			}
			continue
		}
		if !entity.IsOwnedBy(obj, o.Kind, o.Key) || entity.IsOwnedBy(obj, o.Kind, "another") ||
			entity.IsOwnedBy(obj, "Shop", o.Key) {
			t.Errorf("%+v does not own it alone", o)
		}
	}
}

func TestNoOwnerLeavesAnObjectToWhomItNames(t *testing.T) {
	site := owner.Owner{Kind: "Site", Key: "home", Instance: "here"}
	obj := object(site)
	owner.Owner{}.Own(obj)
	if got := owner.Of(obj); got != site {
		t.Errorf("it names %+v, want %+v", got, site)
	}
}

func TestAnOwnerThatLacksItsKindOrKeyIsNone(t *testing.T) {
	for _, annotations := range []map[string]string{
		nil,
		{entity.OwnerKindAnnotation: "Site"},
		{entity.OwnerKeyAnnotation: "home"},
		{entity.OwnerInstanceAnnotation: "here"},
	} {
		if got := owner.Of(&metav1.ObjectMeta{Annotations: annotations}); !got.IsNone() {
			t.Errorf("%v name %+v", annotations, got)
		}
	}
}

func TestAChangeOfOwnerShowsInEachOfItsMarks(t *testing.T) {
	controlledBy := func(uid types.UID) *metav1.ObjectMeta {
		yes := true
		obj := object(owner.Owner{})
		obj.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: &yes}}
		return obj
	}
	site := owner.Owner{Kind: "Site", Key: "home", Instance: "here"}
	onlyLabels, onlyAnnotations := object(site), object(site)
	onlyLabels.Annotations, onlyAnnotations.Labels = nil, nil
	for name, test := range map[string]struct {
		before, after *metav1.ObjectMeta
		want          bool
	}{
		"the same":             {object(site), object(site), false},
		"nobody":               {object(owner.Owner{}), object(owner.Owner{}), false},
		"another key":          {object(site), object(owner.Owner{Kind: "Site", Key: "away", Instance: "here"}), true},
		"another kind":         {object(site), object(owner.Owner{Kind: "Shop", Key: "home", Instance: "here"}), true},
		"another installation": {object(site), object(owner.Owner{Kind: "Site", Key: "home", Instance: "there"}), true},
		"annotations gone":     {object(site), onlyLabels, true},
		"labels gone":          {object(site), onlyAnnotations, true},
		"the same controller":  {controlledBy("a"), controlledBy("a"), false},
		"another controller":   {controlledBy("a"), controlledBy("b"), true},
		"no controller":        {controlledBy("a"), object(owner.Owner{}), true},
		"a controller":         {object(owner.Owner{}), controlledBy("a"), true},
	} {
		if got := owner.Changed(test.before, test.after); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
