package service

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
)

// Defaults of Config.
const (
	DefaultName     = "nagi"
	DefaultPrefix   = "nagi"
	DefaultVersion  = "0.0.0"
	DefaultInbox    = "_INBOX"
	DefaultReadRate = 50
	DefaultActRate  = 5
)

// Config says how the controllers of a process are reached. Conn is needed.
type Config struct {
	// Conn is the service's own connection, of a user who may publish to inboxes only; see Config.Permissions. It is
	// not that of a controller's client. It has to come back by itself, however long the server is away or refuses its
	// user: it is made with nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort(). Service.Run drains and closes it.
	Conn *nats.Conn

	// Name and Version are the service's in the services API, and Description what it says there. Replicas have the
	// same name. The zero values mean DefaultName and DefaultVersion; a version is one of semver.org.
	Name, Version, Description string
	// Prefix is what the subjects begin with. The zero value means DefaultPrefix. Two installations in one account that
	// have controllers of one name need different ones, such as "nagi.staging": else requests for one of them go to the
	// other.
	Prefix string
	// Inboxes are the prefixes of the inboxes of those who ask, without the dot at the end. The zero value means
	// DefaultInbox, that of all who have set no other, and those of entity.RoleReader and entity.RoleOperator. A
	// request that wants its answer elsewhere is dropped: the service may not publish there. The log says so, and what
	// to add here; the caller gets no answer. nats micro info shows the prefixes as "nagi.inboxes". Answers to other
	// accounts, which import the service, are always allowed.
	Inboxes []string

	// ReadRate and ActRate are how many requests in a second this process takes, of those that read and of those that
	// act, whoever sends them; twice as many at once. Requests about all keys, or about the controller, and requests
	// about one namespace are counted apart, and each may be so many. The zero values mean DefaultReadRate and
	// DefaultActRate. Requests beyond that are refused with the code 429.
	ReadRate, ActRate float64
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, DefaultName)
	c.Version = cmp.Or(c.Version, DefaultVersion)
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.Description = cmp.Or(c.Description,
		"Controllers on Nagi: what waits and why. See "+c.Prefix+".<controller>.read.about")
	if len(c.Inboxes) == 0 {
		c.Inboxes = []string{DefaultInbox, inboxOf(entity.RoleOperator), inboxOf(entity.RoleReader)}
	}
	c.ReadRate, c.ActRate = cmp.Or(c.ReadRate, DefaultReadRate), cmp.Or(c.ActRate, DefaultActRate)
	return c
}

var (
	// subjectPrefix has no wildcards, and nothing of the server's own ($).
	subjectPrefix = regexp.MustCompile(`^[-_=a-zA-Z0-9]+(\.[-_=a-zA-Z0-9]+)*$`)
	serviceName   = regexp.MustCompile(`^[-_a-zA-Z0-9]+$`)
	namespaceName = regexp.MustCompile(`^[-_=a-zA-Z0-9]+$`)
)

// validate says all that is wrong with a Config whose defaults are filled in. What the library checks is left to it.
func (c Config) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	const want = "want tokens of letters, digits, '-', '_' and '=', with dots between them"
	if !serviceName.MatchString(c.Name) {
		refuse("Config.Name is %q: want letters, digits, '-' and '_'", c.Name)
	}
	if !subjectPrefix.MatchString(c.Prefix) {
		refuse("Config.Prefix is %q: %s, as \"nagi.staging\"", c.Prefix, want)
	}
	for _, inbox := range c.Inboxes {
		if !subjectPrefix.MatchString(inbox) {
			refuse("Config.Inboxes has %q: %s, as \"_INBOX_alice\"", inbox, want)
		}
		if c.Prefix == inbox || strings.HasPrefix(c.Prefix, inbox+".") {
			refuse("Config.Inboxes has %q, below which is Config.Prefix: an answer would be a request", inbox)
		}
	}
	if c.ReadRate < 0 || c.ActRate < 0 {
		refuse("Config.ReadRate is %v, Config.ActRate %v: they must not be negative", c.ReadRate, c.ActRate)
	}
	return errors.Join(errs...)
}

// validateConn says what the connection lacks. One that nats.go closes for good, as it does by default after 60
// attempts or when its user is refused twice, would end Run, and with it all that a manager runs beside the service.
func (c Config) validateConn() error {
	if c.Conn == nil {
		return errors.New("Config.Conn is needed: a connection of the service's own, of a user with the rights of " +
			"Config.Permissions")
	}
	var change []string
	if c.Conn.Opts.MaxReconnect >= 0 {
		change = append(change, "add nats.MaxReconnects(-1)")
	}
	if !c.Conn.Opts.IgnoreAuthErrorAbort {
		change = append(change, "add nats.IgnoreAuthErrorAbort()")
	}
	if !c.Conn.Opts.AllowReconnect {
		change = append(change, "leave nats.NoReconnect() away")
	}
	if change == nil {
		return nil
	}
	return fmt.Errorf("Config.Conn does not come back by itself from every outage, and Run would end with it; where "+
		"it is made, %s", strings.Join(change, ", "))
}

// imported begins the subject of an answer to a request from another account. Servers let no client name such a one.
const imported = "_R_."

// Permissions is what the user of Conn needs, and all that it should have: to publish to inboxes, and to subscribe to
// the subjects of the service.
func (c Config) Permissions() (entity.PermissionSet, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return entity.PermissionSet{}, fmt.Errorf("permissions of a service: %w", err)
	}
	set := entity.PermissionSet{Publish: []string{imported + ">"}, Subscribe: []string{
		"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$SRV.*." + c.Name, "$SRV.*." + c.Name + ".*",
		c.Prefix + ".*." + read + ".>", c.Prefix + ".*." + act + ".>",
	}}
	for _, inbox := range c.Inboxes {
		set.Publish = append(set.Publish, inbox+".>")
	}
	return set.Join(), nil
}

// inboxOf is the inbox prefix that package entity gives a role.
func inboxOf(role entity.Role) string { return DefaultInbox + "_" + string(role) }

// CallerPermissions is what a user needs who asks the service: entity.RoleReader to read about all controllers, and
// entity.RoleOperator to act on them too; both to list services (nats micro ls). It is to be joined to the set of the
// role. The default prefix of the inbox is that of the role, as in entity.Permissions: nats
// --inbox-prefix=_INBOX_reader.
func (c Config) CallerPermissions(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	if role != entity.RoleReader && role != entity.RoleOperator {
		return entity.PermissionSet{}, fmt.Errorf("service: there are permissions of callers for the roles %q and %q, "+
			"not for %q", entity.RoleReader, entity.RoleOperator, role)
	}
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return entity.PermissionSet{}, fmt.Errorf("permissions of who asks a service: %w", err)
	}
	// Of any bucket: what is wanted is the inbox that the options say.
	bucket := entity.Config{Bucket: "any", StatusBucket: entity.NoStatusBucket}
	set, err := entity.Permissions(bucket, role, opts...)
	set.Publish = []string{"$SRV.PING.>", "$SRV.INFO.>", "$SRV.STATS.>", "$SRV.PING", "$SRV.INFO", "$SRV.STATS",
		c.Prefix + ".*." + read + ".>"}
	if role == entity.RoleOperator {
		set.Publish = append(set.Publish, c.Prefix+".*."+act+".>")
	}
	return set.Join(), err
}

// mayAnswer reports whether an answer may go there.
func (c *Config) mayAnswer(reply string) bool {
	if strings.HasPrefix(reply, imported) {
		return true
	}
	for _, inbox := range c.Inboxes {
		if rest, ok := strings.CutPrefix(reply, inbox+"."); ok && rest != "" {
			return true
		}
	}
	return false
}
