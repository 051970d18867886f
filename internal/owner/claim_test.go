package owner_test

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheRuntimeDeletesOnlyWhatIsCertainlyItsOwn.
func TestTheRuntimeDeletesOnlyWhatIsCertainlyItsOwn(t *testing.T) {
	home := owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}
	for name, test := range map[string]struct {
		change func(*metav1.ObjectMeta)
		want   bool
	}{
		"all marks":         {func(*metav1.ObjectMeta) {}, true},
		"annotations alone": {func(m *metav1.ObjectMeta) { m.Labels = nil }, true},
		"labels alone":      {func(m *metav1.ObjectMeta) { m.Annotations = nil }, true},
		"each a part": {func(m *metav1.ObjectMeta) {
			delete(m.Annotations, entity.OwnerKindAnnotation)
			delete(m.Labels, entity.OwnerKeyLabel)
		}, true},
		"no key": {func(m *metav1.ObjectMeta) {
			delete(m.Annotations, entity.OwnerKeyAnnotation)
			delete(m.Labels, entity.OwnerKeyLabel)
		}, false},
		"no installation": {func(m *metav1.ObjectMeta) {
			delete(m.Annotations, entity.OwnerInstanceAnnotation)
			delete(m.Labels, entity.OwnerInstanceLabel)
		}, false},
		"another kind":         {func(m *metav1.ObjectMeta) { entity.SetOwner(m, "Shop", "home", "here") }, false},
		"another installation": {func(m *metav1.ObjectMeta) { entity.SetOwner(m, "Site", "home", "there") }, false},
		"kinds contradict":     {func(m *metav1.ObjectMeta) { m.Labels[entity.OwnerKindLabel] = "Shop" }, false},
		"keys contradict":      {func(m *metav1.ObjectMeta) { m.Labels[entity.OwnerKeyLabel] = "home" }, false},
		"instances contradict": {func(m *metav1.ObjectMeta) { m.Labels[entity.OwnerInstanceLabel] = "there" }, false},
		"another's labels alone": {func(m *metav1.ObjectMeta) {
			entity.SetOwner(m, "Site", "home", "there")
			m.Annotations = nil
		}, false},
		"nothing": {func(m *metav1.ObjectMeta) { m.Annotations, m.Labels = nil, nil }, false},
	} {
		obj := object(home)
		test.change(obj)
		if got := (owner.Claim{Kind: "Site", Instance: "here"}).MayDelete(obj); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		if (owner.Claim{Kind: "Site"}).MayDelete(obj) {
			t.Errorf("%s: deleted though the installation is not known yet", name)
		}
	}
	obj := object(owner.Owner{Kind: "Site", Key: "home"})
	if !(owner.Claim{Kind: "Site", Instance: "here", Unnamed: true}).MayDelete(obj) {
		t.Error("what names no installation is not claimed where it should be")
	}
	obj.Labels[entity.OwnerKeyLabel] = "another"
	if !(owner.Claim{Kind: "Site", Instance: "here", Unnamed: true}).MayDelete(obj) {
		t.Error("the annotations do not win there")
	}
}

// TestAHashIsNoKey: labels have a hash of a key that is no value of a label.
func TestAHashIsNoKey(t *testing.T) {
	for key, hashed := range map[string]bool{"home": false, "shop/home": true, strings.Repeat("long", 30): true} {
		obj := object(owner.Owner{Kind: "Site", Key: key, Instance: "here"})
		if got, hash := owner.NamedBy(obj).Key(); got != key || hash != "" {
			t.Errorf("with annotations the key is %q, %q; want %q", got, hash, key)
		}
		obj.Annotations = nil
		got, hash := owner.NamedBy(obj).Key()
		if hashed && (got != "" || hash != entity.OwnerLabelValue(key)) || !hashed && (got != key || hash != "") {
			t.Errorf("with labels alone the key of %q is %q, %q", key, got, hash)
		}
		if !entity.IsOwnedBy(obj, "Site", key) || entity.IsOwnedBy(obj, "Site", key+"x") ||
			entity.IsOwnedBy(obj, "Shop", key) {
			t.Errorf("with labels alone it is not %q's alone", key)
		}
	}
}

// TestNoKeyStandsForAnothersHash: a primary that is named like the hash of another one's key would own what labels
// alone name, and take it along when it goes.
func TestNoKeyStandsForAnothersHash(t *testing.T) {
	victim := object(owner.Owner{Kind: "Site", Key: strings.Repeat("long", 30), Instance: "here"})
	victim.Annotations = nil
	_, hash := owner.NamedBy(victim).Key()
	if entity.IsOwnedBy(victim, "Site", hash) {
		t.Errorf("%q owns it, too", hash)
	}
	obj := object(owner.Owner{Kind: "Site", Key: hash, Instance: "here"})
	if obj.Annotations = nil; !entity.IsOwnedBy(obj, "Site", hash) {
		t.Errorf("%q does not own its own", hash)
	}
}

// TestAKeyThatReadsLikeAnothersHashIsNotTheOther, in whichever mark it stands. Where annotation and label say the same
// text it is the key of the one and stands for the other: that is a contradiction.
func TestAKeyThatReadsLikeAnothersHashIsNotTheOther(t *testing.T) {
	long := strings.Repeat("long", 30)
	literal := entity.OwnerLabelValue(long) // a key that anybody may put
	claim := owner.Claim{Kind: "Site", Instance: "here"}
	of := func(key string) *metav1.ObjectMeta {
		return object(owner.Owner{Kind: "Site", Key: key, Instance: "here"})
	}
	annotated, labelled := of(literal), of(literal)
	annotated.Labels, labelled.Annotations = nil, nil
	for name, obj := range map[string]*metav1.ObjectMeta{"all": of(literal), "annotations": annotated, "labels": labelled} {
		if entity.IsOwnedBy(obj, "Site", long) || !entity.IsOwnedBy(obj, "Site", literal) {
			t.Errorf("%s: what %q owns is taken for the other's", name, literal)
		}
		if !claim.MayDelete(obj) {
			t.Errorf("%s: what %q owns is not its own", name, literal)
		}
	}
	if key, hash := owner.NamedBy(annotated).Key(); key != literal || hash != "" {
		t.Errorf("the annotation names %q, %q", key, hash)
	}
	if _, hash := owner.NamedBy(labelled).Key(); hash == literal {
		t.Error("the label is the other's")
	}
	others := of(long)
	others.Annotations[entity.OwnerKeyAnnotation] = literal // the label still stands for the long key
	if claim.MayDelete(others) {
		t.Errorf("what is labelled as %q's goes with %q", long[:8]+"…", literal)
	}
}

// TestAnObjectAndItsOwnerAreInOneNamespace, where both have one.
func TestAnObjectAndItsOwnerAreInOneNamespace(t *testing.T) {
	for _, test := range []struct {
		namespace, key string
		crosses        bool
	}{
		{"shop", "shop/home", false}, {"away", "shop/home", true}, {"shop", "home", false}, {"", "shop/home", false},
		{"", "home", false}, {"shop", "/home", true}, {"shop", "shop/home/x", false}, {"sho", "shop/home", true},
	} {
		obj := object(owner.Owner{Kind: "Site", Key: test.key, Instance: "here"})
		obj.Namespace = test.namespace
		claim := owner.Claim{Kind: "Site", Instance: "here"}
		if claim.Owns(obj, test.key) == test.crosses || claim.In(open(false)).Crosses(obj, test.key) != test.crosses {
			t.Errorf("%+v: it says otherwise", test)
		}
		if !claim.In(open(true)).Owns(obj, test.key) {
			t.Errorf("%+v: an open source refuses it", test)
		}
		if claim.In(open(true)).In(open(false)).Owns(obj, test.key) == test.crosses {
			t.Errorf("%+v: a source that is not open is, after one that is", test)
		}
	}
}

// open is a source that is open to owners in other namespaces, or not.
type open bool

func (o open) AnyNamespace() bool { return bool(o) }

// Resource implements owner.Source.
func (open) Resource() owner.Resource { return owner.Resource{} }

// TestEachMarkCountsAlone: what the annotations have lost the labels tell, and the other way round.
func TestEachMarkCountsAlone(t *testing.T) {
	home := owner.Owner{Kind: "Site", Key: "shop/home", Instance: "here"}
	for name, test := range map[string]struct {
		change           func(*metav1.ObjectMeta)
		allowed, another bool // home may write it; a mark names another
	}{
		"all marks":         {func(*metav1.ObjectMeta) {}, true, false},
		"annotations alone": {func(m *metav1.ObjectMeta) { m.Labels = nil }, true, false},
		"labels alone":      {func(m *metav1.ObjectMeta) { m.Annotations = nil }, true, false},
		"each a part": {func(m *metav1.ObjectMeta) {
			delete(m.Annotations, entity.OwnerKeyAnnotation)
			delete(m.Labels, entity.OwnerKindLabel)
		}, true, false},
		"no installation": {func(m *metav1.ObjectMeta) {
			delete(m.Annotations, entity.OwnerInstanceAnnotation)
			delete(m.Labels, entity.OwnerInstanceLabel)
		}, true, false},
		"labels of another": {func(m *metav1.ObjectMeta) { m.Labels[entity.OwnerKeyLabel] = "away" }, true, false},
		"annotation of another installation, labels without": {func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{entity.OwnerInstanceAnnotation: "there"}
			delete(m.Labels, entity.OwnerInstanceLabel)
		}, false, true},
		"label of another installation, annotations without": {func(m *metav1.ObjectMeta) {
			m.Labels = map[string]string{entity.OwnerInstanceLabel: "there"}
			delete(m.Annotations, entity.OwnerInstanceAnnotation)
		}, false, true},
		"another key":  {func(m *metav1.ObjectMeta) { entity.SetOwner(m, "Site", "away", "here") }, false, true},
		"another kind": {func(m *metav1.ObjectMeta) { entity.SetOwner(m, "Shop", "shop/home", "here") }, false, true},
		"the kind alone": {func(m *metav1.ObjectMeta) {
			m.Annotations, m.Labels = nil, map[string]string{entity.OwnerKindLabel: "Site"}
		}, false, false},
		"nothing": {func(m *metav1.ObjectMeta) { m.Annotations, m.Labels = nil, nil }, false, false},
	} {
		obj := object(home)
		test.change(obj)
		named := owner.NamedBy(obj)
		if named.Allows(home) != test.allowed || named.Denies(home) != test.another {
			t.Errorf("%s: allowed %v, another's %v", name, named.Allows(home), named.Denies(home))
		}
	}
}
