package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/ask"
	"github.com/nagi-runtime/nagi/cmd/nagi/internal/follow"
	"github.com/nagi-runtime/nagi/cmd/nagi/internal/kinds"
	"github.com/nagi-runtime/nagi/cmd/nagi/internal/tree"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// builder makes trees, with a cluster if there is one. changed is called when something in NATS changes.
func (s *session) builder(ctx context.Context, flags *clusterFlags, changed func()) (*tree.Builder, error) {
	found, err := s.kinds(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := flags.open(s.t.Cluster)
	if err != nil {
		return nil, err
	}
	set := &follow.Set{JS: s.js, Changed: changed}
	s.close = append(s.close, set.Close)
	return &tree.Builder{Kinds: found.Entries, Buckets: set, Cluster: cluster, StillThere: s.stillThere}, nil
}

// stillThere asks the controllers of a kind what is left of what a primary owned.
func (s *session) stillThere(ctx context.Context, kind *kinds.Kind, key string) (left int) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for _, c := range kind.Controllers {
		var e controller.Explanation
		if s.controller(c.Name).Do(ctx, ask.Read, "explain", "", service.KeyRequest{Key: key}, &e) == nil {
			left = max(left, e.StillThereAll)
		}
	}
	return left
}

// OpenCluster connects to the cluster that a kubeconfig names; both are "" for the defaults.
type OpenCluster func(kubeconfig, context string) (dynamic.Interface, discovery.DiscoveryInterface, error)

// clusterFlags say where Kubernetes is.
type clusterFlags struct {
	kubeconfig, context string
	deep                bool
}

func (f *clusterFlags) register(cmd *cobra.Command, deep bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster ($KUBECONFIG)")
	flags.StringVar(&f.context, "kube-context", "", "context of the kubeconfig (default the current one)")
	if deep {
		flags.BoolVar(&f.deep, "deep", false, "look for what objects own in all resources of the cluster")
	}
}

// open returns nil where nothing names a cluster.
func (f *clusterFlags) open(open OpenCluster) (*tree.Cluster, error) {
	inside := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if f.kubeconfig == "" && f.context == "" && os.Getenv("KUBECONFIG") == "" && !inside {
		return nil, nil
	}
	if open == nil {
		open = openCluster
	}
	client, discover, err := open(f.kubeconfig, f.context)
	if err != nil {
		return nil, usage(fmt.Errorf("the cluster of --kubeconfig: %w", err))
	}
	return &tree.Cluster{Client: client, Discovery: discover, Deep: f.deep}, nil
}

func openCluster(kubeconfig, name string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS, config.Burst = 50, 100
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	return client, discover, err
}
