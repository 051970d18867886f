package kinds

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nagi-runtime/nagi/registry"
)

func TestHiddenSecretsKeepTheirValues(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", SecretFields: []string{"spec.password", "spec.users[].token", "spec.keys[]"}}}
	const current = `{"spec":{"password":"s","host":"h","users":[{"n":"a","token":"ta"},{"n":"b","token":"tb"}],"keys":["k1","k2"]}}`
	for document, want := range map[string]string{
		`{"spec":{"password":"(secret)","host":"i"}}`:                                    `{"spec":{"host":"i","password":"s"}}`,
		`{"spec":{"password":"new"}}`:                                                    `{"spec":{"password":"new"}}`,
		`{"spec":{"host":"(secret)"}}`:                                                   `{"spec":{"host":"(secret)"}}`,
		`{"spec":{"users":[{"n":"b","token":"(secret)"}]}}`:                              `{"spec":{"users":[{"n":"b","token":"tb"}]}}`,
		`{"spec":{"users":[{"n":"x","token":"(secret)"},{"n":"b","token":"(secret)"}]}}`: `{"spec":{"users":[{"n":"x","token":"ta"},{"n":"b","token":"tb"}]}}`,
		`{"spec":{"users":[{"n":"b","token":"(secret)"},{"n":"x","token":"(secret)"}]}}`: "spec.users[1].token",
		`{"spec":{"users":[{"n":"x","token":"(secret)"}]}}`:                              "spec.users[0].token",
		`{"spec":{"keys":["(secret)","(secret)"]}}`:                                      `{"spec":{"keys":["k1","k2"]}}`,
		`{"spec":{"keys":["(secret)","(secret)","k3"]}}`:                                 `{"spec":{"keys":["k1","k2","k3"]}}`,
		`{"spec":{"other":1}}`:                                                           `{"spec":{"other":1}}`,
	} {
		d, _ := decodeJSON([]byte(document))
		c, _ := decodeJSON([]byte(current))
		err := k.KeepHidden(d, c)
		if none, ok := errors.AsType[*NotKept](err); ok {
			if none.Path != want {
				t.Errorf("%s: %v, want %s", document, err, want)
			}
			continue
		}
		got, _ := json.Marshal(d)
		if string(got) != want {
			t.Errorf("%s: %s, want %s", document, got, want)
		}
	}
	d, _ := decodeJSON([]byte(`{"spec":{"password":"(secret)"}}`))
	if err := k.KeepHidden(d, nil); err == nil {
		t.Error("a secret is kept that there is not")
	}
}
