package kubetest_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nagi-runtime/nagi/test/kubetest"
)

// TestARestoredBackupIsTheStateOfThen, also for a second time and after a kill.
func TestARestoredBackupIsTheStateOfThen(t *testing.T) {
	t.Parallel()
	srv := kubetest.Start(t)
	clientset := client(t, srv.Config())
	before := createConfigMap(t, clientset, "before")
	backup := srv.Backup(t)
	for range 2 {
		createConfigMap(t, clientset, "after")
		maps := clientset.CoreV1().ConfigMaps("default")
		if err := maps.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		srv.Kill()
		if err := srv.Restore(backup); err != nil {
			t.Fatal(err)
		}
		sameConfigMap(t, clientset, before)
		if _, err := maps.Get(t.Context(), "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what was written later: %v", err)
		}
	}
}
