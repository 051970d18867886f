package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
)

// fileFlags name the files that a command reads.
type fileFlags struct {
	names     []string
	recursive bool
	namespace string
	checking
}

func (f *fileFlags) registerFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.names, "filename", "f", nil,
		"file of YAML or JSON, folder of them, or - for the standard input; may be given more than once")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "read the folders below a folder, too")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the documents that name none")
}

// item is a manifest, and where it goes.
type item struct {
	*manifests.Manifest
	target
	// document is what the manifest says beside where it goes, its status, and metadata without meaning in a document.
	document map[string]any
	revision uint64 // metadata.resourceVersion; 0 if the manifest has none
}

// read reads the manifests of the files.
func (f *fileFlags) read(t *tool) ([]*manifests.Manifest, error) {
	if len(f.names) == 0 {
		return nil, usage(errors.New("a file is needed: -f FILE, -f FOLDER, or -f - for the standard input"))
	}
	all, err := manifests.Read(f.names, f.recursive, t.In)
	if err == nil && len(all) == 0 {
		err = errors.New("there is no document in what -f names")
	}
	return all, usage(err)
}

// items reads the files, finds out where each document goes, and checks all of them.
func (s *session) items(ctx context.Context, f *fileFlags) ([]*item, error) {
	read, err := f.read(s.t)
	if err != nil {
		return nil, err
	}
	var all []*item
	var wrong []string
	at := map[string]*item{}
	for _, m := range read {
		it, err := s.item(ctx, m, f.namespace)
		if err != nil {
			if codeOf(ctx, err) != CodeUsage && codeOf(ctx, err) != CodeNotFound {
				return nil, err
			}
			wrong = append(wrong, fmt.Sprintf("%s: %v", m.Where(), err))
			continue
		}
		if other := at[it.String()]; other != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s stands in %s, too", m.Where(), it.String(), other.Where()))
		}
		at[it.String()] = it
		all = append(all, it)
	}
	if !f.noValidate {
		more, err := violations(all)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, more...)
		isWrong := f.strict || len(wrong) > 0
		for _, it := range all {
			unknown := it.kind.Unknown(it.document)
			wrong = append(wrong, s.t.unknownMembers(it.kind, unknown, isWrong, it.At)...)
		}
	}
	return all, s.t.invalid(wrong)
}

// invalid prints what is wrong with documents, a line each, and returns the error; nil if nothing is.
func (t *tool) invalid(wrong []string) error {
	for _, line := range wrong {
		t.Notef("%s\n", printable.Message(line))
	}
	if len(wrong) == 0 {
		return nil
	}
	return &coded{code: CodeUsage, err: errors.New("invalid"), silent: true}
}

// violations are what the schemas of the kinds do not allow.
func violations(all []*item) (wrong []string, err error) {
	schemas := map[*registry.Entry]*kinds.Schema{}
	for _, it := range all {
		schema, compiled := schemas[it.kind.Entry]
		if !compiled {
			if schema, err = it.kind.CompileSchema(); err != nil {
				return nil, fmt.Errorf("%w: --no-validate goes without", err)
			}
			schemas[it.kind.Entry] = schema
		}
		found, err := check(schema, it.document)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			wrong = append(wrong, it.At(v.Path)+": "+v.String())
		}
	}
	return wrong, nil
}

// check checks a document without the secrets that are not shown: they keep values that were valid.
func check(schema *kinds.Schema, document map[string]any) ([]kinds.Violation, error) {
	text, err := manifests.JSON(withoutHidden(document))
	if err != nil {
		return nil, err
	}
	return schema.Check(text)
}

func withoutHidden(v any) any {
	switch v := v.(type) {
	case map[string]any:
		rest := make(map[string]any, len(v))
		for name, member := range v {
			if member != kinds.Hidden {
				rest[name] = withoutHidden(member)
			}
		}
		return rest
	case []any:
		rest := make([]any, len(v))
		for i := range v {
			rest[i] = withoutHidden(v[i])
		}
		return rest
	}
	return v
}

// item finds out where a manifest goes.
func (s *session) item(ctx context.Context, m *manifests.Manifest, namespace string) (*item, error) {
	it := &item{Manifest: m, document: documentOf(m.Document)}
	var err error
	if it.kind, err = s.kindOf(ctx, m); err != nil {
		return nil, err
	}
	if m.Namespace != "" {
		if namespace != "" && namespace != m.Namespace {
			return nil, usage(fmt.Errorf("metadata.namespace is %s, and -n says %s",
				printable.Quote(m.Namespace), printable.Quote(namespace)))
		}
		namespace = m.Namespace
	}
	switch {
	case m.Name == "":
		return nil, usage(errors.New("metadata.name is missing"))
	case it.kind.Namespaced && namespace == "":
		return nil, usage(fmt.Errorf("%s have namespaces: write metadata.namespace, or give -n",
			printable.Text(it.kind.Bucket)))
	case !it.kind.Namespaced && m.Namespace != "":
		return nil, usage(fmt.Errorf("%s have no namespaces: leave metadata.namespace out",
			printable.Text(it.kind.Bucket)))
	}
	it.key = m.Name
	if it.kind.Namespaced {
		it.key = namespace + "/" + m.Name
	}
	if it.revision, err = revisionOf(m.Document); err != nil {
		return nil, usage(err)
	}
	cfg := it.kind.Config()
	return it, usage(cfg.CheckKey(it.key))
}

// revisionOf is the revision that a manifest names, as what nagi get prints; 0 if it names none.
func revisionOf(manifest map[string]any) (uint64, error) {
	v := object(manifest["metadata"])["resourceVersion"]
	if v == nil || v == "" {
		return 0, nil
	}
	text, isText := v.(string)
	revision, err := strconv.ParseUint(text, 10, 64)
	if !isText || err != nil || revision == 0 {
		return 0, fmt.Errorf("metadata.resourceVersion is %s: it is the number of a revision in quotes, as nagi get "+
			"-o yaml prints it; leave it out to write whatever is there", printable.Quote(fmt.Sprint(v)))
	}
	return revision, nil
}

// kindOf is the kind of a manifest. What a plain bucket has may call itself as it likes.
func (s *session) kindOf(ctx context.Context, m *manifests.Manifest) (k *kinds.Kind, err error) {
	switch {
	case s.t.plain.Bucket != "":
		k, err = s.ofBucket(ctx)
	case m.Kind == "":
		return nil, usage(errors.New("kind is missing: write it, or name the bucket with --bucket"))
	default:
		k, err = s.kind(ctx, registry.Key(m.Kind, m.APIVersion))
	}
	if err != nil || !k.Registered {
		return k, err
	}
	if s.t.plain.Bucket != "" && m.Kind != "" && m.Kind != k.Kind {
		return nil, usage(fmt.Errorf("kind is %s, and bucket %s has %s", printable.Quote(m.Kind),
			printable.Text(k.Bucket), printable.Text(k.Name())))
	}
	if m.APIVersion != "" && m.APIVersion != k.APIVersion {
		return nil, usage(fmt.Errorf("apiVersion is %s, and that of %s is %s", printable.Quote(m.APIVersion),
			printable.Text(k.Name()), printable.Quote(k.APIVersion)))
	}
	return k, nil
}

// meaningless are the members of metadata that say where a document goes, or have no meaning in one.
var meaningless = []string{
	"name", "namespace", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName",
	"generation", "managedFields", "resourceVersion", "selfLink", "uid",
}

// documentOf is what a manifest says of the document itself.
func documentOf(manifest map[string]any) map[string]any {
	document := maps.Clone(manifest)
	for _, name := range []string{"kind", "apiVersion", "status", "record"} {
		delete(document, name)
	}
	meta, ok := document["metadata"].(map[string]any)
	if !ok {
		delete(document, "metadata")
		return document
	}
	meta = maps.Clone(meta)
	maps.DeleteFunc(meta, func(name string, _ any) bool { return slices.Contains(meaningless, name) })
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, lastApplied)
		delete(annotations, entity.ExpiresAnnotation) // get shows it, and no document has it
		if meta["annotations"] = annotations; len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	if document["metadata"] = meta; len(meta) == 0 {
		delete(document, "metadata")
	}
	return document
}

// each runs do for each of n documents, never stopping within one, and goes on after a document that failed, unless
// nobody answers. The error says how many failed; what is wrong with each is printed.
func (t *tool) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	failed, first := 0, error(nil)
	for i := range n {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %d of %d documents are done, and nothing is half done", i-failed, n)
		}
		err := do(context.WithoutCancel(ctx), i)
		if err == nil {
			continue
		}
		if n == 1 {
			return err
		}
		t.Notef("nagi: %s\n", printable.Message(strings.TrimSpace(err.Error())))
		if failed++; first == nil {
			first = err
		}
		if code := codeOf(ctx, err); code == CodeUnreachable {
			return withCode(code, fmt.Errorf("stopped at document %d of %d: try again", i+1, n))
		}
	}
	if failed == 0 {
		return nil
	}
	return withCode(codeOf(ctx, first), fmt.Errorf("%d of %d documents failed", failed, n))
}
