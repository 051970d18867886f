package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// The application of the scenario. In NATS its key is "default.nagi-shop".
const (
	namespace = metav1.NamespaceDefault
	name      = "nagi-shop"
	key       = namespace + "/" + name
)

// player plays the users, and the deployment controller of a whole cluster.
type player struct {
	r         *reconciler
	js        jetstream.JetStream
	clientset kubernetes.Interface
}

// step is one thing that somebody does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

func (p *player) steps() []step {
	blue := map[string]string{"COLOUR": "blue", "DEBUG": "1"}
	return []step{
		{
			name: "create an Application",
			do: func(ctx context.Context) error {
				app := &Application{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
				app.Spec = ApplicationSpec{Image: "shop:v1", Replicas: 2, Port: 8080, Settings: blue}
				return p.r.applications.Create(ctx, app)
			},
			want: p.runs("shop:v1", 2, blue),
		},
		{
			name: "its 2 replicas become ready",
			do: func(ctx context.Context) error {
				return p.patchDeployment(ctx,
					`{"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2}}`, "status")
			},
			want: p.reports(2),
		},
		{
			name: "another program puts a document without one setting",
			do: func(ctx context.Context) error {
				kv, err := p.js.KeyValue(ctx, "applications")
				if err != nil {
					return err
				}
				_, err = kv.PutString(ctx, namespace+"."+name,
					`{"spec":{"image":"shop:v2","replicas":3,"port":8080,"settings":{"COLOUR":"red"}}}`)
				return err
			},
			want: p.runs("shop:v2", 3, map[string]string{"COLOUR": "red"}),
		},
		{
			name: "somebody scales the Deployment and labels it",
			do: func(ctx context.Context) error {
				return p.patchDeployment(ctx, `{"metadata":{"labels":{"team":"shop"}},"spec":{"replicas":9}}`)
			},
			want: p.both(p.runs("shop:v2", 3, map[string]string{"COLOUR": "red"}), p.keepsLabel),
		},
		{
			name: "somebody deletes the Service",
			do: func(ctx context.Context) error {
				return p.clientset.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
			},
			want: p.runs("shop:v2", 3, map[string]string{"COLOUR": "red"}),
		},
		{
			name: "delete the Application",
			do:   func(ctx context.Context) error { return p.r.applications.Delete(ctx, key) },
			want: p.gone,
		},
	}
}

func (p *player) patchDeployment(ctx context.Context, patch string, subresources ...string) error {
	_, err := p.clientset.AppsV1().Deployments(namespace).Patch(ctx,
		name, types.MergePatchType, json.RawMessage(patch),
		metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	return err
}

// runs reads live whether the three objects are as the Application says.
func (p *player) runs(image string, replicas int32, settings map[string]string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		deployment, err := p.clientset.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image ||
			*deployment.Spec.Replicas != replicas {
			return "", fmt.Errorf("the Deployment runs %d of %s, want %d of %s",
				*deployment.Spec.Replicas, got, replicas, image)
		}
		configMap, err := p.clientset.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if !maps.Equal(configMap.Data, settings) {
			return "", fmt.Errorf("the ConfigMap has %v, want %v", configMap.Data, settings)
		}
		if _, err := p.clientset.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d of %s with %v", replicas, image, settings), nil
	}
}

func (p *player) both(first, second func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		seen1, err := first(ctx)
		if err != nil {
			return "", err
		}
		seen2, err := second(ctx)
		return seen1 + ", " + seen2, err
	}
}

// keepsLabel reads live whether a label that the controller knows nothing about was left alone.
func (p *player) keepsLabel(ctx context.Context) (string, error) {
	deployment, err := p.clientset.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if deployment.Labels["team"] != "shop" {
		return "", errors.New("the label is gone")
	}
	return "and the label stays", nil
}

func (p *player) reports(ready int32) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		app, err := p.r.applications.Get(ctx, key)
		if err != nil {
			return "", err
		}
		if got := app.Status.ReadyReplicas; got != ready {
			return "", fmt.Errorf("the Application reports %d ready replicas, want %d", got, ready)
		}
		return fmt.Sprintf("its status says %d at %s", ready, app.Status.Address), nil
	}
}

// gone reads live whether everything that the Application owned is gone, and its record.
func (p *player) gone(ctx context.Context) (string, error) {
	_, err1 := p.clientset.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	_, err2 := p.clientset.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	_, err3 := p.clientset.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	_, err4 := p.r.applications.Record(ctx, key)
	for _, err := range []error{err1, err2, err3, err4} {
		if !apierrors.IsNotFound(err) {
			return "", errors.Join(errors.New("something is still there"), err)
		}
	}
	return "all three are gone", nil
}

// play does and checks the steps one by one, until one fails.
func play(ctx context.Context, out io.Writer, p *player) error {
	start := time.Now()
	steps := p.steps()
	for i, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		seen, err := until(ctx, s.want)
		if err != nil {
			return fmt.Errorf("step %d, %s: the world does not match: %w", i+1, s.name, err)
		}
		fmt.Fprintf(out, "%7.1f ms  %-52s → %s, after %.1f ms\n",
			ms(time.Since(start)), s.name, seen, ms(time.Since(began)))
	}
	fmt.Fprintf(out, "\nAll %d steps hold.\n", len(steps))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error)) (string, error) {
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
		case <-tick.C:
		}
	}
}
