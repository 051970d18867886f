package manager

import (
	"context"
	"errors"
)

// Threaded is a controller with the Run of the Kumori API, as package controllerruntime makes it.
type Threaded interface {
	Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
}

// Kumori makes a Runnable of a controller of the Kumori API, with so many workers. The first error that it sends stops
// it. Of the manager's grace period it knows nothing: it waits for its reconciles without a limit, so one that takes
// longer is left behind. It keeps to its own lease; Config.Lease does not hold for it.
func Kumori(name string, c Threaded, threadiness int) Runnable {
	return Func(name, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		errs := make(chan error)
		returned := make(chan struct{})
		failed := make(chan error, 1)
		go func() {
			defer close(failed)
			for first := true; ; {
				select {
				case err := <-errs:
					if first && err != nil {
						failed <- err
						cancel(err)
						first = false
					}
				case <-returned:
					return
				}
			}
		}()
		func() {
			defer close(returned)
			c.Run(threadiness, ctx.Done(), errs)
		}()
		if err := <-failed; err != nil {
			return err
		}
		if ctx.Err() == nil {
			return errors.New("its Run returned before it was stopped, and sent no error")
		}
		return nil
	})
}
