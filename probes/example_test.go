package probes_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
)

// Metrics over TLS, for who has a token of a file; the probes are open. In production Cert and Key are those of a
// mounted secret, which is read again when it changes: &probes.TLS{Cert: "/certs/tls.crt", Key: "/certs/tls.key"}.
func ExampleServer() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("# of Prometheus\ns3cret\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	auth, err := probes.TokenFile(tokens)
	if err != nil {
		log.Fatal(err)
	}
	handlers := probes.New().Handlers()
	handlers["/metrics"] = metrics.New().Handler()
	address := make(chan string, 1)
	server := &probes.Server{
		Address: ":0", Handlers: handlers, TLS: &probes.TLS{}, Auth: auth,
		Listening: func(_ string, at net.Addr) { address <- at.String() },
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()

	url := "https://" + <-address
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate was made by the server itself
		DisableKeepAlives: true,
	}}
	for _, ask := range []struct{ path, token string }{{"/healthz", ""}, {"/metrics", ""}, {"/metrics", "s3cret"}} {
		r, err := http.NewRequest(http.MethodGet, url+ask.path, nil)
		if err != nil {
			log.Fatal(err)
		}
		if ask.token != "" {
			r.Header.Set("Authorization", "Bearer "+ask.token)
		}
		answer, err := client.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(ask.path, answer.Status)
	}
	stop()
	fmt.Println("ended with error", <-ended)
	// Output:
	// /healthz 200 OK
	// /metrics 401 Unauthorized
	// /metrics 200 OK
	// ended with error <nil>
}
