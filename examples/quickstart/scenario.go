package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// stepPatience is how long a step may take until the world matches.
const stepPatience = time.Minute

// step is one thing that somebody does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

// scenario does the steps as a user would, and checks and prints each one.
func scenario(ctx context.Context, js jetstream.JetStream, r *reconciler) error {
	start := time.Now()
	for _, s := range steps(js, r) {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %q: %w", s.name, err)
		}
		seen, err := until(ctx, s.want)
		if err != nil {
			return fmt.Errorf("step %q: the world did not match within %v: %w", s.name, stepPatience, err)
		}
		fmt.Printf("%7.1f ms  %-46s %s  (after %.1f ms)\n", ms(time.Since(start)), s.name, seen, ms(time.Since(began)))
	}
	fmt.Printf("\nAll %d steps hold.\n", len(steps(js, r)))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	var last error
	for {
		seen, err := want(ctx)
		if err == nil {
			return seen, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(last, ctx.Err())
		case <-tick.C:
		}
	}
}

func steps(js jetstream.JetStream, r *reconciler) []step {
	return []step{{
		name: "a clean table",
		do: func(ctx context.Context) error {
			return errors.Join(
				ignoreNotFound(r.websites.Delete(ctx, "shop")),
				ignoreNotFound(r.websites.Delete(ctx, "blog")))
		},
		want: func(ctx context.Context) (string, error) {
			return "nothing of an earlier run is left", errors.Join(gone(ctx, r, "shop"), gone(ctx, r, "blog"))
		},
	}, {
		name: `create website "shop" with two pages`,
		do: func(ctx context.Context) error {
			shop := &Website{
				ObjectMeta: metav1.ObjectMeta{Name: "shop"},
				Spec:       WebsiteSpec{Domain: "shop.example", Pages: []string{"home", "cart"}},
			}
			return r.websites.Create(ctx, shop)
		},
		want: func(ctx context.Context) (string, error) {
			return matches(ctx, r, "shop", "shop.example", "home", "cart")
		},
	}, {
		name: "update it: other domain, other page",
		do: func(ctx context.Context) error {
			return r.websites.Patch(ctx, "shop",
				[]byte(`{"spec":{"domain":"www.shop.example","pages":["home","help"]}}`))
		},
		want: func(ctx context.Context) (string, error) {
			return matches(ctx, r, "shop", "www.shop.example", "home", "help")
		},
	}, {
		name: "somebody deletes page shop.home by hand",
		do:   func(ctx context.Context) error { return r.pages.Delete(ctx, "shop.home") },
		want: func(ctx context.Context) (string, error) {
			return matches(ctx, r, "shop", "www.shop.example", "home", "help")
		},
	}, {
		name: `another program puts raw JSON as "blog"`,
		do: func(ctx context.Context) error {
			kv, err := js.KeyValue(ctx, "websites")
			if err != nil {
				return err
			}
			_, err = kv.Put(ctx, "blog", []byte(`{"spec":{"domain":"blog.example","pages":["home"]}}`))
			return err
		},
		want: func(ctx context.Context) (string, error) { return matches(ctx, r, "blog", "blog.example", "home") },
	}, {
		name: "delete both websites",
		do: func(ctx context.Context) error {
			return errors.Join(r.websites.Delete(ctx, "shop"), r.websites.Delete(ctx, "blog"))
		},
		want: func(ctx context.Context) (string, error) {
			return "pages, routes and records are gone", errors.Join(gone(ctx, r, "shop"), gone(ctx, r, "blog"))
		},
	}}
}

// matches reads live whether a website has exactly these pages, its route and its status.
func matches(ctx context.Context, r *reconciler, name, domain string, titles ...string) (string, error) {
	site, err := r.websites.Get(ctx, name)
	if err != nil {
		return "", err
	}
	route, err := r.routes.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if route.Spec.Host != domain {
		return "", fmt.Errorf("route %s leads to %q, want %q", name, route.Spec.Host, domain)
	}
	if err := hasPages(ctx, r, name, titles...); err != nil {
		return "", err
	}
	want := WebsiteStatus{URL: "https://" + domain + "/", Pages: len(titles)}
	if site.Status != want {
		return "", fmt.Errorf("status of %s is %+v, want %+v", name, site.Status, want)
	}
	return fmt.Sprintf("revision %s: %d pages, route and status match", site.ResourceVersion, len(titles)), nil
}

// hasPages reads live whether a website has exactly these of the pages in this scenario.
func hasPages(ctx context.Context, r *reconciler, name string, titles ...string) error {
	for _, title := range []string{"home", "cart", "help"} {
		key := name + "." + title
		_, err := r.pages.Get(ctx, key)
		switch wanted := slices.Contains(titles, title); {
		case wanted && err != nil:
			return err
		case !wanted && err == nil:
			return fmt.Errorf("page %s is still there", key)
		case !wanted && !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// gone reads live whether nothing of a website is left: no document, no record, no route, no page.
func gone(ctx context.Context, r *reconciler, name string) error {
	_, site := r.websites.Get(ctx, name)
	_, record := r.websites.Record(ctx, name)
	_, route := r.routes.Get(ctx, name)
	for what, err := range map[string]error{"website": site, "record": record, "route": route} {
		if err == nil {
			return fmt.Errorf("%s %s is still there", what, name)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return hasPages(ctx, r, name)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// printer prints the changes of websites, for -serve.
func printer(start time.Time) cache.ResourceEventHandler {
	say := func(what string, obj any) {
		if site, ok := obj.(*Website); ok {
			fmt.Printf("%9.1f s  %s website %q at revision %s\n",
				time.Since(start).Seconds(), what, site.Name, site.ResourceVersion)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { say("new", obj) },
		UpdateFunc: func(_, obj any) { say("changed", obj) },
		DeleteFunc: func(obj any) { say("deleted", obj) },
	}
}
