package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	nagi "github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
)

// Names that the user's cluster is not likely to have.
const (
	fooName        = "nagi-sample"
	rivalName      = "nagi-sample-rival"
	deploymentName = "nagi-sample-web"
	strangersName  = "nagi-sample-of-somebody-else"
)

// player plays the users, and the deployment controller of a whole cluster.
type player struct {
	c           *fooController
	js          jetstream.JetStream
	deployments typedappsv1.DeploymentInterface
}

// step is one thing that somebody does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

func (p *player) steps() []step {
	return []step{
		{
			name: "create a Foo with 2 replicas",
			do:   func(ctx context.Context) error { return p.c.foos.Create(ctx, foo(fooName, deploymentName, 2)) },
			want: func(ctx context.Context) (string, error) { return p.runs(ctx, 2) },
		},
		{
			name: "2 replicas become available",
			do: func(ctx context.Context) error {
				return p.patch(ctx, map[string]any{
					"status": map[string]any{"replicas": 2, "readyReplicas": 2, "availableReplicas": 2},
				}, "status")
			},
			want: func(ctx context.Context) (string, error) { return p.reports(ctx, 2) },
		},
		{
			name: "update the Foo to 5 replicas",
			do: func(ctx context.Context) error {
				return p.c.foos.Patch(ctx, fooName, []byte(`{"spec":{"replicas":5}}`))
			},
			want: func(ctx context.Context) (string, error) { return p.runs(ctx, 5) },
		},
		{
			name: "somebody scales the Deployment by hand",
			do: func(ctx context.Context) error {
				return p.patch(ctx, map[string]any{"spec": map[string]any{"replicas": 1}})
			},
			want: func(ctx context.Context) (string, error) { return p.runs(ctx, 5) },
		},
		{
			name: "somebody deletes the Deployment",
			do: func(ctx context.Context) error {
				return p.deployments.Delete(ctx, deploymentName, metav1.DeleteOptions{})
			},
			want: func(ctx context.Context) (string, error) { return p.runs(ctx, 5) },
		},
		{
			name: "a Foo names a Deployment that is somebody else's",
			do:   p.clash,
			want: func(ctx context.Context) (string, error) { return p.refused(ctx, strangersName, strangersName, 1) },
		},
		{
			name: "a second Foo names the Deployment of the first",
			do:   func(ctx context.Context) error { return p.c.foos.Create(ctx, foo(rivalName, deploymentName, 3)) },
			want: func(ctx context.Context) (string, error) { return p.refused(ctx, rivalName, deploymentName, 5) },
		},
		{
			name: "delete the first Foo, so the name is free",
			do:   func(ctx context.Context) error { return p.c.foos.Delete(ctx, fooName) },
			want: func(ctx context.Context) (string, error) { return p.runs(ctx, 3) },
		},
		{
			name: "delete the other Foos",
			do: func(ctx context.Context) error {
				return errors.Join(p.c.foos.Delete(ctx, rivalName), p.c.foos.Delete(ctx, strangersName))
			},
			want: p.gone,
		},
	}
}

func foo(name, deployment string, replicas int32) *Foo {
	return &Foo{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       FooSpec{DeploymentName: deployment, Replicas: &replicas},
	}
}

func (p *player) patch(ctx context.Context, patch map[string]any, subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = p.deployments.Patch(ctx, deploymentName, types.MergePatchType,
		data, metav1.PatchOptions{}, subresources...)
	return err
}

// runs reads live whether the Deployment is as the Foo says.
func (p *player) runs(ctx context.Context, replicas int32) (string, error) {
	deployment, err := p.deployments.Get(ctx, deploymentName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if got := *deployment.Spec.Replicas; got != replicas {
		return "", fmt.Errorf("the Deployment asks for %d replicas, want %d", got, replicas)
	}
	return fmt.Sprintf("Deployment %s asks for %d", deploymentName, replicas), nil
}

func (p *player) reports(ctx context.Context, replicas int32) (string, error) {
	foo, err := p.c.foos.Get(ctx, fooName)
	if err != nil {
		return "", err
	}
	if got := foo.Status.AvailableReplicas; got != replicas {
		return "", fmt.Errorf("the Foo reports %d available replicas, want %d", got, replicas)
	}
	return fmt.Sprintf("status of the Foo says %d", replicas), nil
}

// clash makes somebody else's Deployment, and a Foo that asks for the same name.
func (p *player) clash(ctx context.Context) error {
	deployment := p.c.newDeployment(foo(strangersName, strangersName, 1))
	deployment.Labels, deployment.Annotations = nil, nil
	_, err := p.deployments.Create(ctx, deployment, metav1.CreateOptions{})
	return errors.Join(err, p.c.foos.Create(ctx, foo(strangersName, strangersName, 3)))
}

// refused reads live whether a Foo was told that the Deployment which it names is not its own, and left it alone.
func (p *player) refused(ctx context.Context, foo, deployment string, replicas int32) (string, error) {
	live, err := p.deployments.Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if *live.Spec.Replicas != replicas {
		return "", fmt.Errorf("the Deployment %s, which is not the Foo's, was changed", deployment)
	}
	events, err := recorder.List(ctx, p.js, recorder.Query{Kind: "Foo", Key: foo})
	if err != nil {
		return "", err
	}
	for _, event := range events {
		if event.Reason == nagi.ReasonErrResourceExists {
			return "it is left alone, event " + event.Reason, nil
		}
	}
	return "", fmt.Errorf("no event %s among %d events", nagi.ReasonErrResourceExists, len(events))
}

// gone reads live whether the Foos' Deployment is gone, and the other's is not.
func (p *player) gone(ctx context.Context) (string, error) {
	_, err := p.deployments.Get(ctx, deploymentName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return "", errors.Join(errors.New("the Deployment is still there"), err)
	}
	if _, err := p.deployments.Get(ctx, strangersName, metav1.GetOptions{}); err != nil {
		return "", fmt.Errorf("somebody else's Deployment: %w", err)
	}
	for _, name := range []string{fooName, rivalName} {
		if _, err = p.c.foos.Record(ctx, name); !apierrors.IsNotFound(err) {
			return "", errors.Join(fmt.Errorf("the record of Foo %s is still there", name), err)
		}
	}
	return "their Deployment is gone, the other one is not", nil
}

// play does and checks the steps one by one, until one fails or the controller does.
func play(ctx context.Context, out io.Writer, c *fooController, js jetstream.JetStream, failed <-chan error) error {
	p := &player{c: c, js: js, deployments: c.clientset.AppsV1().Deployments(namespace)}
	defer p.tidy()
	start := time.Now()
	steps := p.steps()
	for i, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		seen, err := until(ctx, s.want, failed)
		if err != nil {
			return fmt.Errorf("step %d, %s: the world does not match: %w", i+1, s.name, err)
		}
		fmt.Fprintf(out, "%7.1f ms  %-50s → %s, after %.1f ms\n",
			ms(time.Since(start)), s.name, seen, ms(time.Since(began)))
	}
	fmt.Fprintf(out, "\nAll %d steps hold.\n", len(steps))
	return nil
}

// tidy removes the objects that the scenario made, and not the controller.
func (p *player) tidy() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.deployments.Delete(ctx, strangersName, metav1.DeleteOptions{}) // a step may have failed before it was made
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error), failed <-chan error) (string, error) {
	tick := time.NewTicker(2 * time.Millisecond)
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
