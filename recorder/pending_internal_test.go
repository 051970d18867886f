package recorder

import (
	"container/list"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestEventsThatAreSentAgainKeepTheirPlaces(t *testing.T) {
	const events = 6
	for name, back := range map[string][]int{
		"in order": {0, 1, 2, 3}, "backwards": {3, 2, 1, 0}, "mixed": {2, 0, 3, 1}, "one by one": {1},
		"all": {5, 4, 0, 1, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := pendingEvents{subject: map[string]*list.Element{}}
			var want []string
			for i := range events {
				want = append(want, fmt.Sprint(i))
				p.put(fmt.Sprint(i), &corev1.Event{})
			}
			items := map[int]*pendingEvent{}
			for i := range slices.Max(back) + 1 {
				items[i] = p.takeOldest()
			}
			for _, i := range back {
				if p.putBack(items[i]) {
					t.Errorf("%d was taken for one that is there", i)
				}
				delete(items, i)
			}
			for i := range items { // arrived
				want = slices.DeleteFunc(want, func(s string) bool { return s == fmt.Sprint(i) })
			}
			var got []string
			for p.len() > 0 {
				got = append(got, p.takeOldest().subject)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if len(p.subject) != 0 {
				t.Errorf("%v are left", p.subject)
			}
		})
	}
}

// An event that is sent again must not replace a later count of itself.
func TestARepeatThatArrivedMeanwhileStays(t *testing.T) {
	p := pendingEvents{subject: map[string]*list.Element{}}
	p.put("s", &corev1.Event{Count: 1})
	first := p.takeOldest()
	p.put("s", &corev1.Event{Count: 2})
	if !p.putBack(first) || p.len() != 1 || p.takeOldest().event.Count != 2 {
		t.Error("the former count came back")
	}
}
