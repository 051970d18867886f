package kubetest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		beKilled()
	}
	goleak.VerifyTestMain(m)
}

func client(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}
