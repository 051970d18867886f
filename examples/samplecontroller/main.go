// Samplecontroller is the well-known sample controller of Kubernetes (kubernetes/sample-controller), with its Foos in a
// NATS bucket and its Deployments in Kubernetes. It is written to the Kumori API, which was modelled on it, so most of
// it reads like the original. A scenario then creates, updates, breaks and deletes things, and checks each step by live
// reads.
//
//	go run ./examples/samplecontroller                        # exit code 0, or 1 and the step that failed
//	go run ./examples/samplecontroller -kubeconfig ~/.kube/config -url nats://…   # on a cluster and a server of yours
//	go run ./examples/samplecontroller -v                     # with the runtime's log
//
// Without -kubeconfig it runs its own real API server. That is built once, which takes some minutes.
//
// Read foo.go for the type, controller.go for the controller, and scenario.go for the scenario.
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
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
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
	c, err := newController(ctx, js, clientset)
	if err != nil {
		return err
	}
	defer c.close()
	defer cancel() // stops the informers, before close waits for them
	c.start(ctx)

	stopCh, errCh, stopped := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(stopped)
		c.Run(2, stopCh, errCh)
	}()
	err = play(ctx, out, c, js, errCh)
	close(stopCh)
	<-stopped // the workers have finished their current keys
	select {
	case fatal := <-errCh:
		err = errors.Join(err, fatal)
	default:
	}
	return err
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
