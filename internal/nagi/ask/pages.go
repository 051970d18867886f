package ask

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// pages are the pages of a list, each asked for with what the one before says is next.
func pages[P any](
	ctx context.Context, c Controller, verb string, request func(after string) any, next func(*P) string,
) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		for after := ""; ; {
			page := new(P)
			if err := c.Do(ctx, Read, verb, "", request(after), page); err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) {
				return
			}
			if after = next(page); after == "" {
				return
			}
		}
	}
}

// mostReads is how often a list is read that is another one on a later page.
const mostReads = 5

// Changing is the error about a list that was never the same on all its pages.
type Changing struct{ Controller, What string }

func (e *Changing) Error() string {
	return fmt.Sprintf("controller %s: %s changed while its pages were read, %d times in a row: ask again when less "+
		"happens there", printable.Quote(e.Controller), e.What, mostReads)
}

// whole reads all pages of one list. Where a page is of another list than the first, which is says, it begins again.
func whole[P any, ID comparable](c Controller, what string, read iter.Seq2[*P, error], is func(*P) ID) ([]*P, error) {
	for range mostReads {
		var all []*P
		changed := false
		for page, err := range read {
			if err != nil {
				return nil, err
			}
			if changed = len(all) > 0 && is(page) != is(all[0]); changed {
				break
			}
			all = append(all, page)
		}
		if !changed {
			return all, nil
		}
	}
	return nil, &Changing{c.Name, what}
}

// mostOnAPage is how many a page of the services API has at most.
const mostOnAPage = 1000

func page(after string) any { return service.BrakeListRequest{After: after, Limit: mostOnAPage} }

// Brake is all that the brake holds, at one moment.
func (c Controller) Brake(ctx context.Context) (all service.BrakeList, err error) {
	type list struct {
		engagement, id             string
		count, held, swept, pruned int
		engaged, released          bool
	}
	read, err := whole(c, "what the brake holds",
		pages(ctx, c, "brake-list", page, func(p *service.BrakeList) string { return p.Next }),
		func(p *service.BrakeList) list {
			b := p.Brake
			return list{b.Engagement, p.List, b.Count, b.Held, b.Swept, b.Pruned, b.Engaged, b.Released}
		})
	for _, p := range read {
		all.Brake, all.List = p.Brake, p.List
		all.Keys, all.Pruned = append(all.Keys, p.Keys...), append(all.Pruned, p.Pruned...)
	}
	return all, err
}

// BrakeState is what the brake says of itself, with the id of the list of what it holds, and without the keys.
func (c Controller) BrakeState(ctx context.Context) (state service.Brake, list string, err error) {
	var first service.BrakeList
	err = c.Do(ctx, Read, "brake-list", "", service.BrakeListRequest{Limit: 1}, &first)
	return first.Brake, first.List, err
}

// listingTakes is how long the first page of what vanished may take: it reads each record.
const listingTakes = 2 * time.Minute

// Vanished are all documents that are missing, at one moment. progress is called with each page that others follow.
func (c Controller) Vanished(ctx context.Context, progress func(*service.BrakeVanished)) (
	all service.BrakeVanished, err error,
) {
	type list struct {
		engagement          string
		count, unrestorable int
	}
	next := func(p *service.BrakeVanished) string {
		if p.Next != "" {
			progress(p)
		}
		return p.Next
	}
	read, err := whole(c, "the list of what vanished",
		pages(ctx, c.Patient(listingTakes), "brake-vanished", page, next),
		func(p *service.BrakeVanished) list { return list{p.Engagement, p.Count, p.NotRestorable} })
	for _, p := range read {
		before := all.Vanished
		all = *p
		all.Vanished = append(before, p.Vanished...)
	}
	return all, err
}

// Orphans are all of an owner and a source, or all, at one moment.
func (c Controller) Orphans(ctx context.Context, owner, source string) (all service.Orphans, err error) {
	type list struct {
		id                     string
		asOf                   int64
		count, kept, adoptable int
	}
	request := func(after string) any {
		return service.OrphansRequest{Owner: owner, Source: source, After: after, Limit: mostOnAPage}
	}
	read, err := whole(c, "the list of orphans",
		pages(ctx, c, "orphans", request, func(p *service.Orphans) string { return p.Next }),
		func(p *service.Orphans) list { return list{p.List, p.AsOf.UnixNano(), p.Count, p.Kept, p.Adoptable} })
	for _, p := range read {
		before := all.Orphans
		all = *p
		all.Orphans = append(before, p.Orphans...)
	}
	return all, err
}

// turnedAway is how long to wait before an act is asked for again that came too soon: a process takes five a second.
const turnedAway = 300 * time.Millisecond

// ActOn acts on one key, by the subject of its namespace if it has one. Where a controller has too much to do, it is
// asked again until the context ends.
func (c Controller) ActOn(ctx context.Context, verb, namespace string, about, answer any) error {
	for {
		err := c.Do(ctx, Act, verb, namespace, about, answer)
		refused, ok := errors.AsType[*Refused](err)
		if !ok || refused.Body.Code != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(turnedAway):
		}
	}
}
