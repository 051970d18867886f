package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Brake is what the brake of a controller holds.
type Brake struct {
	Engaged bool `json:"engaged"`
	// Engagement and Count are what a release has to name. Count is Held and Swept and Pruned together.
	Engagement string    `json:"engagement,omitempty"`
	Count      int       `json:"count"`
	Since      time.Time `json:"since,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries are held, Swept how many owners of orphaned secondaries, Pruned how many
	// primaries that own something which they do not want any more.
	Held   int `json:"held"`
	Swept  int `json:"swept"`
	Pruned int `json:"pruned"`
	// Released is true after a release, until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// brake is what the brake holds now.
func (c *served) brake() *Brake {
	s := c.engine.BrakeState()
	return &Brake{
		Engaged: s.Engaged, Engagement: printable.Text(s.Engagement), Count: s.Count(), Since: s.Since,
		Reason: printable.Message(s.Reason), Held: s.Held, Swept: s.Swept, Pruned: s.Pruned, Released: s.Released,
	}
}

// BrakeListRequest is the request of "brake-list" and of "brake-vanished".
type BrakeListRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// BrakeList is the answer to "brake-list": what is held, and a page of the keys that a release is for.
type BrakeList struct {
	Brake Brake `json:"brake"`
	// Keys are the primaries whose delete is held, and the missing owners of orphaned secondaries.
	Keys []string `json:"keys"`
	// Pruned are the primaries that own something which they do not want any more.
	Pruned []string `json:"pruned"`
	// List names all keys that are held, on whatever page: another key, and it is another list. "" if there is none.
	List string `json:"list,omitempty"`
	// Next is that of both lists: the pages go through all keys in the order of the alphabet.
	Next string `json:"next,omitempty"`
}

func (r *request) pageOf() (of BrakeListRequest, err error) {
	if err := r.hasBrake(); err != nil {
		return of, err
	}
	return of, r.decode(&of)
}

func listBrake(ctx context.Context, r *request) (any, error) {
	of, err := r.pageOf()
	if err != nil {
		return nil, err
	}
	answer := &BrakeList{Brake: *r.brake(), Keys: []string{}, Pruned: []string{}}
	p, err := r.newPage(of.Limit, brakeBytes)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("nothing was listed: %w", ctx.Err())
	}
	waiting, pruning, _ := r.engine.Explainer().Brake.Held()
	answer.List = brake.ListID(waiting, pruning)
	keys, pruned := r.texts(waiting), r.texts(pruning)
	last := ""
	for _, key := range slices.Sorted(maps.Keys(keys.Union(pruned))) {
		if key <= of.After {
			continue
		}
		var lists []*[]string
		if keys.Has(key) {
			lists = append(lists, &answer.Keys)
		}
		if pruned.Has(key) {
			lists = append(lists, &answer.Pruned)
		}
		if !p.fits(slices.Repeat([]string{key}, len(lists))) {
			answer.Next, err = r.next(len(answer.Keys)+len(answer.Pruned), func() string { return last })
			break
		}
		for _, list := range lists {
			*list = append(*list, key)
		}
		last = key
	}
	return answer, err
}

// texts are keys as answers show them, which is what the next page goes on with.
func (r *request) texts(keys sets.Set[string]) sets.Set[string] {
	shown := make(sets.Set[string], len(keys))
	for key := range keys {
		if !r.engine.WellFormed(key) {
			key = printable.Text(key)
		}
		shown.Insert(key)
	}
	return shown
}

// brakeBytes is more than a Brake has in JSON.
const brakeBytes = 4 << 10

// BrakeRequest is the request of "brake-restore". Both members are needed, as "brake-vanished" gives them.
type BrakeRequest struct {
	Engagement string `json:"engagement"`
	Count      *int   `json:"count"`
}

// BrakeReleaseRequest is the request of "brake-release". Engagement and Count are needed, as "brake-list" gives them.
// With its List the request is refused if other keys are held than its sender has read, as many as they may be. A
// leader of an earlier version, which knows no lists, goes by the count alone.
type BrakeReleaseRequest struct {
	Engagement string `json:"engagement"`
	Count      *int   `json:"count"`
	List       string `json:"list,omitempty"`
}

// BrakeReleased is the answer to "brake-release".
type BrakeReleased struct {
	// Count is how many deletes the release was asked for.
	Count int `json:"count"`
	// Released is true if they go on. If it is false the request is stored and not judged yet: brake-list tells.
	Released bool `json:"released"`
}

// named reads a request about the brake, and checks that it names what there is. Only a release may name a list.
func (r *request) named() (of BrakeReleaseRequest, err error) {
	if err := r.hasBrake(); err != nil {
		return of, err
	}
	if r.verb.name == "brake-release" {
		err = r.decode(&of)
	} else {
		var all BrakeRequest
		err = r.decode(&all)
		of.Engagement, of.Count = all.Engagement, all.Count
	}
	if err == nil && (of.Engagement == "" || of.Count == nil || *of.Count < 0) {
		err = refuse(codeBadRequest, `engagement and count are needed: {"engagement":"…","count":12}`)
	}
	return of, err
}

// mismatch refuses a request that names something else than what the brake holds.
func (r *request) mismatch(now *Brake) error {
	e := refuse(codeConflict, "the brake holds %d deletes in engagement %s, and the request names something else: "+
		"look what they are, and ask again", now.Count, now.Engagement)
	if !now.Engaged {
		e = refuse(codeConflict, "the brake holds nothing")
	}
	e.Brake, e.List = now, r.heldList()
	return e
}

// otherHeld reports whether the brake holds something else than a request names, if it names a list.
func (r *request) otherHeld(list string) bool { return list != "" && list != r.heldList() }

// heldList is the id of what the brake holds now.
func (r *request) heldList() string {
	waiting, pruning, _ := r.engine.Explainer().Brake.Held()
	return brake.ListID(waiting, pruning)
}

const (
	// releasePatience is how long an answer waits for the brake to judge a request.
	releasePatience = 3 * time.Second
	releaseLook     = 20 * time.Millisecond
)

// releaseBrake stores the request, and the brake judges it: it lets go no more than the request names, however many it
// holds by then.
func releaseBrake(ctx context.Context, r *request) (any, error) {
	of, err := r.named()
	if err != nil {
		return nil, err
	}
	engagement, count := of.Engagement, *of.Count
	now := r.brake()
	if !now.Engaged || now.Engagement != engagement || now.Count != count || r.otherHeld(of.List) {
		return nil, r.mismatch(now)
	}
	asked := record.Release{
		At: time.Now().UTC().Format(time.RFC3339Nano), By: "services API: " + r.from, Engagement: engagement,
		Count: count, List: of.List,
	}
	if err = r.engine.RequestRelease(ctx, asked); err != nil {
		return nil, fmt.Errorf("store the request for a release: %w", err)
	}
	r.did(ctx, "", ReasonBrakeRelease, fmt.Sprintf(
		"a release of the brake was requested, of %d deletes in engagement %s", count, engagement))
	look := time.NewTicker(releaseLook)
	defer look.Stop()
	held := r.engine.Explainer().Brake
	for began := time.Now(); time.Since(began) < releasePatience && ctx.Err() == nil; <-look.C {
		now, refused := r.brake(), held.Refused(asked)
		switch {
		case held.Released(engagement):
			return &BrakeReleased{Count: count, Released: true}, nil
		case refused, now.Engagement != engagement, now.Count > count:
			return nil, r.mismatch(now) // what was held came back, or is something else
		}
	}
	if r.otherHeld(of.List) { // since before the brake judged the request
		return nil, r.mismatch(r.brake())
	}
	return &BrakeReleased{Count: count}, nil
}
