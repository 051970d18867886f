package running

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestTheLastRunOfAKeyIsKnown, the newest of it, as far as there is place.
func TestTheLastRunOfAKeyIsKnown(t *testing.T) {
	var table Table
	begin := time.Now()
	if last := table.LastOf("home"); last != (Ended{}) {
		t.Errorf("before any run: %+v", last)
	}
	for i := range 3 {
		r := table.Begin("home", begin.Add(time.Duration(i)*time.Minute), i+1)
		if got := table.Of("home"); got.Since != r.Since || got.Attempt != i+1 {
			t.Errorf("under way: %+v", got)
		}
		table.Keep(r, time.Second)
	}
	want := Ended{Key: "home", At: begin.Add(2*time.Minute + time.Second), Took: time.Second}
	if last := table.LastOf("home"); last != want {
		t.Errorf("the last run is %+v, want %+v", last, want)
	}
	if got := table.Of("home"); got != (Run{}) {
		t.Errorf("nothing is under way: %+v", got)
	}
	const many = 100 * endedPlaces
	for i := range many {
		table.Keep(table.Begin(fmt.Sprint("site-", i), begin.Add(time.Hour+time.Duration(i)), 1), time.Second)
	}
	kept := 0
	for i := range many {
		if table.LastOf(fmt.Sprint("site-", i)).Took > 0 {
			kept++
		}
	}
	if last := table.LastOf(fmt.Sprint("site-", many-1)); last.Took != time.Second || kept != endedPlaces {
		t.Errorf("the newest is %+v; %d are kept", last, kept)
	}
	if last := table.LastOf("home"); last != (Ended{}) {
		t.Errorf("an old run keeps its place: %+v", last)
	}
}

func TestTheSlowestOfTheLastRunsAreKnown(t *testing.T) {
	var table Table
	begin := time.Now()
	if slowest := table.Slowest(2, begin); slowest != nil {
		t.Errorf("before any run: %+v", slowest)
	}
	took := map[string]time.Duration{"old": time.Hour, "a": time.Second, "b": 3 * time.Second, "c": 2 * time.Second}
	for key, d := range took {
		end := begin.Add(time.Minute)
		if key == "old" {
			end = begin.Add(-time.Minute)
		}
		table.Keep(table.Begin(key, end.Add(-d), 1), d)
	}
	var keys []string
	for _, ended := range table.Slowest(2, begin) {
		keys = append(keys, ended.Key)
	}
	if !slices.Equal(keys, []string{"b", "c"}) {
		t.Errorf("the slowest are %q", keys)
	}
}

// TestACallbackThatEndsIsNotKept: only reconciles are.
func TestACallbackThatEndsIsNotKept(t *testing.T) {
	var table Table
	table.End(table.Begin("home", time.Now(), 1))
	if table.ended != nil {
		t.Error("memory was taken for it")
	}
}
