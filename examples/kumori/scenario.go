package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	nagi "github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/recorder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is one thing that somebody does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

func (c *appController) steps() []step {
	runs := func(image string, memory int) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return c.runs(ctx, "shop", image, memory) }
	}
	return []step{
		{
			name: `create plan "small" and app "shop"`,
			do: func(ctx context.Context) error {
				plan := &Plan{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: PlanSpec{Memory: 256}}
				return errors.Join(c.plans.Create(ctx, plan), c.apps.Create(ctx, app("shop", "shop:v1")))
			},
			want: runs("shop:v1", 256),
		},
		{
			name: "update the app's image",
			do: func(ctx context.Context) error {
				return c.apps.Patch(ctx, "shop", []byte(`{"spec":{"image":"shop:v2"}}`))
			},
			want: runs("shop:v2", 256),
		},
		{
			name: "the plan, a tertiary, gets more memory",
			do: func(ctx context.Context) error {
				return c.plans.Patch(ctx, "small", []byte(`{"spec":{"memory":512}}`))
			},
			want: runs("shop:v2", 512),
		},
		{
			name: "somebody deletes the process by hand",
			do:   func(ctx context.Context) error { return c.processes.Delete(ctx, "shop") },
			want: runs("shop:v2", 512),
		},
		{
			name: `app "blog" wants the same endpoint`,
			do:   func(ctx context.Context) error { return c.apps.Create(ctx, app("blog", "blog:v1")) },
			want: c.refused,
		},
		{
			name: `delete "shop"`,
			do:   func(ctx context.Context) error { return c.apps.Delete(ctx, "shop") },
			want: func(ctx context.Context) (string, error) { return c.gone(ctx, "shop") },
		},
		{
			name: `the name is free, so "blog" gets it`,
			do:   func(context.Context) error { return nil },
			want: func(ctx context.Context) (string, error) { return c.runs(ctx, "blog", "blog:v1", 512) },
		},
	}
}

// app is an app of the small plan that wants the endpoint "www", as the others do.
func app(name, image string) *App {
	return &App{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       AppSpec{Image: image, Plan: "small", Endpoint: "www"},
	}
}

// play does and checks the steps one by one, until one fails or the controller does.
func play(ctx context.Context, out io.Writer, c *appController, failed <-chan error) error {
	start := time.Now()
	steps := c.steps()
	for i, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		seen, err := until(ctx, s.want, failed)
		if err != nil {
			return fmt.Errorf("step %d, %s: the world does not match: %w", i+1, s.name, err)
		}
		fmt.Fprintf(out, "%6.1f ms  %-38s → %s, after %.1f ms\n",
			ms(time.Since(start)), s.name, seen, ms(time.Since(began)))
	}
	fmt.Fprintf(out, "\nAll %d steps hold.\n", len(steps))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error), failed <-chan error) (string, error) {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	var notYet error
	for {
		seen, err := want(ctx)
		if err == nil {
			return seen, nil
		}
		if ctx.Err() == nil {
			notYet = err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(notYet, ctx.Err())
		case err := <-failed:
			return "", err
		case <-tick.C:
		}
	}
}

// runs reads live whether an app has its process, its endpoint and its status.
func (c *appController) runs(ctx context.Context, name, image string, memory int) (string, error) {
	app, err := c.apps.Get(ctx, name)
	if err != nil {
		return "", err
	}
	process, err := c.processes.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if want := (ProcessSpec{Image: image, Memory: memory}); process.Spec != want {
		return "", fmt.Errorf("process %q is %+v, want %+v", name, process.Spec, want)
	}
	endpoint, err := c.endpoints.Get(ctx, "www")
	if err != nil {
		return "", err
	}
	if _, owner, _ := controller.OwnerOf(endpoint); owner != name || app.Status.Host != endpoint.Spec.Host {
		return "", fmt.Errorf("endpoint www is owned by %q and has host %q, and the status of %q says %q",
			owner, endpoint.Spec.Host, name, app.Status.Host)
	}
	return fmt.Sprintf("app at revision %s, process at %s runs %s with %d MiB",
		app.ResourceVersion, process.ResourceVersion, image, memory), nil
}

// refused reads live whether the endpoint stays with the shop, and the other app is told why it has none.
func (c *appController) refused(ctx context.Context) (string, error) {
	endpoint, err := c.endpoints.Get(ctx, "www")
	if err != nil {
		return "", err
	}
	if _, owner, _ := controller.OwnerOf(endpoint); owner != "shop" {
		return "", fmt.Errorf("endpoint www is owned by %q", owner)
	}
	events, err := recorder.List(ctx, c.js, recorder.Query{Kind: "App", Key: "blog"})
	if err != nil {
		return "", err
	}
	for _, event := range events {
		if event.Reason == nagi.ReasonErrResourceExists {
			return fmt.Sprintf("endpoint stays with shop at revision %s, event %s", endpoint.ResourceVersion,
				event.Reason), nil
		}
	}
	return "", fmt.Errorf("no event %s among %d events", nagi.ReasonErrResourceExists, len(events))
}

// gone reads live whether nothing of an app is left: no document, no record, no process, no endpoint.
func (c *appController) gone(ctx context.Context, name string) (string, error) {
	_, app := c.apps.Get(ctx, name)
	_, record := c.apps.Record(ctx, name)
	_, process := c.processes.Get(ctx, name)
	for what, err := range map[string]error{"app": app, "record": record, "process": process} {
		if err == nil {
			return "", fmt.Errorf("%s %q is still there", what, name)
		}
		if !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	endpoints, err := c.endpoints.Lister().OwnedBy("App", name)
	if err != nil || len(endpoints) > 0 {
		return "", errors.Join(fmt.Errorf("%q owns %d endpoints", name, len(endpoints)), err)
	}
	presence, err := c.apps.Confirm(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("app gone at revision %d, process and endpoint too", presence.Revision), nil
}
