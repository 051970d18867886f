package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deleteHead is what goes with a document, as it was when the page was loaded: of another revision or number a delete
// is refused.
type deleteHead struct {
	KindName, KindPath, Key, Path string
	Token, Kind, KeyAsIs          string
	Revision                      uint64
	cascade
}

// cascade is what goes with a document when its controllers take it down.
type cascade struct {
	Count int     // documents: it, and those that it owns
	Goes  []going // mostHeld of those that it owns
	Stays bool    // what it owns stays
	// Beside is what else there is: outside of NATS, or not known to go. It is not counted.
	Beside []going
	Note   string
}

type going struct{ Name, Path, State, Note string }

func deletePath(kind, key string) string {
	return "/delete/" + url.PathEscape(kind) + "/" + url.PathEscape(key)
}

func (p *Page) showDelete(ctx context.Context, v *view, name, key string, live bool) error {
	if !p.cfg.Actions {
		return errReadOnly
	}
	kind, err := p.kind(ctx, name)
	if err != nil {
		return err
	}
	cfg := kind.Config()
	if err := cfg.CheckKey(key); err != nil {
		return err
	}
	v.Title, v.At = "Delete "+nameOf(kind, key)+"?", "kinds"
	if live {
		return nil // a form does not change under the hand that fills it in
	}
	d, err := p.read(ctx, kind, key)
	if err != nil {
		return err
	}
	goes, err := p.cascadeOf(ctx, kind, key)
	if err != nil {
		return err
	}
	v.Heading, v.Head = "deletehead", deleteHead{
		KindName: printable.Text(kind.Name()), KindPath: pathOf(kind.Name(), ""), Key: printable.Text(key),
		Path: pathOf(kind.Name(), key), Token: p.token, Kind: kind.Name(), KeyAsIs: key, Revision: d.Revision,
		cascade: goes,
	}
	return nil
}

// cascadeOf finds what goes with a document.
func (p *Page) cascadeOf(ctx context.Context, kind *kinds.Kind, key string) (c cascade, err error) {
	found, err := p.kinds(ctx)
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	b, link := p.builder(found), p.linkOf(found)
	root, err := b.Tree(ctx, kind, key)
	if err != nil {
		return c, err
	}
	goes, err := b.Cascade(ctx, []tree.Doomed{{Kind: kind, Key: key, Leaves: root.Leaves}}, b.Followed)
	if err != nil {
		return c, err
	}
	c = cascade{Count: 1 + len(goes.Goes), Stays: root.Leaves, Note: printable.Message(root.Note)}
	for _, one := range goes.Goes[:min(len(goes.Goes), mostHeld)] {
		c.Goes = append(c.Goes, goingOf(one.Node, link))
	}
	for _, one := range goes.MayStay[:min(len(goes.MayStay), mostHeld)] {
		c.Beside = append(c.Beside, goingOf(one.Node, link))
	}
	c.beside(root, link)
	return c, nil
}

func goingOf(n *tree.Node, link func(*tree.Node) string) going {
	return going{printable.Text(n.Argument()), link(n), printable.Text(n.State), printable.Message(n.Note)}
}

// beside adds what is outside of NATS, and what could not be looked at.
func (c *cascade) beside(n *tree.Node, link func(*tree.Node) string) {
	if n.Leaves {
		return
	}
	for _, child := range n.Owns {
		if (child.In != registry.InNATS || child.Key == "") && len(c.Beside) < mostHeld {
			c.Beside = append(c.Beside, goingOf(child, link))
		}
		if child.In == registry.InNATS {
			c.beside(child, link)
		}
	}
}

// More is how many are not listed.
func (c cascade) More() int { return c.Count - 1 - len(c.Goes) }

// delete deletes the document that a form names, at the revision and with the number of documents that it has shown. It
// returns where to go on: with an error, where to look again.
func (p *Page) delete(ctx context.Context, form url.Values) (next string, err error) {
	key := form.Get("key")
	kind, err := p.kind(ctx, form.Get("kind"))
	if err != nil {
		return "", err
	}
	cfg := kind.Config()
	if err := cfg.CheckKey(key); err != nil {
		return "", err
	}
	again := deletePath(kind.Name(), key)
	revision, err := strconv.ParseUint(form.Get("revision"), 10, 64)
	if err != nil || revision == 0 {
		return again, &failure{http.StatusBadRequest, "The form does not say which revision it has shown."}
	}
	count, err := strconv.Atoi(strings.TrimSpace(form.Get("count")))
	if err != nil || count < 1 {
		return again, errNoCount
	}
	goes, err := p.cascadeOf(ctx, kind, key)
	if err != nil {
		return again, err
	}
	if goes.Count != count {
		return again, &failure{http.StatusConflict, fmt.Sprintf("Nothing was deleted: %d was typed, and %s would go. "+
			"Look again.", count, documentsOf(goes.Count))}
	}
	if err := p.remove(ctx, kind, key, revision); err != nil {
		return again, err
	}
	return pathOf(kind.Name(), ""), nil
}

func documentsOf(n int) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
}

// remove deletes a document at a revision.
func (p *Page) remove(ctx context.Context, kind *kinds.Kind, key string, revision uint64) error {
	within, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	entry := *kind.Entry
	entry.StatusBucket = "" // its record is its controller's
	documents, err := (&kinds.Kind{Entry: &entry, Registered: kind.Registered}).Client(within, p.cfg.JS)
	if err != nil {
		return err
	}
	defer documents.Close()
	failed := documents.Delete(within, key, entity.IfRevision(revision))
	if failed == nil {
		return nil
	}
	// It may be gone all the same, by a try whose answer was lost.
	_, err = p.read(ctx, kind, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return &failure{http.StatusServiceUnavailable, "It is not known whether " + nameOf(kind, key) +
			" was deleted: " + sentence(failed) + " Look again."}
	case apierrors.IsConflict(failed):
		return &failure{http.StatusConflict, fmt.Sprintf("%s has changed since revision %d was looked at, and stays: "+
			"look again, and delete it then.", nameOf(kind, key), revision)}
	case within.Err() != nil:
		return &failure{http.StatusServiceUnavailable, nameOf(kind, key) + " is still there: no answer came in time. " +
			"Look again, and try again."}
	}
	return failed
}
