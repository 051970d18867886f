package kube

import (
	"context"
	"maps"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

// TestTwoFieldManagersOfOneObjectAreCalm: each applies its own fields and leaves the other's mark. Else they would
// write for ever.
func TestTwoFieldManagersOfOneObjectAreCalm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base, extra :=
		w.maps(kube.WithFieldManager("base")),
		w.maps(kube.WithFieldManager("Extra fields, by a name that is in no annotation's key"))
	byDefault := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, _ string) error {
		for name, handle := range map[string]*kube.Handle[*corev1.ConfigMap]{
			"one": base, "two": extra, "three": byDefault,
		} {
			m := w.configMap("settings", "")
			m.Data = map[string]string{name: name}
			if _, err := handle.Apply(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}, &seen, base.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	want := map[string]string{"one": "one", "two": "two", "three": "three"}
	natstest.Eventually(t, "all is there", func() bool {
		m := w.liveMap("settings")
		return m != nil && maps.Equal(m.Data, want)
	})
	writes := w.requests.writes("configmaps")
	for range 5 {
		n := seen.count("home")
		c.Enqueue("home", controller.OperationManual)
		natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("home") > n })
	}
	// When all was there, one more write of each may have been under way.
	if n := w.requests.writes("configmaps") - writes; n > 3 {
		t.Errorf("%d writes, though nothing changed", n)
	}
}

// TestASecretOfStringDataIsKept: the data that the API server makes of stringData is in nobody's set of fields, so
// Apply sends data instead.
func TestASecretOfStringDataIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := informers.NewSharedInformerFactoryWithOptions(w.clientset, 0,
		informers.WithNamespace(w.namespace)).Core().V1().Secrets().Informer()
	secrets, err := kube.New[*corev1.Secret](w.dynamic,
		corev1.SchemeGroupVersion.WithResource("secrets"), informer, manager)
	must(t, err)
	w.start(informer)
	w.awaitSync(informer)
	desired := func() *corev1.Secret {
		return of(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "login"},
			Data:       map[string][]byte{"user": []byte("us"), "password": []byte("overridden")},
			StringData: map[string]string{"password": "ours"},
		}, "home", "here")
	}
	at := w.clientset.CoreV1().Secrets(w.namespace)
	for name, write := range map[string]func() (controller.OperationResult, error){
		"Apply": func() (controller.OperationResult, error) { return secrets.Apply(t.Context(), desired()) },
		"CreateOrUpdate": func() (controller.OperationResult, error) {
			s := desired()
			s.Data, s.StringData = nil, nil
			return secrets.CreateOrUpdate(t.Context(), s, func(s *corev1.Secret) error {
				s.StringData = map[string]string{"user": "us", "password": "ours"}
				return nil
			})
		},
	} {
		_, err := write()
		must(t, err)
		s, err := at.Get(t.Context(), "login", metav1.GetOptions{})
		must(t, err)
		if string(s.Data["password"]) != "ours" || string(s.Data["user"]) != "us" {
			t.Errorf("%s: the secret is %q", name, s.Data)
		}
		writes := w.requests.writes("secrets")
		if result, err := write(); err != nil || result != controller.OperationResultNone ||
			w.requests.writes("secrets") != writes {
			t.Errorf("%s again: %q, %v, %d requests", name, result, err, w.requests.writes("secrets")-writes)
		}
		s.Data["password"] = []byte("theirs")
		s, err = at.Update(t.Context(), s, metav1.UpdateOptions{FieldManager: "somebody"})
		must(t, err)
		natstest.Eventually(t, "the cache shows it", func() bool {
			cached, err := secrets.Get(w.key("login"))
			return err == nil && cached.ResourceVersion == s.ResourceVersion
		})
		_, err = write()
		must(t, err)
		if s, err = at.Get(t.Context(), "login", metav1.GetOptions{}); err != nil ||
			string(s.Data["password"]) != "ours" {
			t.Errorf("%s: the password is %q after somebody changed it, %v", name, s.Data["password"], err)
		}
	}
}
