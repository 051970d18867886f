package nagi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

type siteSpec struct {
	Also string `json:"also,omitempty"` // another namespace with a ConfigMap of this site
}

// site is the primary of these tests.
type site = entity.Object[siteSpec, entity.None]

// world is a NATS server, an API server, and a controller "sites" that makes a ConfigMap for each site, in its namespace,
// and one more in the namespace that the site names.
type world struct {
	*testing.T
	nats      *natstest.Server
	clientset kubernetes.Interface
	sites     *entity.Client[*site]
	here      string // a namespace of this test
	there     string // another one
	kind      string // of the sites: all tests share the cluster, so each has a kind of its own
}

var worlds atomic.Int64

func newWorld(t *testing.T) *world {
	t.Helper()
	n := worlds.Add(1)
	w := &world{T: t, nats: natstest.Start(t), here: fmt.Sprint("here-", n), there: fmt.Sprint("there-", n), kind: fmt.Sprint("Site", n)}
	var err error
	w.clientset, err = kubernetes.NewForConfig(shared.Config())
	w.must(err)
	for _, name := range []string{w.here, w.there} {
		_, err := w.clientset.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
	}
	w.startController()
	return w
}

func (w *world) startController() {
	w.Helper()
	_, js := natstest.Connect(w.T, w.nats.URL())
	var err error
	w.sites, err = entity.NewClient[*site](w.Context(), js, entity.Config{
		Kind: w.kind, APIVersion: "example.com/v1", Bucket: "sites", Namespaced: true, Storage: jetstream.MemoryStorage,
	})
	w.must(err)
	w.Cleanup(w.sites.Close)
	client, err := dynamic.NewForConfig(shared.Config())
	w.must(err)
	informer := informers.NewSharedInformerFactory(w.clientset, 0).Core().V1().ConfigMaps().Informer()
	maps, err := kube.New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), informer)
	w.must(err)
	natstest.Run(w.T, func(ctx context.Context) error { informer.RunWithContext(ctx); return nil })
	reconcile := func(ctx context.Context, req controller.Request) (controller.Result, error) {
		s, err := w.sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		for _, namespace := range []string{s.Namespace, s.Spec.Also} {
			if namespace == "" {
				continue
			}
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name + "-settings"}}
			if _, err := maps.CreateOrUpdate(ctx, m, func(*corev1.ConfigMap) error { return nil }); err != nil {
				return controller.Result{}, err
			}
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", w.sites, controller.ReconcilerFunc(reconcile),
		maps.Owns(controller.WithOwnersInOtherNamespaces()), registry.Publish(registry.Options{}))
	w.must(err)
	natstest.Run(w.T, c.Run)
	natstest.Eventually(w, "the kind is registered", func() bool { return w.run("", "explain", "sites").code == 0 })
}

// site makes a site, and waits for its ConfigMaps and its state.
func (w *world) site(name, also string) {
	w.Helper()
	w.must(w.sites.Create(w.Context(), &site{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: name}, Spec: siteSpec{Also: also},
	}))
	if r := w.run("", "wait", "sites/"+w.here+"/"+name, "--for=reconciled", "--timeout=1m"); r.code != 0 {
		w.Fatalf("the site is not reconciled: %+v", r)
	}
}

// deleteNow deletes as kubectl does.
var deleteNow = metav1.DeleteOptions{}

// below makes a Secret and a Pod that runs, which a ConfigMap owns, as a controller in Kubernetes would.
func (w *world) below(configMap string) {
	w.Helper()
	core := w.clientset.CoreV1()
	owner, err := core.ConfigMaps(w.here).Get(w.Context(), configMap, metav1.GetOptions{})
	w.must(err)
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		}}
	}
	_, err = core.Secrets(w.here).Create(w.Context(), &corev1.Secret{ObjectMeta: named("token")}, metav1.CreateOptions{})
	w.must(err)
	pod, err := core.Pods(w.here).Create(w.Context(), &corev1.Pod{
		ObjectMeta: named("worker"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "all", Image: "none"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "all", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}
	_, err = core.Pods(w.here).UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
}

// reader makes a user who may read some resources of a namespace and nothing else.
func (w *world) reader(namespace string, resources ...string) (kubeconfig string) {
	w.Helper()
	user := "reader-of-" + namespace + "-" + strings.Join(resources, "-")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get", "list"}}}
	_, err := w.clientset.RbacV1().Roles(namespace).Create(w.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.clientset.RbacV1().RoleBindings(namespace).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	w.must(err)
	cfg := shared.ConfigFor(user)
	client, err := kubernetes.NewForConfig(cfg)
	w.must(err)
	natstest.Eventually(w, "the role is in effect", func() bool {
		err := client.CoreV1().RESTClient().Get().Namespace(namespace).Resource(resources[0]).Do(w.Context()).Error()
		return err == nil
	})
	return w.kubeconfig(cfg)
}

func (w *world) admin() (kubeconfig string) { return w.kubeconfig(shared.Config()) }

func (w *world) kubeconfig(cfg *rest.Config) string {
	w.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		Token: cfg.BearerToken, Impersonate: cfg.Impersonate.UserName, ImpersonateGroups: cfg.Impersonate.Groups,
	}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	path := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(clientcmd.WriteToFile(*file, path))
	return path
}

type ran struct {
	out, err string
	code     int
}

// run runs the tool with a kubeconfig; "" for none.
func (w *world) run(kubeconfig string, args ...string) ran {
	w.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(w.Context(), binary, append([]string{"--server", w.nats.URL()}, args...)...)
	home := w.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home}, "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		w.Fatal(err)
	}
	return ran{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
