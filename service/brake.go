package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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

// BrakeRequest is the request of "brake-release" and of "brake-restore". Both members are needed, as "brake-list" or
// "brake-vanished" gives them.
type BrakeRequest struct {
	Engagement string `json:"engagement"`
	Count      *int   `json:"count"`
}

// BrakeReleased is the answer to "brake-release".
type BrakeReleased struct {
	// Count is how many deletes the release was asked for.
	Count int `json:"count"`
	// Released is true if they go on. If it is false the request is stored and not judged yet: brake-list tells.
	Released bool `json:"released"`
}

// named reads a request about the brake and checks that it names what there is.
func (r *request) named() (engagement string, count int, err error) {
	if err := r.hasBrake(); err != nil {
		return "", 0, err
	}
	var of BrakeRequest
	if err := r.decode(&of); err != nil {
		return "", 0, err
	}
	if of.Engagement == "" || of.Count == nil || *of.Count < 0 {
		return "", 0, refuse(codeBadRequest, `engagement and count are needed: {"engagement":"…","count":12}`)
	}
	return of.Engagement, *of.Count, nil
}

// mismatch refuses a request that names something else than what the brake holds.
func (r *request) mismatch(now *Brake) error {
	e := refuse(codeConflict, "the brake holds %d deletes in engagement %s, and the request names something else: "+
		"look what they are, and ask again", now.Count, now.Engagement)
	if !now.Engaged {
		e = refuse(codeConflict, "the brake holds nothing")
	}
	e.Brake = now
	return e
}

const (
	// releasePatience is how long an answer waits for the brake to judge a request.
	releasePatience = 3 * time.Second
	releaseLook     = 20 * time.Millisecond
)

// releaseBrake stores the request, and the brake judges it: it lets go no more than the request names, however many it
// holds by then.
func releaseBrake(ctx context.Context, r *request) (any, error) {
	engagement, count, err := r.named()
	if err != nil {
		return nil, err
	}
	if now := r.brake(); !now.Engaged || now.Engagement != engagement || now.Count != count {
		return nil, r.mismatch(now)
	}
	err = r.engine.RequestRelease(ctx, record.Release{
		At: time.Now().UTC().Format(time.RFC3339), By: "services API: " + r.from, Engagement: engagement, Count: count,
	})
	if err != nil {
		return nil, fmt.Errorf("store the request for a release: %w", err)
	}
	r.did(ctx, "", ReasonBrakeRelease, fmt.Sprintf(
		"a release of the brake was requested, of %d deletes in engagement %s", count, engagement))
	look := time.NewTicker(releaseLook)
	defer look.Stop()
	for asked := time.Now(); time.Since(asked) < releasePatience && ctx.Err() == nil; <-look.C {
		switch now := r.brake(); {
		case !now.Engaged || now.Engagement != engagement:
			return &BrakeReleased{Count: count, Released: true}, nil
		case now.Count > count:
			return nil, r.mismatch(now)
		}
	}
	return &BrakeReleased{Count: count}, nil
}
