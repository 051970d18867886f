package entity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func Example_permissions() {
	cfg := entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true}
	writer, err := entity.Permissions(cfg, entity.RoleWriter,
		entity.InNamespace("ns1"), entity.WithInboxPrefix("_INBOX_alice")) // and nats.CustomInboxPrefix("_INBOX_alice")
	if err != nil {
		panic(err)
	}
	fmt.Print(writer.NATS())
	// Output:
	// permissions: {
	//   publish: { allow: [
	//     "$KV.sites.ns1.>"
	//   ] }
	//   subscribe: { allow: [
	//     "_INBOX_alice.>"
	//   ] }
	// }
}

// TestPermissionsRefuseWhatWouldGrantMore: text of others becomes a subject.
func TestPermissionsRefuseWhatWouldGrantMore(t *testing.T) {
	cfg := entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true}
	for name, test := range map[string]struct {
		cfg  entity.Config
		role entity.Role
		opts []entity.PermissionOption
	}{
		"namespace of wildcards":    {cfg, entity.RoleWriter, options(entity.InNamespace("*"))},
		"namespace of more tokens":  {cfg, entity.RoleWriter, options(entity.InNamespace("a.b"))},
		"no namespace":              {cfg, entity.RoleWriter, options(entity.InNamespace(""))},
		"namespace with a quote":    {cfg, entity.RoleWriter, options(entity.InNamespace(`a"`))},
		"inbox of everybody":        {cfg, entity.RoleWriter, options(entity.WithInboxPrefix(">"))},
		"inbox in a bucket":         {cfg, entity.RoleWriter, options(entity.WithInboxPrefix("$KV"))},
		"no inbox":                  {cfg, entity.RoleWriter, options(entity.WithInboxPrefix(""))},
		"reader of a namespace":     {cfg, entity.RoleReader, options(entity.InNamespace("ns1"))},
		"controller of a namespace": {cfg, entity.RoleController, options(entity.InNamespace("ns1"))},
		"writer who deletes":        {cfg, entity.RoleWriter, options(entity.WithConsumerDelete())},
		"unknown role":              {cfg, "root", nil},
		"bucket of wildcards":       {entity.Config{Kind: "Site", Bucket: "*"}, entity.RoleReader, nil},
		"filter":                    {entity.Config{Kind: "Site", Bucket: "b", Filter: "a b"}, entity.RoleReader, nil},
		"no namespaces": {entity.Config{Kind: "Site", Bucket: "b"}, entity.RoleWriter,
			options(entity.InNamespace("ns1"))},
		"outside of the filter": {entity.Config{Kind: "Site", Bucket: "b", Namespaced: true, Filter: "other.>"},
			entity.RoleWriter, options(entity.InNamespace("ns1"))},
	} {
		t.Run(name, func(t *testing.T) {
			if set, err := entity.Permissions(test.cfg, test.role, test.opts...); err == nil {
				t.Errorf("granted %v", set)
			}
		})
	}
}

func options(opts ...entity.PermissionOption) []entity.PermissionOption { return opts }

func TestPermissionsFollowFilterAndAPI(t *testing.T) {
	cfg := entity.Config{Kind: "Site", Bucket: "b", Namespaced: true, Filter: "*.front", StatusBucket: "-"}
	nc := &nats.Conn{}
	js, err := jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	set, err := entity.Permissions(cfg, entity.RoleWriter, entity.InNamespace("ns1"), entity.WithAPIOf(js))
	if err != nil || !slices.Equal(set.Publish, []string{"$JS.hub.API.$KV.b.ns1.front"}) {
		t.Errorf("a writer: %v, %v", set, err)
	}
	set, err = entity.Permissions(cfg, entity.RoleReader, entity.WithAPIOf(js))
	want := []string{
		"$JS.hub.API.CONSUMER.CREATE.KV_b.*.$KV.b.*.front", "$JS.hub.API.CONSUMER.MSG.NEXT.KV_b.*",
		"$JS.hub.API.STREAM.INFO.KV_b", "$JS.hub.API.STREAM.MSG.GET.KV_b",
	}
	if err != nil || !slices.Equal(set.Publish, want) {
		t.Errorf("a reader: %q, %v", set.Publish, err)
	}
	if !slices.Equal(set.Subscribe, []string{"_INBOX_reader.>"}) {
		t.Errorf("its inbox: %q", set.Subscribe)
	}
}

func TestJoinedPermissionsHaveNoLineTooMany(t *testing.T) {
	a := entity.PermissionSet{Publish: []string{"$KV.b.>", "x.*", "z"}, Subscribe: []string{"_INBOX_a.>"}}
	b := entity.PermissionSet{Publish: []string{"$KV.b.ns1.>", "x.y", "x.y.z", "x.>", "z"}, Subscribe: a.Subscribe}
	joined := a.Join(b)
	if want := []string{"$KV.b.>", "x.>", "z"}; !slices.Equal(joined.Publish, want) || len(joined.Subscribe) != 1 {
		t.Errorf("%v, want %q", joined, want)
	}
}

// TestNoPermissionIsADenialOfAll: for the server an empty list of what is allowed allows all.
func TestNoPermissionIsADenialOfAll(t *testing.T) {
	if text := (entity.PermissionSet{}).NATS(); strings.Count(text, `deny: [">"]`) != 2 {
		t.Error(text)
	}
}
