package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fragments are those that have come, by their ids, the last of each.
func (s *stream) fragments(w *world) map[string]string {
	w.Helper()
	synctest.Wait()
	all := map[string]string{}
	for _, f := range s.take(w) {
		all[f.ID] = f.HTML
	}
	return all
}

// TestThePageShowsMembers that share the keys, and follows slots that move and who leads.
func TestThePageShowsMembers(t *testing.T) {
	inShards(t, func(w *world, stop map[string]func()) {
		b := w.ui(false)
		body := b.get("/", "<dt>Leader</dt><dd>member a, for <time ", "<dt>Slots</dt><dd>64</dd>", "<dt>Replicas</dt><dd>2</dd>",
			`<table aria-label="Members of websites">`, `<th scope="row">a <span class="state">leads</span></th><td>1</td>`,
			`<th scope="row">b</th><td>1</td>`)
		slots := regexp.MustCompile(`<th scope="row">[ab].*</th><td>1</td><td>(\d+)</td><td></td><td>0 of 1</td>`)
		if all := slots.FindAllStringSubmatch(body, -1); len(all) != 2 || all[0][1] == "0" || all[1][1] == "0" {
			t.Errorf("slots %q in\n%s", all, body)
		}
		s, stopFollowing := b.open("/")
		defer stopFollowing()
		for i := range 20 {
			w.put("websites", fmt.Sprintf("shop.long%d", i), `{"spec":{"host":"takes.example"}}`)
		}
		time.Sleep(8 * time.Second)
		s.fragments(w)
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop["b"]() }()
		time.Sleep(8 * time.Second)
		w.wantIn(s.fragments(w)["controllers"], `<span class="state">1 move</span>`, "<td>gets 1</td><td>1 of 1</td>",
			`<th scope="row">b <span class="state">leaves</span></th><td>1</td><td>1</td><td>gives 1 away</td>`)
		<-stopped
		time.Sleep(15 * time.Second)
		now := s.fragments(w)["controllers"]
		w.wantIn(now, "<dt>Slots</dt><dd>64</dd>", "<td>64</td>")
		if strings.Contains(now, `<th scope="row">b`) {
			t.Errorf("who has left is shown:\n%s", now)
		}
	})
}

// TestThePageOfAKeyNamesTheMemberThatWorksAtIt, and follows it.
func TestThePageOfAKeyNamesTheMemberThatWorksAtIt(t *testing.T) {
	inShards(t, func(w *world, stop map[string]func()) {
		b := w.ui(false)
		name := regexp.MustCompile(`<dt>Member that works at it</dt><dd>([ab])</dd>`)
		path, of := "", map[string]int{}
		for i := range 12 {
			w.put("websites", fmt.Sprintf("shop.s%d", i), `{"spec":{"host":"s.example"}}`)
		}
		time.Sleep(5 * time.Second)
		for i := range 12 {
			at := fmt.Sprintf("/kinds/Website.example.com/shop%%2Fs%d", i)
			found := name.FindStringSubmatch(b.get(at, `<span class="state">calm</span>`))
			if found == nil {
				t.Fatalf("%s names no member", at)
			}
			if of[found[1]]++; found[1] == "b" {
				path = at
			}
		}
		if of["a"] == 0 || of["b"] == 0 {
			t.Fatalf("members are %v", of)
		}
		s, stopFollowing := b.open(path)
		defer stopFollowing()
		time.Sleep(3 * time.Second)
		w.wantIn(s.fragments(w)["why"], "<dd>b</dd>")
		stop["b"]()
		time.Sleep(8 * time.Second)
		w.wantIn(s.fragments(w)["why"], "<dd>a</dd>")
	})
}
