package secondary

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestNumbersAreTheSameIfTheyAreEqual, however they are written.
func TestNumbersAreTheSameIfTheyAreEqual(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.0{0,3}[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a := number.Draw(t, "a")
		b := number.Draw(t, "b")
		if rapid.Bool().Draw(t, "equal") {
			b = otherwise(t, a)
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got, want := equal(json.Number(a), json.Number(b), exactly), x.Cmp(y) == 0; got != want {
			t.Fatalf("%s and %s are the same: %v, want %v", a, b, got, want)
		}
	})
}

// otherwise writes a number with another exponent.
func otherwise(t *rapid.T, number string) string {
	x, _ := new(big.Rat).SetString(number)
	power := rapid.IntRange(0, 9).Draw(t, "power")
	x.Mul(x, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(power)), nil)))
	return x.FloatString(150) + "e-" + string(rune('0'+power))
}

func TestDocumentsAreTheSameInAnyOrderOfTheirMembers(t *testing.T) {
	for _, test := range []struct {
		a, b        string
		same, close bool
	}{
		{`{"a":1,"b":[1,2,null,"x",true]}`, `{"b":[1.0,2e0,null,"x",true],"a":10e-1}`, true, true},
		{`[9007199254740992]`, `[9007199254740993]`, false, true},
		{`{"n":18446744073709551615}`, `{"n":18446744073709551614}`, false, true},
		{`[0.1]`, `[0.10000000000000000001]`, false, true},
		{`[-0]`, `[0]`, true, false},
		{`[1e999999999999999999999]`, `[1E999999999999999999999]`, true, true},
		{`[1e999999999999999999999]`, `[2e999999999999999999999]`, false, true},
		{`[1]`, `["1"]`, false, false},
		{`{"a":null}`, `{}`, false, false},
		{`{"a":1}`, `{"b":1}`, false, false},
		{`[]`, `{}`, false, false},
		{`[1]`, `[1,1]`, false, false},
		{`[null]`, `[[]]`, false, false},
		{`[false]`, `[null]`, false, false},
	} {
		a, b := valueOf([]byte(test.a)), valueOf([]byte(test.b))
		if got := equal(a, b, exactly); got != test.same {
			t.Errorf("%s and %s are the same: %v", test.a, test.b, got)
		}
		if got := equal(a, b, rounded); got != test.close {
			t.Errorf("%s and %s are the same to a float64: %v", test.a, test.b, got)
		}
	}
}
