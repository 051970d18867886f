package page

import (
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// drawing is a tree as SVG, from left to right.
type drawing struct {
	Width, Height int
	Boxes         []box
	Lines         []line
	Left          int // objects that are not drawn
}

type box struct {
	X, Y        int
	What, Name  string // the kind, and the key
	State       string
	Class, Link string
	Title       string // all of it, for who points at it or does not see it
}

type line struct{ X1, Y1, X2, Y2, Middle int }

// The sizes of a drawing, in pixels.
const (
	boxWidth  = 230
	boxHeight = 52
	gapAcross = 36
	gapDown   = 10
	mostBoxes = 200
	// mostLetters fit into a box.
	mostLetters = 28
)

// BoxWidth and BoxHeight are the size of a box.
func (box) BoxWidth() int { return boxWidth }

// BoxHeight is how high a box is.
func (box) BoxHeight() int { return boxHeight }

// draw lays out a tree: each object beside the first of those that it owns, these below each other.
func draw(root *tree.Node, link func(*tree.Node) string) *drawing {
	d := &drawing{}
	var place func(n *tree.Node, x, y int) int
	place = func(n *tree.Node, x, y int) (bottom int) {
		if len(d.Boxes) == mostBoxes {
			d.Left += size(n)
			return y
		}
		d.Boxes = append(d.Boxes, boxOf(n, x, y, link))
		bottom = y + boxHeight
		at := y
		for i, child := range n.Owns {
			if len(d.Boxes) == mostBoxes {
				d.Left += size(child)
				continue
			}
			if i > 0 {
				at = bottom + gapDown
			}
			from := x + boxWidth
			d.Lines = append(d.Lines, line{
				from, y + boxHeight/2, from + gapAcross, at + boxHeight/2, from + gapAcross/2,
			})
			bottom = max(bottom, place(child, from+gapAcross, at))
		}
		d.Width = max(d.Width, x+boxWidth+2)
		return bottom
	}
	d.Height = place(root, 1, 1) + 2
	return d
}

// size is how many objects a tree has.
func size(n *tree.Node) int {
	all := 1
	for _, child := range n.Owns {
		all += size(child)
	}
	return all
}

var placeNames = map[string]string{
	registry.InNATS: "NATS", registry.InKubernetes: "Kubernetes", registry.InExternal: "outside",
}

func boxOf(n *tree.Node, x, y int, link func(*tree.Node) string) box {
	what := n.Kind
	if what == "" {
		what = n.Resource
	}
	b := box{
		X: x, Y: y, What: cut(placeNames[n.In] + " " + what), Name: cut(n.Key), State: cut(n.State),
		Class: string(n.Health), Link: link(n),
	}
	switch {
	case n.Key == "":
		b.Name, b.Class = cut(n.Note), "note"
	case n.State == "":
		b.State, b.Class = "–", string(tree.Unknown)
	}
	b.Title = printable.Text(n.Argument())
	for _, text := range []string{n.State, firstLine(n.Message), n.Note} {
		if text != "" {
			b.Title += ", " + printable.Message(text)
		}
	}
	return b
}

// cut is a text of others that fits into a box.
func cut(text string) string {
	text = printable.Text(text)
	if utf8.RuneCountInString(text) <= mostLetters {
		return text
	}
	return string([]rune(text)[:mostLetters-1]) + "…"
}
