package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestTheLookAtTheServicesRightsLeavesNoViolationInTheLog: of a user as Permissions prints it. One who may do more is
// warned of in one line.
func TestTheLookAtTheServicesRightsLeavesNoViolationInTheLog(t *testing.T) {
	set, err := service.Config{}.Permissions()
	must(t, err)
	for as, warnings := range map[string]int{"service": 0, "admin": 1} {
		natstest.Test(t, func(t *testing.T) {
			isolated(t)
			beside := catchBackground(t)
			file := filepath.Join(t.TempDir(), "nats.conf")
			must(t, os.WriteFile(file, fmt.Appendf(nil, "authorization: { users: [\n"+
				"{ user: admin, password: x }\n{ user: service, password: x\n%s}\n] }\n", set.NATS()), 0o600))
			s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
				parsed, err := server.ProcessConfigFile(file)
				must(t, err)
				o.Users = parsed.Users
			}))
			ctx, log := newSaid()
			m, err := New(ctx, Config{
				URL: s.URL(), User: "admin", Password: "x", ServiceAs: User{User: as, Password: "x"},
				Service: service.For(service.Config{}),
				Options: []nats.Option{natstest.Dialer()},
			})
			must(t, err)
			must(t, m.Add(siteController(t, m, m.Controller())))
			life := startIn(t, ctx, m)
			time.Sleep(time.Minute)
			found := 0
			for _, line := range append(log.take(), beside.take()...) {
				if strings.Contains(line, "iolation") || strings.Contains(line, "denies") {
					t.Errorf("as %s it says: %s", as, line)
				}
				if strings.Contains(line, "may publish to other subjects than inboxes") {
					found++
				}
			}
			if found != warnings {
				t.Errorf("as %s it has %d warnings, want %d", as, found, warnings)
			}
			must(t, life.stop())
		})
	}
}
