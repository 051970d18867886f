package owner_test

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHashesFindTheKeysThatExist(t *testing.T) {
	long := func(name string) string { return strings.Repeat(name, 30) }
	var hashes owner.Hashes
	hashes.Note(long("none"), true) // before the first question: all has it, if it exists
	asked := 0
	all := func() []string { asked++; return []string{"home", "shop/home", long("long")} }
	find := func(key, want string) {
		t.Helper()
		labels := map[string]string{entity.OwnerKindLabel: "Site", entity.OwnerKeyLabel: entity.OwnerLabelValue(key)}
		if got := hashes.KeyOf(owner.NamedBy(&metav1.ObjectMeta{Labels: labels}), all); got != want {
			t.Errorf("of %q it finds %q, want %q", key, got, want)
		}
	}
	find(long("long"), long("long"))
	find("shop/home", "shop/home")
	find("home", "home") // which is no hash
	find(long("none"), "")
	hashes.Note(long("late"), true)
	hashes.Note("shop/home", false)
	find(long("late"), long("late"))
	find("shop/home", "")
	if asked != 1 {
		t.Errorf("all keys were listed %d times", asked)
	}
}
