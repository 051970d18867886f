package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var hostsSchema = json.RawMessage(`{
  "$defs": {
    "Host": {"type": "object", "required": ["name"], "description": "Host is one.", "properties": {
      "name": {"type": "string", "pattern": "^[a-z]+$"},
      "below": {"type": "array", "items": {"$ref": "#/$defs/Host"}}
    }}
  },
  "type": "object",
  "properties": {
    "spec": {"type": "object", "properties": {
      "hosts": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Host"}},
      "zones": {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Host"}, {"type": "null"}]}},
      "port": {"type": ["integer", "string"], "maximum": 9007199254740993, "default": 80},
      "key": {"type": "string", "x-nagi-secret": true, "description": "Key opens it."}
    }}
  }
}`)

func TestAFieldIsWhatTheSchemaSays(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", Schema: hostsSchema}}
	for path, want := range map[string]string{
		"spec":              "Object: hosts []Object; key string secret; port integer or string; zones map[string]Object",
		"spec.hosts":        "[]Object: below []Object; name string required",
		"spec.hosts[].name": "string: ",
		"spec.zones.below":  "[]Object: below []Object; name string required", // asked for by name, it is shown
		"spec.HOSTS.name":   "string: ",
	} {
		f, err := k.Field(strings.Split(path, "."), false)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var members []string
		for _, m := range f.Fields {
			members = append(members, fieldText(m))
		}
		if got := f.Type + ": " + strings.Join(members, "; "); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
		}
	}
	if _, err := k.Field([]string{"spec", "nosuch"}, false); !apierrors.IsNotFound(err) {
		t.Errorf("a member that there is not: %v", err)
	}
}

func fieldText(f Field) string {
	text := f.Name + " " + f.Type
	if f.Required {
		text += " required"
	}
	if f.Secret {
		text += " secret"
	}
	return text
}

func TestTypesInsideOfThemselvesEnd(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", Schema: hostsSchema}}
	f, err := k.Field(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	below := f.Fields[0].Fields[0].Fields[0] // spec.hosts.below
	if got := fmt.Sprintln(below.Path, below.Recurs, len(below.Fields)); got != "spec.hosts.below true 0\n" {
		t.Errorf("got %s", got)
	}
	port := f.Fields[0].Fields[2]
	if got := strings.Join(port.Rules, "; "); got != "default: 80; maximum: 9007199254740993" {
		t.Errorf("the rules are %s", got)
	}
}
