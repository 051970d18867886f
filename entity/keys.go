package entity

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/printable"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservedPrefix starts the keys in a status bucket that belong to the runtime. No entity has such a key.
const ReservedPrefix = "_nagi"

// keyspace maps client-go's keys to those of NATS: "name" to "name", or "namespace/name" to "namespace.name". The first
// dot ends the namespace, so a name may contain dots and a namespace may not.
type keyspace struct {
	kind       string
	bucket     string
	namespaced bool
	maxLength  int
	filter     []string // tokens of the subject filter; nil matches all
}

func newKeyspace(cfg Config) keyspace {
	k := keyspace{kind: cfg.Kind, bucket: cfg.Bucket, namespaced: cfg.Namespaced, maxLength: cfg.MaxKeyLength}
	if cfg.Filter != ">" {
		k.filter = strings.Split(cfg.Filter, ".")
	}
	return k
}

// toNATS returns the NATS key of a client-go key.
func (k keyspace) toNATS(key string) (string, error) {
	natsKey := key
	if k.namespaced {
		namespace, name, ok := strings.Cut(key, "/")
		if !ok || namespace == "" || name == "" {
			return "", k.invalid(key, `want "namespace/name", since the bucket is namespaced`)
		}
		if strings.Contains(namespace, ".") {
			return "", k.invalid(key, "a namespace holds no dot, since the first dot of a NATS key ends it")
		}
		natsKey = namespace + "." + name
	}
	if strings.Contains(natsKey, "/") {
		return "", k.invalid(key, "a name holds no slash")
	}
	if err := k.check(natsKey); err != nil {
		return "", k.invalid(key, err.Error())
	}
	return natsKey, nil
}

// fromNATS returns the client-go key of a NATS key, and its parts.
func (k keyspace) fromNATS(natsKey string) (key, namespace, name string, err error) {
	if strings.Contains(natsKey, "/") {
		return "", "", "", k.invalid(natsKey, "a NATS key with a slash is the key of no entity")
	}
	if err := k.check(natsKey); err != nil {
		return "", "", "", k.invalid(natsKey, err.Error())
	}
	if !k.namespaced {
		return natsKey, "", natsKey, nil
	}
	namespace, name, ok := strings.Cut(natsKey, ".")
	if !ok {
		return "", "", "", k.invalid(natsKey, `want "namespace.name", since the bucket is namespaced`)
	}
	return namespace + "/" + name, namespace, name, nil
}

// display returns the client-go key if the NATS key has the right shape, else the NATS key. It quotes a NATS key that
// looks like the client-go key of another one, as "shop/home" looks like that of "shop.home". A NATS key may have any
// bytes and any length: what no entity can have is quoted and cut.
func (k keyspace) display(natsKey string) string {
	if key, _, _, err := k.fromNATS(natsKey); err == nil {
		return key
	}
	if _, err := k.toNATS(natsKey); err == nil {
		return strconv.Quote(natsKey)
	}
	return printable.Text(natsKey)
}

// CheckKey returns IsInvalid for a key that no entity of this client can have. It does not talk to the server.
func (c *Client[T]) CheckKey(key string) error {
	_, err := c.keys.toNATS(key)
	return err
}

// CheckKey is CheckKey of a client that was made with c, before there is one. It also says what is wrong with c.
func (c Config) CheckKey(key string) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return err
	}
	_, err := newKeyspace(c).toNATS(key)
	return err
}

// of returns the client-go key that obj's metadata give.
func (k keyspace) of(obj metav1.Object) (string, error) {
	if obj.GetName() == "" {
		return "", k.invalid("", "metadata.name is empty")
	}
	if !k.namespaced {
		if obj.GetNamespace() != "" {
			return "", k.invalid(obj.GetNamespace()+"/"+obj.GetName(),
				"metadata.namespace is set, and the bucket is not namespaced")
		}
		return obj.GetName(), nil
	}
	return obj.GetNamespace() + "/" + obj.GetName(), nil
}

// check checks a NATS key against the server's grammar, our limits and the filter.
func (k keyspace) check(natsKey string) error {
	switch {
	case natsKey == "":
		return fmt.Errorf("the key is empty")
	case len(natsKey) > k.maxLength:
		return fmt.Errorf("the key has %d bytes, at most %d are taken (Config.MaxKeyLength)",
			len(natsKey), k.maxLength)
	case natsKey[0] == '.' || natsKey[len(natsKey)-1] == '.' || strings.Contains(natsKey, ".."):
		return fmt.Errorf("a key has no leading, trailing or double dot")
	case strings.HasPrefix(natsKey, ReservedPrefix):
		return fmt.Errorf("keys that start with %q are reserved", ReservedPrefix)
	}
	for i := range len(natsKey) {
		if !isKeyByte(natsKey[i]) { // all before it are ASCII, so a character begins here
			return fmt.Errorf("%s, only letters, digits, '-', '_', '=' and '.' are allowed", notInAKey(natsKey[i:]))
		}
	}
	if !k.matches(natsKey) {
		return fmt.Errorf("the key is outside of Config.Filter %q", strings.Join(k.filter, "."))
	}
	return nil
}

// notInAKey names the first character of rest, as who wrote it knows it.
func notInAKey(rest string) string {
	c, size := utf8.DecodeRuneInString(rest)
	if c == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte %#x is no UTF-8", rest[0])
	}
	return fmt.Sprintf("character %q is not allowed", c)
}

func isKeyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '_' || c == '=' || c == '.'
}

// matches reports whether a NATS key matches the filter.
func (k keyspace) matches(natsKey string) bool {
	if k.filter == nil {
		return true
	}
	rest, more := natsKey, true
	for _, token := range k.filter {
		if !more {
			return false
		}
		if token == ">" {
			return true
		}
		var part string
		part, rest, more = strings.Cut(rest, ".")
		if token != "*" && token != part {
			return false
		}
	}
	return !more
}

// invalid is an IsInvalid error about a key.
func (k keyspace) invalid(key, why string) error {
	return newInvalid(k.kind, k.bucket, key, "metadata.name", why)
}
