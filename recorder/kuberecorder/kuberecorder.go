package kuberecorder

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
)

// Sink sends events about Kubernetes objects to the API server of a clientset. It goes into Config.Kubernetes of a
// recorder. Several recorders may share one: each has its own queue and its own counts.
type Sink struct {
	events typedcorev1.EventInterface
}

var _ recorder.KubernetesSink = (*Sink)(nil)

// New makes a sink. The clientset must not be nil: leave Config.Kubernetes nil instead. The sink never closes it.
func New(clientset kubernetes.Interface) *Sink {
	return &Sink{events: clientset.CoreV1().Events("")}
}

// Scheme returns client-go's scheme. It knows the kinds of Kubernetes itself. A recorder of events about typed custom
// resources needs a Config.Scheme that knows those too.
func (s *Sink) Scheme() *runtime.Scheme { return scheme.Scheme }

// Start begins to send the events of one recorder; recorder.New calls it.
func (s *Sink) Start(cfg recorder.Config) recorder.KubernetesEvents { return newEvents(s.events, cfg) }
