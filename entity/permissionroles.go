package entity

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Permissions returns what a user of NATS needs for a role: enough for all that the role does, and nothing more. It
// talks to no server. The error says what is wrong with cfg or the options.
//
// The set is about an account. Within it, users with rights on the JetStream API or on a bucket are not confined as
// strictly as the list suggests; docs/security.md says what they can do, and how an account confines them.
func Permissions(cfg Config, role Role, opts ...PermissionOption) (PermissionSet, error) {
	cfg = cfg.withDefaults()
	if cfg.Kind == "" {
		cfg.Kind = "entity" // the permissions do not depend on it
	}
	o := permissionOptions{inbox: "_INBOX_" + string(role), api: defaultAPIPrefix}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&o))
	}
	errs = append(errs, cfg.validate(), o.check(cfg, role))
	if err := errors.Join(errs...); err != nil {
		return PermissionSet{}, fmt.Errorf("permissions of a %s of bucket %q: %w", role, cfg.Bucket, err)
	}
	return PermissionSet{Publish: o.publish(cfg, role), Subscribe: []string{o.inbox + ".>"}}.Join(), nil
}

func (o *permissionOptions) check(cfg Config, role Role) error {
	switch role {
	case RoleWriter, RoleReader, RoleController, RoleOperator, RoleBootstrap:
	default:
		return fmt.Errorf("there is no role %q", role)
	}
	if _, mirrored := o.origins[cfg.Bucket]; mirrored && role == RoleWriter {
		return fmt.Errorf("MirrorOf(%q): a mirror takes no writes: ask for the writer of bucket %q",
			cfg.Bucket, o.origins[cfg.Bucket])
	}
	if _, mirrored := o.origins[cfg.StatusBucket]; mirrored && (role == RoleController || role == RoleOperator) {
		return fmt.Errorf("MirrorOf(%q): a %s writes the status bucket, and a mirror takes no writes: name another "+
			"StatusBucket", cfg.StatusBucket, role)
	}
	switch {
	case o.deletes && role != RoleReader && role != RoleController:
		return fmt.Errorf("WithConsumerDelete is for readers: a %s has no consumers", role)
	case o.terminal && (role == RoleController || role == RoleBootstrap):
		return fmt.Errorf("WithCommandLine is for writers, readers and operators: a %s is a program", role)
	case o.namespace == "":
		return nil
	case !cfg.Namespaced:
		return fmt.Errorf("InNamespace(%q): the bucket is not Namespaced", o.namespace)
	case !covers(cfg.Filter, o.keys(cfg)):
		return fmt.Errorf("InNamespace(%q) is outside of Config.Filter %q", o.namespace, cfg.Filter)
	case role != RoleWriter:
		return fmt.Errorf("InNamespace(%q) is for writers: NATS cannot confine a %s to a namespace, "+
			"see the set-up for tenants in docs/security.md", o.namespace, role)
	}
	return nil
}

func (o *permissionOptions) publish(cfg Config, role Role) []string {
	switch role {
	case RoleWriter:
		all := o.writes(cfg.Bucket, o.keys(cfg))
		if o.terminal {
			all = append(all, o.api+"STREAM.INFO.KV_"+cfg.Bucket)
		}
		return all
	case RoleReader:
		return append(o.reads(cfg.Bucket, cfg.Filter), o.ofStatus(cfg, func() []string {
			return o.reads(cfg.StatusBucket, cfg.Filter)
		})...)
	case RoleController:
		o.deletes = true
		return append(o.reads(cfg.Bucket, cfg.Filter), o.ofStatus(cfg, func() []string {
			status := append(o.reads(cfg.StatusBucket, cfg.Filter), o.reads(cfg.StatusBucket, reservedFilter)...)
			status = append(status, o.writes(cfg.StatusBucket, cfg.Filter)...)
			return append(status, o.writes(cfg.StatusBucket, reservedFilter)...)
		})...)
	case RoleOperator:
		all := o.looks(cfg.Bucket, cfg.Filter)
		if o.origins[cfg.Bucket] == "" {
			all = append(all, o.writes(cfg.Bucket, cfg.Filter)...)
		}
		return append(all, o.ofStatus(cfg, func() []string {
			return append(o.looks(cfg.StatusBucket, cfg.Filter), o.writes(cfg.StatusBucket, releaseKey)...)
		})...)
	default: // RoleBootstrap
		return append(o.creates(cfg.Bucket), o.ofStatus(cfg, func() []string { return o.creates(cfg.StatusBucket) })...)
	}
}

// releaseKey is record.KeyRelease of internal/record, which imports this package.
const releaseKey = ReservedPrefix + ".release"

func (o *permissionOptions) ofStatus(cfg Config, lines func() []string) []string {
	if !cfg.hasStatus() {
		return nil
	}
	return lines()
}

// keys is the filter of the keys that a writer may write.
func (o *permissionOptions) keys(cfg Config) string {
	first, rest, _ := strings.Cut(cfg.Filter, ".")
	switch {
	case o.namespace == "":
		return cfg.Filter
	case first == ">":
		return o.namespace + ".>"
	}
	return o.namespace + "." + rest // check refuses one that the filter does not match
}

// writes also has the subjects that a client with another API prefix publishes to.
func (o *permissionOptions) writes(bucket, keys string) []string {
	subject := subjectsPerBucket + bucket + "." + keys
	if o.api != defaultAPIPrefix {
		subject = o.api + subject
	}
	return []string{subject}
}

// gets is what live reads send.
func (o *permissionOptions) gets(bucket string) []string {
	return []string{o.api + "STREAM.INFO.KV_" + bucket, o.api + "STREAM.MSG.GET.KV_" + bucket}
}

// looks is what an operator reads: with live reads, and at the command line in every other way too.
func (o *permissionOptions) looks(bucket, keys string) []string {
	if o.terminal {
		return o.reads(bucket, keys)
	}
	return o.gets(bucket)
}

// reads is what live reads, lists and caches send. The server refuses a consumer with another filter than its subject
// has.
func (o *permissionOptions) reads(bucket, keys string) []string {
	at := subjectsPerBucket + cmp.Or(o.origins[bucket], bucket) + "."
	lines := append(o.gets(bucket),
		o.api+"CONSUMER.CREATE.KV_"+bucket+".*."+at+keys,
		o.api+"CONSUMER.MSG.NEXT.KV_"+bucket+".*")
	if o.deletes || o.terminal {
		lines = append(lines, o.api+"CONSUMER.DELETE.KV_"+bucket+".*")
	}
	if o.terminal { // reserved keys too, such as that of the lease
		direct := o.api + "DIRECT.GET.KV_" + bucket + "." + at
		lines = append(lines, direct+keys, direct+reservedFilter)
	}
	return lines
}

func (o *permissionOptions) creates(bucket string) []string {
	return []string{o.api + "STREAM.INFO.KV_" + bucket, o.api + "STREAM.CREATE.KV_" + bucket}
}
