package recorder

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestAnEventAboutADeploymentIsFoundWhereKubectlDescribeLooks(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := newRecorder(t, recorder.Config{
		Kubernetes: kuberecorder.New(clientset), Component: "websites", Host: "node-1",
	})
	rec.Eventf(web, corev1.EventTypeWarning, "Failed", "no image for %q", "main")
	flush(t, rec)

	found := events(t, clientset, ns, web)
	if len(found) != 1 {
		t.Fatalf("%d events: %+v", len(found), found)
	}
	e := found[0]
	want := corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "web",
		UID: web.UID, ResourceVersion: web.ResourceVersion,
	}
	if e.InvolvedObject != want {
		t.Errorf("it is about %+v, want %+v", e.InvolvedObject, want)
	}
	if e.Type != corev1.EventTypeWarning || e.Reason != "Failed" || e.Message != `no image for "main"` || e.Count != 1 {
		t.Errorf("%+v", e)
	}
	if e.Source.Component != "websites" || e.ReportingController != "websites" || e.ReportingInstance != "node-1" {
		t.Errorf("source %+v, reporter %s on %s", e.Source, e.ReportingController, e.ReportingInstance)
	}
}

func TestRepeatsAreOneEventWithACount(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	for range 7 {
		rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	}
	rec.Event(web, corev1.EventTypeNormal, "Scaled", "done")
	flush(t, rec)

	counts := map[string]int32{}
	for _, e := range events(t, clientset, ns, web) {
		counts[e.Reason] += e.Count
		if e.Reason == "Synced" && e.Count != 7 {
			t.Errorf("an event of its own for a repeat: %+v", e)
		}
	}
	if counts["Synced"] != 7 || counts["Scaled"] != 1 {
		t.Errorf("counts %v", counts)
	}
	if s := rec.Stats().Kubernetes; s.Published != 8 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestARepeatOfAnEventThatAgedOutIsANewEvent(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	natstest.Eventually(t, "the event is there", func() bool { return len(events(t, clientset, ns, web)) == 1 })
	name := events(t, clientset, ns, web)[0].Name
	if err := clientset.CoreV1().Events(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	flush(t, rec)
	if found := events(t, clientset, ns, web); len(found) != 1 || found[0].Count != 2 {
		t.Errorf("%+v", found)
	}
	if s := rec.Stats().Kubernetes; s.Published != 2 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestEventsAboutClusterScopedObjectsAreInTheDefaultNamespace(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	role, err := clientset.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "recorder-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	rec.Event(role, corev1.EventTypeNormal, "Synced", "done")
	flush(t, rec)
	found := events(t, clientset, metav1.NamespaceDefault, role)
	if len(found) != 1 || found[0].InvolvedObject.Kind != "ClusterRole" || found[0].InvolvedObject.Namespace != "" {
		t.Errorf("%+v", found)
	}
}

func TestWithoutAClientsetEventsAboutKubernetesObjectsAreCountedAndDropped(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	nats := natstest.Start(t)
	_, js := natstest.Connect(t, nats.URL())
	rec := newRecorder(t, recorder.Config{JetStream: js})
	rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	flush(t, rec)
	if s := rec.Stats(); s.Kubernetes.Dropped != 1 || s.NATS.Recorded != 0 {
		t.Errorf("%+v", s)
	}
	if found := events(t, clientset, ns, web); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestEventsWaitForAnAPIServerThatIsAway(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	rec.Event(web, corev1.EventTypeNormal, "Before", "done")
	natstest.Eventually(t, "the first event is there", func() bool { return rec.Stats().Kubernetes.Published == 1 })

	srv.Kill()
	const n = 200
	for i := range n {
		about := web.DeepCopy() // another object, since events about one object are limited
		about.Name = fmt.Sprint("web-", i)
		rec.Event(about, corev1.EventTypeWarning, "Away", "done")
	}
	natstest.Eventually(t, "the recorder met the server's absence", func() bool { return rec.Err() != nil })
	if s := rec.Stats().Kubernetes; s.Recorded != n+1 || s.Published != 1 {
		t.Errorf("%+v", s)
	}
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	natstest.Eventually(t, "all events are there", func() bool { return rec.Stats().Kubernetes.Published == n+1 })
	t.Logf("all %d events arrived %v after the server was ready", n, time.Since(back))
	if s := rec.Stats().Kubernetes; s.Failed != 0 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
	list, err := clientset.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != n+1 {
		t.Errorf("%d events, %v", len(list.Items), err)
	}
}

// A server that has just started answers 403 until it has loaded the rules; that is no refusal. Users with rights from
// RBAC, such as controllers, see it; cluster administrators do not.
func TestNoEventOfAnOrdinaryUserIsLostWhenTheAPIServerRestarts(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	admin := client(t, srv.Config())
	ns := namespace(t, admin)
	web := deployment(t, admin, ns, "web")
	grantEvents(t, admin, ns, "erin")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(client(t, srv.ConfigFor("erin")))})
	const perRound = 200
	sent := uint64(0)
	for round := range 3 {
		srv.Kill()
		for i := range perRound {
			about := web.DeepCopy() // another object, since events about one object are limited
			about.Name = fmt.Sprintf("web-%d-%d", round, i)
			rec.Event(about, corev1.EventTypeWarning, "Away", "done")
		}
		sent += perRound
		natstest.Eventually(t, "the recorder met the server's absence", func() bool { return rec.Err() != nil })
		if err := srv.Restart(); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "all events were tried", func() bool {
			s := rec.Stats().Kubernetes
			return s.Published+s.Failed+s.Dropped == sent
		})
	}
	if s := rec.Stats().Kubernetes; s.Published != sent {
		t.Errorf("%+v, the last error: %v", s, rec.Err())
	}
}

func TestAnAPIServerThatIsAwayHoldsUpNeitherRecordingNorClose(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	srv.Kill()
	begin := time.Now()
	for i := range 5000 {
		about := web.DeepCopy()
		about.Name = fmt.Sprint("web-", i)
		rec.Event(about, corev1.EventTypeNormal, "Synced", "done")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := rec.Close(ctx); err == nil {
		t.Error("Close says that all was sent")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if s := rec.Stats().Kubernetes; s.Published != 0 || s.Dropped == 0 {
		t.Errorf("%+v", s)
	}
}

func TestAMissingRightIsNamedAndHealsWhenItIsGranted(t *testing.T) {
	t.Parallel()
	admin := client(t, shared.Config())
	ns := namespace(t, admin)
	web := deployment(t, admin, ns, "web")
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(client(t, shared.ConfigFor("rita")))})
	rec.Event(web, corev1.EventTypeNormal, "Refused", "done")
	natstest.Eventually(t, "the event was refused", func() bool { return rec.Stats().Kubernetes.Failed == 1 })
	err := rec.Err()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"rita" cannot create resource "events"`) ||
		!strings.Contains(err.Error(), `Deployment "web"`) {
		t.Errorf("error: %v", err)
	}

	grantEvents(t, admin, ns, "rita")
	refused := 1
	natstest.Eventually(t, "an event is there", func() bool {
		refused++
		rec.Event(web, corev1.EventTypeNormal, fmt.Sprint("Tried", refused), "done")
		return len(events(t, admin, ns, web)) > 0
	})
}

func TestANamespaceThatGoesAwayHoldsUpNoOtherEvents(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	going := namespace(t, clientset)
	staying := namespace(t, clientset)
	gone, web := deployment(t, clientset, going, "web"), deployment(t, clientset, staying, "web")
	// No controller empties the namespace, so it stays as it is.
	if err := clientset.CoreV1().Namespaces().Delete(t.Context(), going, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(clientset)})
	rec.Event(gone, corev1.EventTypeNormal, "Synced", "done")
	rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	flush(t, rec)
	if s := rec.Stats().Kubernetes; s.Failed != 1 || s.Published != 1 {
		t.Errorf("%+v", s)
	}
	if !apierrors.IsForbidden(rec.Err()) {
		t.Errorf("error: %v", rec.Err())
	}
}

// grantEvents lets a user write events in a namespace.
func grantEvents(t *testing.T, admin kubernetes.Interface, namespace, user string) {
	t.Helper()
	rbac := admin.RbacV1()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
	}
	if _, err := rbac.Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	if _, err := rbac.RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
