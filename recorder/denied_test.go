package recorder_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestADenialIsReportedSoon, though the connection's last error is about something else, and events are recorded again
// when the right is back.
func TestADenialIsReportedSoon(t *testing.T) {
	denying := func(publish, subscribe []string) func(*server.Options) {
		return func(o *server.Options) {
			o.Users = []*server.User{{Username: "c", Password: "c", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{">"}, Deny: publish},
				Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: subscribe},
			}}}
		}
	}
	for words, deny := range map[string]func(*server.Options){
		`grant publish on "nagi.events.>"`: denying([]string{"nagi.events.>", "noise"}, nil),
		`grant subscribe on "_INBOX.>"`:    denying([]string{"noise"}, []string{"_INBOX.>"}),
	} {
		t.Run(words, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				srv := natstest.Start(t, natstest.WithConfig(denying(nil, nil)))
				reload := func(change func(*server.Options)) {
					t.Helper()
					if err := srv.Reload(change); err != nil {
						t.Fatal(err)
					}
				}
				quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
				nc, js := natstest.Connect(t, srv.URL(), nats.UserInfo("c", "c"), quiet)
				log := &errorLog{}
				rec := newRecorder(t, recorder.Config{JetStream: js, Logger: log.logger()})
				rec.Event(website("", "before"), corev1.EventTypeNormal, "Synced", "done")
				wantNow(t, "it is recorded", func() bool { return rec.Stats().NATS.Published == 1 })
				reload(deny)
				rec.Event(website("", "denied"), corev1.EventTypeNormal, "Synced", "done")
				_ = nc.Publish("noise", nil)
				wantNow(t, "the denial is reported", func() bool {
					err := rec.Err()
					return err != nil && strings.Contains(err.Error(), words)
				})
				reload(denying(nil, nil))
				natstest.Eventually(t, "it is recorded", func() bool { return rec.Stats().NATS.Published == 2 })
			})
		})
	}
}
