package entity

import "testing"

func TestAPreconditionIsNoPartOfADocument(t *testing.T) {
	for patch, want := range map[string]string{
		`{"metadata":{"resourceVersion":"5"},"spec":1}`:         `{"spec":1}`,
		`{"metadata":{"resourceVersion":"5","labels":{"a":1}}}`: `{"metadata":{"labels":{"a":1}}}`,
	} {
		if got := string(withoutPrecondition([]byte(patch))); got != want {
			t.Errorf("%s is %s, want %s", patch, got, want)
		}
	}
}
