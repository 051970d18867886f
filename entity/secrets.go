package entity

import (
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// secretsOf returns the secret fields of the documents of a type: those with a tag, and Config.SecretFields.
func secretsOf(elem reflect.Type, cfg Config) (*jsonshape.Secrets, error) {
	if elem == reflect.TypeFor[unstructured.Unstructured]() {
		elem = nil
	}
	var fields *jsonshape.Secrets
	var err error
	if elem != nil {
		if fields, err = jsonshape.SecretsOf(elem); err != nil {
			return nil, fmt.Errorf("entity: kind %s: %w", cfg.Kind, err)
		}
	}
	if fields, err = fields.With(cfg.SecretFields, elem); err != nil {
		return nil, fmt.Errorf("entity: Config.SecretFields of kind %s: %w", cfg.Kind, err)
	}
	for _, member := range []string{"kind", "apiVersion", "metadata", "status"} {
		if fields.Has(member) {
			return nil, fmt.Errorf("entity: kind %s has a secret field in %q: only what users write elsewhere in a "+
				"document, as in its spec, can be left out of records; use another type there, or another path",
				cfg.Kind, member)
		}
	}
	return fields, nil
}

// told is the text of an error of encoding. Libraries, and methods of users' types, quote values; where fields are
// secret, nothing is told.
func (c *codec[T]) told(err error) string {
	if c.secrets == nil {
		return err.Error()
	}
	return "something in it is wrong; more is not told, because the kind has secret fields"
}
