package notify

import (
	"fmt"
	"slices"
	"testing"
)

// TestWhatTheLookBeforeFoundIsNoNews, and of many news the first are named.
func TestWhatTheLookBeforeFoundIsNoNews(t *testing.T) {
	var f Found
	look := func(names ...string) []string {
		f.Begin()
		for _, name := range names {
			f.Add(name)
		}
		return f.End()
	}
	for i, test := range []struct{ finds, news []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"b", "a", "c"}, []string{"c"}},
		{[]string{"c"}, nil},
		{nil, nil},
		{[]string{"c"}, []string{"c"}},
	} {
		if news := look(test.finds...); !slices.Equal(news, test.news) {
			t.Errorf("look %d: news %v, want %v", i, news, test.news)
		}
	}
	f.Begin()
	f.Add("d") // and this look ends early
	if news := look("c", "d"); !slices.Equal(news, []string{"d"}) || !f.Before("c") || f.Before("a") {
		t.Errorf("after a look that did not end: news %v", news)
	}
	var many []string
	for i := range 5 * MostNamed {
		many = append(many, fmt.Sprint(i))
	}
	if news := look(many...); len(news) != MostNamed {
		t.Errorf("%d are named", len(news))
	}
}
