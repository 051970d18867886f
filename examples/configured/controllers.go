package main

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Document is a document of any kind.
type Document = *unstructured.Unstructured

// Clients has the client of each kind, by the kind's name.
type Clients map[string]*entity.Client[Document]

// Close closes all.
func (c Clients) Close() {
	for _, client := range c {
		client.Close()
	}
}

// clientsOf makes a client for each kind.
func clientsOf(ctx context.Context, js jetstream.JetStream, all Kinds) (Clients, error) {
	clients := Clients{}
	for _, k := range all.Kinds {
		client, err := entity.NewClient[Document](ctx, js, entity.Config{Kind: k.Kind, Bucket: k.Bucket})
		if err != nil {
			clients.Close()
			return nil, err
		}
		clients[k.Kind] = client
	}
	return clients, nil
}

// controllersOf makes a controller for each kind that owns something.
func controllersOf(
	all Kinds, clients Clients,
) (controllers []*controller.Controller[Document], err error) {
	for _, k := range all.Kinds {
		if len(k.Owns) == 0 {
			continue
		}
		var options []controller.Option
		for _, kind := range k.ownedKinds() {
			options = append(options, controller.Owns(clients[kind], controller.WithPrune()))
		}
		c, err := controller.New(k.Kind, clients[k.Kind], controller.ForObject(k.reconciler(clients)), options...)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, c)
	}
	return controllers, nil
}

// reconciler makes what a document is to own, and says in its status how many there are. What it made before and does
// not want any more goes by WithPrune.
func (k Kind) reconciler(clients Clients) func(context.Context, Document) (controller.Result, error) {
	return func(ctx context.Context, document Document) (controller.Result, error) {
		made := 0
		for _, owned := range k.Owns {
			wanted, err := owned.wanted(document)
			if err != nil { // until the document changes, it is wrong in the same way
				return controller.Result{}, controller.TerminalError(fmt.Errorf("%s of %s: %w", owned.Kind, k.Kind, err))
			}
			controller.Keep(ctx, clients[owned.Kind])
			for _, u := range wanted {
				spec := u.Object["spec"]
				_, err := controller.CreateOrUpdate(ctx, clients[owned.Kind], u, func(u Document) error {
					u.Object["spec"] = spec
					return nil
				})
				if err != nil {
					return controller.Result{}, err
				}
				made++
			}
		}
		document.Object["status"] = map[string]any{"owns": made}
		return controller.Result{}, controller.SetStatus(ctx, document)
	}
}
