package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// readyPaths answer 200 when the server can be used. The server itself makes the default namespace, some time after it
// says that it is ready.
var readyPaths = []string{"/readyz", "/api/v1/namespaces/default"}

// waitReady returns when the server serves, or an error when it never will.
func (s *Server) waitReady(ctx context.Context, p *process) error {
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer client.CloseIdleConnections()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ready(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.exited()
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w%s", errors.Join(ctx.Err(), err), p.logTail())
		case <-again.C:
		}
	}
}

func (s *Server) ready(ctx context.Context, client *http.Client) error {
	// If the server accepts and does not answer, waitReady asks again.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, path := range readyPaths {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Config().Host+path, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
		}
	}
	return nil
}
