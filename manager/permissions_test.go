package manager

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
)

func doNothing(context.Context, controller.Request) (controller.Result, error) {
	return controller.Result{}, nil
}

func siteController(t *testing.T, m *Manager, opts ...controller.Option) *controller.Controller[*site] {
	t.Helper()
	c, err := controller.New("sites", client(t, m, sites()), controller.ReconcilerFunc(doNothing), opts...)
	must(t, err)
	return c
}

// TestThePermissionsHaveTheInboxOfTheConnection: a user who gets them can connect as the manager does.
func TestThePermissionsHaveTheInboxOfTheConnection(t *testing.T) {
	for prefix, want := range map[string]string{"": "_INBOX.>", "_INBOX_fleet": "_INBOX_fleet.>"} {
		natstest.Test(t, func(t *testing.T) {
			isolated(t)
			m := open(t, Config{URL: natstest.Start(t).URL(), InboxPrefix: prefix, Lease: &Lease{Bucket: "leases"}})
			c := siteController(t, m)
			must(t, m.Add(c))
			for of, permissions := range map[string]func(...entity.PermissionOption) (controller.Permissions, error){
				"manager": m.Permissions, "controller": c.Permissions,
			} {
				set, err := permissions()
				must(t, err)
				if !slices.Equal(set.Subscribe, []string{want}) {
					t.Errorf("a %s with the prefix %q may subscribe to %q", of, prefix, set.Subscribe)
				}
				if warned := strings.Contains(set.NATS(), "# This user hears the answers to all"); warned != (prefix == "") {
					t.Errorf("a %s with the prefix %q prints\n%s", of, prefix, set.NATS())
				}
			}
		})
	}
}

// TestPermissionsOfNoControllerAreAnError: else they would be printed as a denial of all.
func TestPermissionsOfNoControllerAreAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: natstest.Start(t).URL()})
		must(t, m.Add(Func("beside", func(context.Context) error { return nil })))
		_, err := m.Permissions()
		mustSay(t, err, "Add")
	})
}

// TestADeniedInboxIsNotAdvisedToHearEverybody: a prefix of the connection's own comes first.
func TestADeniedInboxIsNotAdvisedToHearEverybody(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "sites", Password: "x", Permissions: &server.Permissions{
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_sites.>"}},
			}}}
		}))
		m := open(t, Config{URL: s.URL(), User: "sites", Password: "x"})
		_, err := Client[*site](t.Context(), m, sites())
		mustSay(t, err, "InboxPrefix of manager.Config", "--inbox-prefix", "hears the answers to everybody")
	})
}
