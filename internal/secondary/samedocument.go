package secondary

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
)

// sameDocument reports whether a write of obj would leave the document of before as it is: what is compared is the JSON
// that the client writes, and not memory. Memory has what no document shows, as unexported fields, and a comparison of
// it knows nothing of the methods by which types encode themselves.
func sameDocument[T entity.IEntity](client entity.IEntityClient[T], key string, before, obj T) (bool, error) {
	if reflect.DeepEqual(before, obj) { // quicker, and mostly says it
		return true, nil
	}
	port := client.EnginePort()
	old, err := port.DocumentOf(before)
	if err != nil {
		return false, err
	}
	document, err := port.DocumentOf(obj)
	if err != nil || bytes.Equal(old, document) {
		return err == nil, err
	}
	was, is := valueOf(old), valueOf(document)
	if equal(was, is, exactly) {
		return true, nil
	}
	if !equal(was, is, rounded) {
		return false, nil
	}
	// They differ by digits that a float64 does not have. If the type has them neither, it would ask for the same
	// write each time.
	read, err := port.FromDocument(key, 0, document)
	if err != nil {
		return false, nil // the write tells why
	}
	again, err := port.DocumentOf(read)
	return err == nil && equal(was, valueOf(again), exactly), err
}

// valueOf is a document with its numbers as they are written. It is valid JSON: a client has encoded it.
func valueOf(document []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	_ = d.Decode(&value)
	return value
}

// equal compares two JSON values, and numbers by what number makes of them.
func equal(a, b any, number func(json.Number) string) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, member := range a {
			other, ok := b[name]
			if !ok || !equal(member, other, number) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i], number) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && number(a) == number(b)
	default:
		return a == b
	}
}

// exactly is the same for numbers that are equal, however many digits they have: 1000, 1e3 and 1000.0 are one number.
func exactly(n json.Number) string {
	text, exponent := strings.ToLower(string(n)), 0
	mantissa, power, scientific := strings.Cut(text, "e")
	if scientific {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return text // no code computes with it
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	shorter := strings.TrimRight(digits, "0")
	if shorter == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + shorter + "e" + strconv.Itoa(exponent-len(fraction)+len(digits)-len(shorter))
}

// rounded is the same for numbers of which the nearest float64 is one.
func rounded(n json.Number) string {
	f, _ := n.Float64() // infinite where it is too large
	return strconv.FormatFloat(f, 'g', -1, 64)
}
