package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return &tree.Builder{
		Kinds: found.Entries, Buckets: set, Cluster: cluster, Controllers: &tree.Controllers{Of: s.controller},
		Remedies: clusterRemedies,
	}, nil
}

// clusterRemedies are the flags of clusterFlags.
var clusterRemedies = tree.Remedies{
	Cluster: "--kubeconfig", Namespaces: "--kube-namespace says where else to look",
}

// OpenCluster connects to the cluster that a kubeconfig names; both are "" for the defaults.
type OpenCluster func(kubeconfig, context string) (dynamic.Interface, discovery.DiscoveryInterface, error)

// clusterFlags say where Kubernetes is.
type clusterFlags struct {
	kubeconfig, context string
	namespaces          []string
	deep                bool
}

func (f *clusterFlags) register(cmd *cobra.Command, deep bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster ($KUBECONFIG)")
	flags.StringVar(&f.context, "kube-context", "", "context of the kubeconfig (default the current one)")
	flags.StringSliceVar(&f.namespaces, "kube-namespace", nil,
		"where to look, beside the document's namespace, if not all may be listed (default that of the context)")
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
	namespaces := f.namespaces
	if len(namespaces) == 0 {
		namespaces = namespaceOf(f.kubeconfig, f.context)
	}
	return &tree.Cluster{
		Client: client, Discovery: discover, Deep: f.deep, Namespaces: namespaces,
	}, nil
}

func clientConfig(kubeconfig, name string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: name})
}

// namespaceOf is that of a context, or of the Pod; none where neither has one.
func namespaceOf(kubeconfig, name string) []string {
	config := clientConfig(kubeconfig, name)
	namespace, _, err := config.Namespace()
	if err != nil || namespace == "" {
		return nil
	}
	if raw, err := config.RawConfig(); err == nil && namespace == metav1.NamespaceDefault {
		if of := raw.Contexts[cmp.Or(name, raw.CurrentContext)]; of == nil || of.Namespace == "" {
			return nil // it is what client-go says where there is none
		}
	}
	return []string{namespace}
}

func openCluster(kubeconfig, name string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
	config, err := clientConfig(kubeconfig, name).ClientConfig()
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
