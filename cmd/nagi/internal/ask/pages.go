package ask

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

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

// mostOnAPage is how many a page of the services API has at most.
const mostOnAPage = 1000

func page(after string) any { return service.BrakeListRequest{After: after, Limit: mostOnAPage} }

// Brake is what the brake holds: pages of keys, of which each says the counts.
func (c Controller) Brake(ctx context.Context) iter.Seq2[*service.BrakeList, error] {
	return pages(ctx, c, "brake-list", page, func(p *service.BrakeList) string { return p.Next })
}

// BrakeState is what the brake says of itself, without the keys.
func (c Controller) BrakeState(ctx context.Context) (service.Brake, error) {
	var first service.BrakeList
	err := c.Do(ctx, Read, "brake-list", "", service.BrakeListRequest{Limit: 1}, &first)
	return first.Brake, err
}

// listingTakes is how long the first page of what vanished may take: it reads each record.
const listingTakes = 2 * time.Minute

// Vanished are the documents that are missing, in pages.
func (c Controller) Vanished(ctx context.Context) iter.Seq2[*service.BrakeVanished, error] {
	return pages(ctx, c.Patient(listingTakes), "brake-vanished", page,
		func(p *service.BrakeVanished) string { return p.Next })
}

// Orphans are those of an owner and a source, or all, in pages.
func (c Controller) Orphans(ctx context.Context, owner, source string) iter.Seq2[*service.Orphans, error] {
	return pages(ctx, c, "orphans", func(after string) any {
		return service.OrphansRequest{Owner: owner, Source: source, After: after, Limit: mostOnAPage}
	}, func(p *service.Orphans) string { return p.Next })
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
