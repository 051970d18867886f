package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Bucket is the KV bucket of the registry.
	Bucket = entity.RegistryBucket
	// SchemaVersion is the Entry.SchemaVersion that this package writes.
	SchemaVersion = 1
)

// Entry is what the registry knows of one kind. Its key is [Key].
type Entry struct {
	// SchemaVersion is the shape of the entry. This package writes SchemaVersion, and leaves alone what is newer.
	SchemaVersion int `json:"schemaVersion"`
	// Kind and APIVersion are those of the documents. APIVersion may be "".
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion,omitempty"`
	// Bucket holds the documents.
	Bucket string `json:"bucket"`
	// StatusBucket holds their records, as DescribedBy keeps them; "" if there are none. Each controller has its own.
	StatusBucket string `json:"statusBucket,omitempty"`
	// Namespaced says that keys are "<namespace>.<name>".
	Namespaced bool `json:"namespaced"`
	// DescribedBy names the controller that said what apiVersion, statusBucket, schema, secretFields and columns are:
	// the first that published, until its part is gone. A controller with another name and the same status bucket is
	// the same one, renamed, and takes its place. One that is not there, as its status bucket shows, describes nothing:
	// see Publish.
	DescribedBy string `json:"describedBy"`
	// Schema is the JSON Schema (draft 2020-12) of a document, with the status that a record holds. It is nil for kinds
	// that the controller itself knows at run time only.
	Schema json.RawMessage `json:"schema,omitempty"`
	// SecretFields are entity.Config.SecretFields: paths of members that must not be shown. The schema marks them too,
	// with writeOnly and "x-nagi-secret", and so it does the fields with the tag `nagi:"secret"`.
	SecretFields []string `json:"secretFields,omitempty"`
	// Columns are what a list of the documents shows beside their keys.
	Columns []Column `json:"columns,omitempty"`
	// Controllers are those that look after documents of the kind, in the order of their names.
	Controllers []Controller `json:"controllers"`
}

// Controller is what one controller says of itself, and of what it does for documents of the kind. Name and
// StatusBucket tell it from others.
type Controller struct {
	// Name is that of controller.New.
	Name string `json:"name"`
	// StatusBucket is where it keeps its records; "" if it has none.
	StatusBucket string `json:"statusBucket,omitempty"`
	// Filter is entity.Config.Filter if the controller looks after a part of the bucket.
	Filter string `json:"filter,omitempty"`
	// Instance is the id of its installation (see controller.Controller.Instance).
	Instance string `json:"instance,omitempty"`
	// Version is that of its binary; "" if it is unknown.
	Version string `json:"version,omitempty"`
	// Since is when this version was published first, in seconds and UTC.
	Since time.Time `json:"since"`
	// Owns is what it makes for a document, and Watches what it reads.
	Owns    []Resource `json:"owns,omitempty"`
	Watches []Resource `json:"watches,omitempty"`
	// Shards is how its replicas share the keys; nil where one works at a time (see controller.WithShards).
	Shards *Shards `json:"shards,omitempty"`
	// Schema is what the controller says a document looks like, where that is not what Entry.Schema says.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Shards is how the replicas of a controller share the keys. The one that leads publishes it.
type Shards struct {
	// Slots is into how many slots the keys are divided.
	Slots int `json:"slots"`
	// Members are the replicas that share them, in the order of their names. They are written once they have been
	// others for half a minute, and never because of what they do. So they tell who shares the keys, and not who is up
	// at this moment: members that all end are named until others come. Who is there now, with how many slots, says the
	// verb "stats" of the services API, and so does `nagi top`. There are none while they are not known yet.
	Members []Member `json:"members,omitempty"`
	// More is how many other members there are, of more than a hundred.
	More int `json:"more,omitempty"`
	// Since is when that was found to be so, in seconds and UTC.
	Since time.Time `json:"since"`
}

// Member is one of them.
type Member struct {
	// Name is that of controller.WithMember, or of its host.
	Name string `json:"name"`
	// Weight is how many slots it is to have, in proportion to that of the others.
	Weight int `json:"weight"`
}

// Places of resources.
const (
	InNATS       = "nats"
	InKubernetes = "kubernetes"
	InExternal   = "external"
)

// Resource is a kind of things that a controller owns or watches.
type Resource struct {
	// In says where they are: InNATS, InKubernetes or InExternal.
	In string `json:"in"`
	// Kind is that of documents in NATS, and that of the client of an API.
	Kind string `json:"kind,omitempty"`
	// APIVersion, Bucket and StatusBucket are for documents in NATS.
	APIVersion   string `json:"apiVersion,omitempty"`
	Bucket       string `json:"bucket,omitempty"`
	StatusBucket string `json:"statusBucket,omitempty"`
	// Group, Version and Resource are for objects in Kubernetes. Where the controller does not know them there is a
	// Name instead, which is for people.
	Group    string `json:"group,omitempty"`
	Version  string `json:"version,omitempty"`
	Resource string `json:"resource,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Column is one of a list of documents.
type Column struct {
	Name string `json:"name"`
	// Path is a JSONPath (RFC 9535) that begins with "$". It is applied to the document with three things put in: the
	// metadata has name, namespace and, as resourceVersion, the revision; status is that of the record; and record is
	// the whole record.
	Path string `json:"jsonPath"`
	// Type is "string", "integer", "number", "boolean" or "date". A date is shown as an age.
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	// Priority above 0 is for wide lists.
	Priority int `json:"priority,omitempty"`
}

// DefaultColumns are those of a kind for which no option says otherwise.
func DefaultColumns() []Column {
	const reconciled = `$.record.conditions[?(@.type=="Reconciled")].`
	return []Column{
		{Name: "Reconciled", Path: reconciled + "status", Type: "string", Description: "True, or False"},
		{Name: "Phase", Path: "$.record.phase", Type: "string", Description: "what the controller does about it"},
		{Name: "Revision", Path: "$.metadata.resourceVersion", Type: "integer", Description: "of the document"},
		{Name: "Age", Path: "$.record.firstSeen", Type: "date", Description: "since a controller saw it first"},
		{Name: "Message", Path: reconciled + "message", Type: "string", Description: "why it is False", Priority: 1},
	}
}

var columnTypes = map[string]bool{"string": true, "integer": true, "number": true, "boolean": true, "date": true}

func (c Column) check() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("column %q has no name", c.Path)
	case !strings.HasPrefix(c.Path, "$"):
		return fmt.Errorf("column %q has the path %q: a JSONPath begins with $, as \"$.spec.pages\"", c.Name, c.Path)
	case !columnTypes[c.Type]:
		return fmt.Errorf("column %q has the type %q: it is string, integer, number, boolean or date", c.Name, c.Type)
	}
	return nil
}

// Key is the key of a kind in the bucket: the kind, and after a dot the group of its apiVersion if it has one, as in
// "Website" and "Website.example.com". Bytes of the kind other than letters, digits, '-' and '_' are written as '=' and
// two hexadecimal digits; so are those of a group that is no DNS name.
func Key(kind, apiVersion string) string {
	key := escaped(kind, "")
	group := ""
	if gv, err := schema.ParseGroupVersion(apiVersion); err == nil {
		group = gv.Group
	}
	if group == "" {
		return key
	}
	keep := "."
	if strings.HasPrefix(group, ".") || strings.HasSuffix(group, ".") || strings.Contains(group, "..") {
		keep = ""
	}
	return key + "." + escaped(group, keep)
}

func escaped(text, keep string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_',
			strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
