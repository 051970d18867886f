package entity_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A session that ends by itself, unless it is renewed.
func ExampleWithTTL() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()

	type SessionSpec struct {
		User string `json:"user"`
	}
	type Session = entity.Object[SessionSpec, struct{}]
	sessions, err := entity.NewClient[*Session](ctx, js, entity.Config{Kind: "Session", Bucket: "sessions"})
	if err != nil {
		log.Fatal(err)
	}
	defer sessions.Close()

	session := &Session{ObjectMeta: metav1.ObjectMeta{Name: "s1"}, Spec: SessionSpec{User: "ada"}}
	if err := sessions.CreateWith(ctx, session, entity.WithTTL(time.Minute)); err != nil {
		log.Fatal(err)
	}

	// Who writes something else keeps what is left of the TTL. An object shows when it ends.
	session.Spec.User = "grace"
	if err := sessions.Update(ctx, session); err != nil {
		log.Fatal(err)
	}
	ends, ok := entity.ExpiresAt(session)
	fmt.Println(ok, time.Until(ends).Round(time.Minute))

	// Only the key is needed to renew it.
	if err := sessions.PatchWith(ctx, "s1", []byte(`{}`), entity.WithTTL(time.Hour)); err != nil {
		log.Fatal(err)
	}
	renewed, err := sessions.Get(ctx, "s1")
	if err != nil {
		log.Fatal(err)
	}
	ends, ok = entity.ExpiresAt(renewed)
	fmt.Println(ok, time.Until(ends).Round(time.Hour))

	if err := sessions.UpdateWith(ctx, renewed, entity.WithoutTTL()); err != nil {
		log.Fatal(err)
	}
	_, ok = entity.ExpiresAt(renewed)
	fmt.Println(ok)
	// Output:
	// true 1m0s
	// true 1h0m0s
	// false
}
