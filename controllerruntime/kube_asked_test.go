package controllerruntime

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestATeardownTakesNoAnswerThatIsOlderThanItsQuestion: the document was back while the list ran, and is gone again.
func TestATeardownTakesNoAnswerThatIsOlderThanItsQuestion(t *testing.T) {
	a := newAskedKeys()
	known := func(key string) bool { _, known, _ := a.ask(key); return known }
	if known("home") || known("shop") {
		t.Fatal("an answer before any list")
	}
	a.next()
	a.forget("home")
	if known("home") || known("shop") {
		t.Fatal("an answer before the list has ended")
	}
	if told := a.tell(nil, nil); len(told) != 1 || told[0] != "shop" {
		t.Errorf("told: %v, want shop", told)
	}
	if known("home") || !known("shop") {
		t.Error("home got the answer to an older question, or shop none")
	}
	if next := a.next(); len(next) != 1 || next[0] != "home" {
		t.Errorf("the next list is for %v, want home", next)
	}
}

// TestWhatIsFoundOrFailsIsAskedForAgain, that there is nothing is not, until the key is forgotten.
func TestWhatIsFoundOrFailsIsAskedForAgain(t *testing.T) {
	for name, test := range map[string]struct {
		found []metav1.Object
		err   error
		again bool
	}{
		"nothing":   {nil, nil, false},
		"something": {[]metav1.Object{configMap("settings", "one")}, nil, true},
		"an error":  {nil, errors.New("as the test wishes"), true},
	} {
		a := newAskedKeys()
		_, _, _ = a.ask("home")
		a.next()
		a.tell(map[string][]metav1.Object{"home": test.found}, test.err)
		if found, known, err := a.ask("home"); !known || len(found) != len(test.found) || err != test.err {
			t.Errorf("%s: %v, known: %v, error: %v", name, found, known, err)
		}
		if _, known, _ := a.ask("home"); known == test.again {
			t.Errorf("%s: known the second time: %v", name, known)
		}
		if a.forget("home"); a.size.Load() != 0 {
			t.Errorf("%s: %d are kept", name, a.size.Load())
		}
		if _, known, _ := a.ask("home"); known {
			t.Errorf("%s: known after it was forgotten", name)
		}
	}
}

// TestAListIsForSoManyAsAURLCanName.
func TestAListIsForSoManyAsAURLCanName(t *testing.T) {
	a := newAskedKeys()
	const keys = kubeAskedMost + kubeAskedMost/2
	for n := range keys {
		_, _, _ = a.ask(fmt.Sprint(n))
	}
	asked := map[string]bool{}
	for _, want := range []int{kubeAskedMost, kubeAskedMost / 2, 0} {
		next := a.next()
		if len(next) != want {
			t.Errorf("a list for %d, want %d", len(next), want)
		}
		for _, key := range next {
			asked[key] = true
		}
		a.tell(nil, nil)
	}
	if len(asked) != keys {
		t.Errorf("%d were asked for, want %d", len(asked), keys)
	}
}
