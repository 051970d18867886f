package kubetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func createConfigMap(t *testing.T, clientset kubernetes.Interface, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}
	object, err := clientset.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// sameConfigMap fails the test if the object is not there as it was.
func sameConfigMap(t *testing.T, clientset kubernetes.Interface, want *corev1.ConfigMap) {
	t.Helper()
	got, err := clientset.CoreV1().ConfigMaps("default").Get(t.Context(), want.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != want.UID || got.ResourceVersion != want.ResourceVersion || got.Data["name"] != want.Name {
		t.Errorf("%+v is not %+v", got, want)
	}
}

func TestAStartedServerIsOfUseAtOnce(t *testing.T) {
	t.Parallel()
	clientset := client(t, kubetest.Start(t).Config())
	createConfigMap(t, clientset, "a")
	if version, err := clientset.Discovery().ServerVersion(); err != nil || version.Minor != "36" {
		t.Errorf("version %v, %v", version, err)
	}
}

func TestWhatWasWrittenIsThereAfterARestart(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	stopped := createConfigMap(t, clientset, "stopped")
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	sameConfigMap(t, clientset, stopped)
}

func TestWhatWasAcknowledgedSurvivesAKill(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	for round := range 3 {
		killed := createConfigMap(t, clientset, fmt.Sprint("killed-", round))
		srv.Kill()
		if err := srv.Restart(); err != nil {
			t.Fatal(err)
		}
		sameConfigMap(t, clientset, killed) // the same client, with the same address and credentials
	}
}

func TestAServerThatIsDownRefusesConnections(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	for _, end := range []func(){srv.Stop, srv.Kill} {
		end()
		end() // twice does no harm
		_, err := clientset.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error: %v", err)
		}
		if err := srv.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWatchEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	watch, err := client(t, srv.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	begin := time.Now()
	srv.Stop()
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("it took %v: the server had to be killed", took)
	}
	for range watch.ResultChan() { // until it is closed
	}
}

func TestAUserHasNoRightsUntilSomeAreGranted(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	alice := client(t, srv.ConfigFor("alice"))
	list := func() error {
		_, err := alice.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"alice"`) {
		t.Fatalf("error: %v", err)
	}
	grantReading(t, client(t, srv.Config()), "alice")
	natstest.Eventually(t, "alice may list", func() bool { return list() == nil })
	bob := client(t, srv.ConfigFor("bob"))
	if _, err := bob.CoreV1().ConfigMaps("default").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("bob: %v", err)
	}
}

func TestWithoutCredentialsNothingIsAnswered(t *testing.T) {
	t.Parallel()
	cfg := rest.AnonymousClientConfig(kubetest.Start(t).Config())
	_, err := client(t, cfg).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("error: %v", err)
	}
}

func TestADirectoryKeepsItsObjectsForTheNextServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := kubetest.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	object := createConfigMap(t, client(t, first.Config()), "kept")
	first.Close()
	second, err := kubetest.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	sameConfigMap(t, client(t, second.Config()), object)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := kubetest.Open(t.Context(), "", kubetest.WithArgs("--no-such-flag=1"))
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error: %v", err)
	}
}

func TestAClosedServerDoesNotComeBack(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	srv.Close()
	if err := srv.Restart(); err == nil {
		t.Error("it started")
	}
}

// Not parallel: it looks at the whole process and at the directory for temporary files.
func TestTenServersLeaveNothingBehind(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	before := goleak.IgnoreCurrent()
	for i := range 10 {
		srv, err := kubetest.Open(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		createConfigMap(t, client(t, srv.Config()), "a")
		if len(processes(t, temporary)) != 1 {
			t.Fatal("a server that runs is not seen")
		}
		switch i % 3 { // however it ended before it is closed
		case 0:
			srv.Stop()
		case 1:
			srv.Kill()
		}
		srv.Close()
	}
	if left := processes(t, temporary); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
	goleak.VerifyNone(t, before)
}

// grantReading lets a user list ConfigMaps in the default namespace.
func grantReading(t *testing.T, clientset kubernetes.Interface, user string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"},
		}},
	}
	if _, err := clientset.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	if _, err := clientset.RbacV1().RoleBindings("default").Create(t.Context(),
		binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
