package entity

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type secretSpec struct {
	Password string `json:"password" nagi:"secret"`
	Pin      int    `json:"pin" nagi:"secret"`
	Note     string `json:"note"`
}

func TestSecretFieldsThatCannotBeLeftOutAreRefused(t *testing.T) {
	for path, says := range map[string]string{
		"spec.pasword":         `is it "password"?`,
		"status.note":          `a secret field in "status"`,
		"metadata.annotations": `a secret field in "metadata"`,
	} {
		cfg := Config{Kind: "K", Bucket: "b", SecretFields: []string{path}}.withDefaults()
		_, err := newCodec[*Object[secretSpec, benchmarkSpec]](cfg, newKeyspace(cfg))
		if path == "status.note" {
			_, err = newCodec[*Object[secretSpec, struct {
				Note string `json:"note"`
			}]](cfg, newKeyspace(cfg))
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	if _, err := newCodec[*Object[struct{}, secretSpec]](cfg, newKeyspace(cfg)); err == nil ||
		!strings.Contains(err.Error(), `a secret field in "status"`) {
		t.Error(err)
	}
}

func TestErrorsAboutDocumentsTellNoSecret(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*Object[secretSpec, struct{}]](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	cfg.SecretFields = []string{"spec.password"}
	u, err := newCodec[*unstructured.Unstructured](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{
		`s3cr3t`, `{"spec":{"password":{"s3cr3t":1}}}`, `{"spec":{"pin":"s3cr3t"}}`, `{"spec":{"pin":7373737373737373737373}}`,
		`{"spec":{"password":"s3cr3t}}`, `{"spec":{"password":s3cr3t}}`,
	} {
		_, err := c.decode("a", 1, []byte(document))
		if err == nil || strings.Contains(err.Error(), "3cr3t") || strings.Contains(err.Error(), "7373") {
			t.Errorf("%s: %v", document, err)
		}
		if strings.HasPrefix(document, "{") && !strings.Contains(err.Error(), " byte") {
			t.Errorf("%s: it is not told where: %v", document, err)
		}
		if _, err := u.decode("a", 1, []byte(document)); err != nil && strings.Contains(err.Error(), "3cr3t") {
			t.Errorf("%s: %v", document, err)
		}
	}
}

// safeLock holds what its type does not tell.
type safeLock struct{ held any }

func (l safeLock) MarshalJSON() ([]byte, error) { return json.Marshal(l.held) }

func (l *safeLock) UnmarshalJSON(data []byte) error {
	held := &secretSpec{}
	l.held = held
	return json.Unmarshal(data, held)
}

// TestADocumentThatIsDecodedIntoInterfacesMayLackSecrets: then it is not restored from its record.
func TestADocumentThatIsDecodedIntoInterfacesMayLackSecrets(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	type lockSpec struct {
		Lock *safeLock      `json:"lock,omitempty"`
		Free map[string]any `json:"free,omitempty"`
	}
	c, err := newCodec[*Object[lockSpec, struct{}]](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	for document, may := range map[string]bool{
		`{"spec":{"lock":{"note":"n"}}}`: true, `{"spec":{"lock":7}}`: true, `{"spec":{"free":{"a":[1]}}}`: false,
	} {
		if c.mayLack([]byte(document)) != may {
			t.Errorf("%s may lack secrets: %v", document, !may)
		}
	}
	free, err := newCodec[*Object[map[string]any, struct{}]](cfg, newKeyspace(cfg))
	if err != nil || free.holds {
		t.Errorf("each free-form member is looked at (%v)", err)
	}
}
