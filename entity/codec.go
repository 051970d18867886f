package entity

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// internalAnnotations are never written, and ignored in documents that have them. Earlier versions set the first one on
// objects that they had read. natsinformer sets the second one on the objects of delete handlers, and such an object
// may be created again. The others are of what is read, too.
var internalAnnotations = []string{
	"nagi/status-revision", "natsinformer.nagi/deletion", ExpiresAnnotation, DocumentHashAnnotation,
}

// codec turns documents into entities and back, with the semantics of encoding/json, but for whole numbers in
// interfaces: see jsonshape.Coder.
type codec[T IEntity] struct {
	elem         reflect.Type
	unstructured bool
	status       []int  // index of the field "status"; nil if T has none
	noStatus     []byte // the end of a document whose last member is a zero status; nil if unknown
	flat         bool   // metadata and status are in the struct itself, so a shallow copy has its own
	kind         string
	apiVersion   string
	keys         keyspace
	maxBytes     int                // of a document that is decoded
	secrets      *jsonshape.Secrets // nil: none
	holds        bool               // interfaces in a T may hold what has secrets, which secrets does not know
	members      *jsonshape.Members // what T knows of documents
	keeps        bool               // there are documents with members that T does not know
	strict       Strictness
	groupVersion schema.GroupVersion // of apiVersion
	unmarshal    func([]byte, any) error
	marshal      func(any) ([]byte, error)
}

func newCodec[T IEntity](cfg Config, keys keyspace) (*codec[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("entity: %v of kind %s is no pointer to a struct: name one, as in NewClient[*Website]",
			t, cfg.Kind)
	}
	c := &codec[T]{
		elem: t.Elem(), kind: cfg.Kind, apiVersion: cfg.APIVersion, keys: keys,
		maxBytes:  cmp.Or(cfg.MaxDocumentBytes, DefaultMaxDocumentBytes),
		unmarshal: anyJSON.Unmarshal, marshal: anyJSON.Marshal, members: jsonshape.AnyMembers(), strict: cfg.Strict,
	}
	c.groupVersion, _ = schema.ParseGroupVersion(cfg.APIVersion) // NewClient has checked it
	if t == reflect.TypeFor[*None]() {
		return nil, fmt.Errorf("entity: *entity.None of kind %s marks a slot that is not used: pass a nil client there",
			cfg.Kind)
	}
	var err error
	if c.secrets, err = secretsOf(c.elem, cfg); err != nil {
		return nil, err
	}
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		c.unstructured = true
		return c, nil
	}
	if err := checkDeepCopy(c.new()); err != nil {
		return nil, fmt.Errorf("entity: kind %s: %w", cfg.Kind, err)
	}
	if c.status, err = statusField(c.elem); err != nil {
		return nil, fmt.Errorf("entity: kind %s: %w", cfg.Kind, err)
	}
	c.holds = jsonshape.MayHoldSecrets(c.elem)
	coder := jsonshape.CoderFor(c.elem)
	c.unmarshal, c.marshal = coder.Unmarshal, coder.Marshal
	c.members = jsonshape.MembersOf(c.elem, jsonshape.MemberOptions{
		Ignored: []string{"status"},
		NotKept: map[string][]string{"": {"kind", "apiVersion"}, "metadata": zeroMetadata},
	})
	c.keeps = !c.members.KnowsAll()
	if c.status != nil {
		if zero, err := c.marshal(reflect.Zero(c.elem.FieldByIndex(c.status).Type).Interface()); err == nil {
			c.noStatus = slices.Concat([]byte(`,"status":`), zero, []byte("}"))
		}
	}
	meta, ok := c.elem.FieldByName("ObjectMeta")
	c.flat = ok && meta.Type == reflect.TypeFor[metav1.ObjectMeta]() && len(meta.Index) == 1 && len(c.status) <= 1
	return c, nil
}

// zeroMetadata are the members of metadata of which a zero in a document says nothing: the key and the stream say more,
// and most programs in Go have written a null as creationTimestamp.
var zeroMetadata = []string{
	"name", "namespace", "resourceVersion", "generation", "deletionTimestamp", "creationTimestamp",
}

// anyJSON is for documents of no type of the user's.
var anyJSON = jsonshape.AnyCoder()

// checkDeepCopy checks that copies of a T are T. Embedding Object would make them the embedded type and lose the rest.
func checkDeepCopy[T IEntity](zero T) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("DeepCopyObject of an empty %T panics: %v; embed TypeMeta and ObjectMeta by value",
				zero, p)
		}
	}()
	if out, ok := zero.DeepCopyObject().(T); !ok || reflect.ValueOf(out).IsNil() {
		return fmt.Errorf("DeepCopyObject of %T returns a %T: generate it with deepcopy-gen, "+
			"or use entity.Object itself and do not embed it", zero, zero.DeepCopyObject())
	}
	return nil
}

// statusField finds the field that a member "status" is decoded into; nil if there is none.
func statusField(t reflect.Type) ([]int, error) {
	m := jsonshape.Of(t).Lookup("status")
	switch {
	case m == nil:
		return nil, nil
	case m.ByPointer():
		return nil, fmt.Errorf("the field %s of %v, which has the status, is in a struct that %v embeds by a pointer: "+
			"embed it by value", m.Field.Name, m.In, t)
	}
	return m.Field.Index, nil
}

func (c *codec[T]) new() T { return reflect.New(c.elem).Interface().(T) }

func (c *codec[T]) hasStatus() bool { return c.unstructured || c.status != nil }

// decode makes an entity from the document of a NATS key. The key gives name and namespace. decode ignores the
// document's status, resourceVersion, generation and deletionTimestamp.
func (c *codec[T]) decode(natsKey string, revision uint64, data []byte) (T, error) {
	obj, _, err := c.read(natsKey, revision, data, false)
	return obj, err
}

// read is decode, and tells what is odd about the document if looks says so. Then it refuses what Config.Strict does;
// odd is told even so.
func (c *codec[T]) read(natsKey string, revision uint64, data []byte, looks bool) (_ T, odd *oddity, err error) {
	var none T
	key, namespace, name, err := c.keys.fromNATS(natsKey)
	if err != nil {
		return none, nil, err
	}
	obj := c.new()
	if err := c.parse(data, obj); err != nil {
		return none, nil, newInvalidDocument(c.kind, c.keys.bucket, key, err)
	}
	if got := obj.GetName(); got != "" && got != name {
		return none, nil, newInvalidDocument(c.kind, c.keys.bucket, key, contradicted("metadata.name", name))
	}
	if got := obj.GetNamespace(); got != "" && got != namespace {
		return none, nil, newInvalidDocument(c.kind, c.keys.bucket, key, contradicted("metadata.namespace", namespace))
	}
	if looks {
		if odd = c.look(key, data, obj); odd != nil && odd.refusal != nil {
			return none, odd, odd.refusal
		}
	}
	c.clean(obj)
	c.stamp(obj, namespace, name, revision)
	return obj, odd, nil
}

// contradicted is about metadata that says something else than the key.
func contradicted(path, key string) error {
	return &flaw{path: path, why: fmt.Sprintf(
		"it is another one than that of the key, %q: leave it out of the document, or make them equal", key)}
}

// parse decodes data into obj. Its errors hold nothing of data, which may have secrets.
func (c *codec[T]) parse(data []byte, obj T) error {
	if len(data) > c.maxBytes {
		return fmt.Errorf("it has %d bytes, and at most %d are read: make it smaller, or raise "+
			"Config.MaxDocumentBytes of the client that reads it", len(data), c.maxBytes)
	}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return noObject(data)
	}
	if err := checkDepth(data); err != nil {
		return err
	}
	if !c.unstructured {
		if err := c.unmarshal(data, obj); err != nil {
			return whyUndecodable(data, c.elem, err)
		}
		return nil
	}
	u := any(obj).(*unstructured.Unstructured)
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return whyUndecodable(data, reflect.TypeFor[any](), err)
	}
	return checkUnstructuredMeta(u.Object)
}

// checkUnstructuredMeta refuses metadata of the wrong type, which unstructured's accessors would treat as absent.
func checkUnstructuredMeta(content map[string]any) error {
	for _, field := range []string{"kind", "apiVersion"} {
		if _, _, err := unstructured.NestedString(content, field); err != nil && content[field] != nil {
			return &flaw{path: field, why: "it is no string"}
		}
	}
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		if content["metadata"] != nil {
			return &flaw{path: "metadata", why: "it is no JSON object"}
		}
		delete(content, "metadata")
		return nil
	}
	for _, field := range []string{"name", "namespace"} {
		if _, _, err := unstructured.NestedString(meta, field); err != nil && meta[field] != nil {
			return &flaw{path: "metadata." + field, why: "it is no string"}
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(meta, field); err != nil && meta[field] != nil {
			return &flaw{path: "metadata." + field, why: "it is no JSON object of strings"}
		}
	}
	return nil
}

// clean removes what a document must not contain.
func (c *codec[T]) clean(obj T) {
	c.clearStatus(obj)
	unmark(obj, c.kind)
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	if obj.GetDeletionTimestamp() != nil || c.unstructured {
		obj.SetDeletionTimestamp(nil)
	}
	annotations := obj.GetAnnotations()
	for _, name := range internalAnnotations {
		if _, ok := annotations[name]; ok {
			if delete(annotations, name); len(annotations) == 0 {
				annotations = nil
			}
			obj.SetAnnotations(annotations)
		}
	}
}

// stamp sets what the key and the revision say, and a missing kind and apiVersion.
func (c *codec[T]) stamp(obj T, namespace, name string, revision uint64) {
	obj.SetName(name)
	obj.SetNamespace(namespace)
	setRevision(obj, revision)
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind != "" && (gvk.Version != "" || c.apiVersion == "") {
		return
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		if gvk.Kind == "" {
			u.SetKind(c.kind)
		}
		if u.GetAPIVersion() == "" && c.apiVersion != "" {
			u.SetAPIVersion(c.apiVersion)
		}
		return
	}
	if gvk.Kind == "" {
		gvk.Kind = c.kind
	}
	if gvk.Version == "" && c.apiVersion != "" {
		typed := metav1.TypeMeta{APIVersion: c.apiVersion, Kind: gvk.Kind}
		gvk = typed.GroupVersionKind()
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}

func setRevision(obj metav1.Object, revision uint64) {
	obj.SetResourceVersion(strconv.FormatUint(revision, 10))
	obj.SetGeneration(int64(revision))
}

// encode makes the document of obj for a key, with only what the user may set, and returns the copy that it encoded.
func (c *codec[T]) encode(obj T, key string) (document []byte, sent T, err error) {
	sent = mergediff.CopyOf(obj)
	c.clean(sent)
	document, err = c.documentOf(sent, key)
	return document, sent, err
}

// encodeOnly is encode for a caller that does not need the copy.
func (c *codec[T]) encodeOnly(obj T, key string) (document []byte, err error) {
	if !c.flat || hasInternalAnnotation(obj) {
		document, _, err = c.encode(obj, key)
		return document, err
	}
	shallow := reflect.New(c.elem)
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	clean := shallow.Interface().(T)
	c.clean(clean)
	return c.documentOf(clean, key)
}

func hasInternalAnnotation(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	return slices.ContainsFunc(internalAnnotations, func(name string) bool { _, ok := annotations[name]; return ok })
}

// documentOf encodes a clean object.
func (c *codec[T]) documentOf(clean T, key string) (document []byte, err error) {
	if u, ok := any(clean).(*unstructured.Unstructured); ok {
		document, err = anyJSON.Marshal(u.Object)
	} else if document, err = c.marshal(clean); err == nil && c.status != nil {
		document, err = c.withoutStatus(document)
	}
	if err != nil {
		err = errors.New(c.told(err))
	} else {
		err = checkDepth(document)
	}
	if err != nil {
		return nil, newInvalid(c.kind, c.keys.bucket, key, "document", "it cannot be encoded: "+err.Error())
	}
	return document, nil
}

// withoutStatus removes a zero status, which would be written as {} without omitzero. Nearly always it is the last
// member of the document.
func (c *codec[T]) withoutStatus(document []byte) ([]byte, error) {
	if shorter, ok := bytes.CutSuffix(document, c.noStatus); ok && len(c.noStatus) > 0 {
		return append(shorter, '}'), nil
	}
	if !bytes.Contains(document, []byte(`"status"`)) {
		return document, nil
	}
	return jsonshape.DropMember(document, "status")
}
