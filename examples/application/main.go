// Application turns a document in NATS into a Deployment, a Service and a ConfigMap in Kubernetes by server-side apply,
// and copies back how many replicas are ready. A scenario then creates, updates, breaks and deletes things. It checks
// each step by live reads, and prints it.
//
//	go run ./examples/application                        # exit code 0, or 1 and the step that failed
//	go run ./examples/application -kubeconfig ~/.kube/config -url nats://…   # on a cluster and a server of yours
//	go run ./examples/application -v                     # with the runtime's log
//
// Without -kubeconfig it runs its own real API server. That is built once, which takes some minutes.
//
// Read application.go for the type, reconciler.go for the controller, and scenario.go for the scenario.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// patience is how long the steps may take together.
const patience = time.Minute

func main() {
	kubeconfig := flag.String("kubeconfig", "", "use this cluster instead of an API server of its own")
	url := flag.String("url", "", "use this NATS server instead of an embedded one")
	verbose := flag.Bool("v", false, "show the runtime's log")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	ctx, cancel := controller.SignalContext(context.Background())
	defer cancel()
	if err := run(ctx, os.Stdout, *kubeconfig, *url); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// run starts the missing servers and the controller, plays the scenario, and stops them all.
func run(ctx context.Context, out io.Writer, kubeconfig, url string) (err error) {
	config, closeCluster, err := cluster(ctx, out, kubeconfig)
	if err != nil {
		return err
	}
	defer closeCluster()
	if url == "" {
		server, err := natstest.New()
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := newReconciler(ctx, js, config)
	if err != nil {
		return err
	}
	c, err := controller.New("applications", r.applications, r,
		r.configMaps.Owns(), r.deployments.Owns(), r.services.Owns(), controller.WithWorkers(2))
	if err != nil {
		return err
	}
	stop, wait := start(ctx, r, c)
	defer func() {
		stop()
		err = errors.Join(err, wait())
	}()
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return play(ctx, out, &player{r: r, js: js, clientset: clientset})
}

// start runs the controller and the informers of Kubernetes, which the user has to run.
func start(
	ctx context.Context, r *reconciler, c *controller.Controller[*Application],
) (stop func(), wait func() error) {
	ctx, stop = context.WithCancel(ctx)
	informing, stopInforming := context.WithCancel(context.WithoutCancel(ctx))
	r.factory.StartWithContext(informing)
	stopped := make(chan error, 1)
	go func() { stopped <- c.Run(ctx) }()
	return stop, func() error {
		err := <-stopped // until then the controller needs its caches
		stopInforming()
		r.factory.Shutdown()
		return err
	}
}

// cluster returns the user's cluster, or an API server that ends with the program.
func cluster(
	ctx context.Context, out io.Writer, kubeconfig string,
) (config *rest.Config, closeCluster func(), err error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, nil, fmt.Errorf("read -kubeconfig: %w", err)
		}
		return config, func() {}, nil
	}
	fmt.Fprintln(out, "Starting an API server; the first time it is built, which takes some minutes.")
	server, err := kubetest.Open(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	return server.Config(), server.Close, nil
}
