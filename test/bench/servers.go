package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// natsServer is a NATS server in its own process, with its store in a temporary directory, and the user's connection.
type natsServer struct {
	process *process
	url     string
	js      jetstream.JetStream
}

func roleNATS(context.Context, json.RawMessage) (map[string]command, func() error, error) {
	server, err := natstest.New()
	if err != nil {
		return nil, nil, err
	}
	url := func(context.Context, json.RawMessage) (any, error) { return server.URL(), nil }
	return map[string]command{"url": url}, func() error { server.Close(); return nil }, nil
}

func startNATS(ctx context.Context) (*natsServer, error) {
	p, err := startProcess(ctx, "nats", nil)
	if err != nil {
		return nil, err
	}
	s := &natsServer{process: p}
	if err := p.call(ctx, "url", nil, &s.url); err != nil {
		return nil, err
	}
	s.js, err = connect(s.url)
	return s, err
}

func (s *natsServer) stop() error {
	s.js.Conn().Close()
	return s.process.stop()
}

func connect(url string) (jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(8192), jetstream.WithPublishAsyncTimeout(time.Minute))
}

// kubeAddress is the address and the credentials with which a child connects to the API server.
type kubeAddress struct {
	Host, Token string
	CA          []byte
}

// config returns a cluster administrator's configuration, without a limit of requests on the client's side.
func (a *kubeAddress) config() *rest.Config {
	return &rest.Config{
		Host: a.Host, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}, QPS: -1,
	}
}

// kubeServer is an API server with the CRD of Websites, and the user's client.
type kubeServer struct {
	server  *kubetest.Server
	address *kubeAddress
	client  client.WithWatch
}

func (b *bench) startKube(ctx context.Context) (*kubeServer, error) {
	server, err := kubetest.Open(ctx, "")
	if err != nil {
		return nil, err
	}
	cfg := server.Config()
	k := &kubeServer{server: server, address: &kubeAddress{Host: cfg.Host, Token: cfg.BearerToken, CA: cfg.CAData}}
	if err := k.prepare(ctx, cfg); err != nil {
		server.Close()
		return nil, err
	}
	b.kubernetes = kubernetesVersion
	return k, nil
}

func (k *kubeServer) stop() { k.server.Close() }

// prepare creates the CRD, and waits until it is served.
func (k *kubeServer) prepare(ctx context.Context, cfg *rest.Config) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(v1.CRD, &crd.Object); err != nil {
		return fmt.Errorf("read the CRD: %w", err)
	}
	bare, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	if err := bare.Create(ctx, crd); err != nil {
		return fmt.Errorf("create the CRD: %w", err)
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(
		ctx context.Context,
	) (bool, error) {
		if err := bare.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil || !established(crd) {
			return false, err
		}
		if k.client, err = client.NewWithWatch(cfg, client.Options{Scheme: newScheme()}); err != nil {
			return false, err
		}
		return k.client.List(ctx, &v1.WebsiteList{}) == nil, nil
	})
}

// established reports whether a CRD is served for good. That is some seconds after it is served for the first time. At
// that moment the API server closes all its open watches.
func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" {
			return c["status"] == "True"
		}
	}
	return false
}

func (k *kubeServer) namespace(ctx context.Context, name string) error {
	return k.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return scheme
}
