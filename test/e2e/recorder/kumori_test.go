package recorder

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nagi "github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

type (
	website = entity.Object[websiteSpec, struct{}]
	none    = *entity.None
	runtime = nagi.ControllerRuntime[*website, none, none, none, none, none, none, none, none]
)

type websiteSpec struct {
	Host string `json:"host"`
}

// controller is written in the Kumori style. It records an event about its primary and one about a Kubernetes object.
type controller struct {
	*runtime
	websites   *entity.Client[*website]
	deployment *appsv1.Deployment
}

func (c *controller) SyncHandler(key string) error {
	site, err := c.websites.Lister().Get(key)
	if err != nil {
		return err
	}
	c.Event(site, corev1.EventTypeNormal, nagi.ReasonResourceSynced, "the site is synced")
	c.Event(c.deployment, corev1.EventTypeNormal, nagi.ReasonResourceSynced, "the deployment is synced")
	return nil
}

func TestEventOfAKumoriControllerWorksForBothKinds(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	nats := natstest.Start(t)
	_, js := natstest.Connect(t, nats.URL())
	websites, err := entity.NewClient[*website](t.Context(), js, entity.Config{Kind: "Website", Bucket: "websites"})
	if err != nil {
		t.Fatal(err)
	}
	defer websites.Close()
	c := &controller{websites: websites, deployment: web}
	c.runtime = nagi.NewControllerRuntime[*website, none, none, none, none, none, none, none, none](
		"websites", "Website", clientset, websites, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, time.Minute)
	c.SetCustomController(c)
	site := &website{ObjectMeta: metav1.ObjectMeta{Name: "blog"}}
	if err := websites.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}

	stop, ended, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		c.Run(1, stop, failed)
	}()
	natstest.Eventually(t, "both events are there", func() bool {
		select {
		case err := <-failed:
			t.Fatal(err)
		default:
		}
		inNATS, err := recorder.List(t.Context(), js, recorder.Query{Kind: "Website", Key: "blog"})
		return err == nil && len(inNATS) == 1 && len(events(t, clientset, ns, web)) == 1
	})
	close(stop)
	<-ended

	e := events(t, clientset, ns, web)[0]
	if e.InvolvedObject.Kind != "Deployment" || e.Message != "the deployment is synced" ||
		e.Source.Component != "websites" {
		t.Errorf("%+v", e)
	}
	// The entity's event went only to NATS: the API server has no object to which it belongs.
	ofWebsites := metav1.ListOptions{FieldSelector: "involvedObject.kind=Website"}
	all, err := clientset.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), ofWebsites)
	if err != nil || len(all.Items) != 0 {
		t.Errorf("%+v, %v", all.Items, err)
	}
}
