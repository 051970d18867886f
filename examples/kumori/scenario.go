package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
				app := &App{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: AppSpec{Image: "shop:v1", Plan: "small"}}
				return errors.Join(c.plans.Create(ctx, plan), c.apps.Create(ctx, app))
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
			name: "delete the app",
			do:   func(ctx context.Context) error { return c.apps.Delete(ctx, "shop") },
			want: func(ctx context.Context) (string, error) { return c.gone(ctx, "shop") },
		},
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
	endpoint, err := c.endpoints.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if host := name + ".example.com"; endpoint.Spec.Host != host || app.Status.Host != host {
		return "", fmt.Errorf("endpoint %q has host %q and the status says %q, want %q",
			name, endpoint.Spec.Host, app.Status.Host, host)
	}
	return fmt.Sprintf("app at revision %s, process at %s runs %s with %d MiB",
		app.ResourceVersion, process.ResourceVersion, image, memory), nil
}

// gone reads live whether nothing of an app is left: no document, no record, no process, no endpoint.
func (c *appController) gone(ctx context.Context, name string) (string, error) {
	_, app := c.apps.Get(ctx, name)
	_, record := c.apps.Record(ctx, name)
	_, process := c.processes.Get(ctx, name)
	_, endpoint := c.endpoints.Get(ctx, name)
	for what, err := range map[string]error{"app": app, "record": record, "process": process, "endpoint": endpoint} {
		if err == nil {
			return "", fmt.Errorf("%s %q is still there", what, name)
		}
		if !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	presence, err := c.apps.Confirm(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("app gone at revision %d, process and endpoint too", presence.Revision), nil
}
