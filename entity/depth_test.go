package entity

import (
	"strings"
	"testing"
)

func TestDepthIsThatOfObjectsAndArrays(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2) }
	for name, test := range map[string]struct {
		document string
		tooDeep  bool
	}{
		"shallow":         {`{"spec":{}}`, false},
		"just right":      {nested(maxDepth), false},
		"too deep":        {nested(maxDepth + 2), true},
		"wide":            {`[` + strings.Repeat(`{},`, 2*maxDepth) + `{}]`, false},
		"in a string":     {`{"a":"` + strings.Repeat(`{[`, maxDepth) + `"}`, false},
		"in a name":       {`{"` + strings.Repeat(`[`, 2*maxDepth) + `":1}`, false},
		"after an escape": {`{"a":"\"` + strings.Repeat(`[`, 2*maxDepth) + `","b":"\\"}`, false},
		"behind a string": {`{"a":"\\","b":` + strings.Repeat(`[`, maxDepth) + `1`, true},
		"never closed":    {strings.Repeat(`[`, 2*maxDepth), true},
		"ends in a quote": {strings.Repeat(`[`, maxDepth) + strings.Repeat(`1,[],`, maxDepth) + `"\`, true},
	} {
		if err := checkDepth([]byte(test.document)); (err != nil) != test.tooDeep {
			t.Errorf("%s: %v", name, err)
		}
	}
}
