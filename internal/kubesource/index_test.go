package kubesource

import "testing"

// TestControllersThatStartAtOnceAddTheIndexOnce, and none of them fails because another was faster.
func TestControllersThatStartAtOnceAddTheIndexOnce(t *testing.T) {
	for range 300 {
		informer := stillInformer()
		errs := make(chan error, 8)
		start := make(chan struct{})
		for range cap(errs) {
			go func() {
				<-start
				errs <- AddOwnerIndex(informer)
			}()
		}
		close(start)
		for range cap(errs) {
			must(t, <-errs)
		}
	}
}
