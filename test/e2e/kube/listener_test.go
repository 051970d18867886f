package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/probes/kubeauth"
	"github.com/nagi-runtime/nagi/test/natstest"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// TestTheClusterSaysWhoMayScrape: a service account with a ClusterRole for the path, and nobody else. The process needs
// what system:auth-delegator gives, and says so without.
func TestTheClusterSaysWhoMayScrape(t *testing.T) {
	admin, err := kubernetes.NewForConfig(shared.Config())
	must(t, err)
	process, err := dynamic.NewForConfig(shared.ConfigFor("metrics-process"))
	must(t, err)
	ctx := t.Context()
	token := func(name string) string {
		t.Helper()
		accounts := admin.CoreV1().ServiceAccounts("default")
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		must(t, err)
		made, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		must(t, err)
		return made.Status.Token
	}
	bind := func(role string, subject rbacv1.Subject) {
		t.Helper()
		_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "of-" + subject.Name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	prometheus, guest := token("prometheus"), token("guest")
	asks := func(token, path string) error {
		return kubeauth.New(process)(httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), token)
	}
	if err := asks(prometheus, "/metrics"); err == nil || !strings.Contains(err.Error(), "system:auth-delegator") {
		t.Errorf("a process without rights: %v", err)
	}
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	bind("scraper", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"})
	bind("system:auth-delegator", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "metrics-process"})
	natstest.Eventually(t, "the rules of RBAC are loaded", func() bool { return asks(prometheus, "/metrics") == nil })
	if err := asks(guest, "/metrics"); !errors.Is(err, probes.ErrForbidden) ||
		!strings.Contains(err.Error(), `"system:serviceaccount:default:guest"`) {
		t.Errorf("a guest: %v", err)
	}
	if err := asks(prometheus, "/debug/pprof/"); !errors.Is(err, probes.ErrForbidden) {
		t.Errorf("another path: %v", err)
	}
	if err := asks(prometheus+"x", "/metrics"); !errors.Is(err, probes.ErrUnauthenticated) {
		t.Errorf("a token that is none: %v", err)
	}
}
