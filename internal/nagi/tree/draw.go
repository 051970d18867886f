package tree

// Line is one line of a tree as text: what is drawn before a node, and the node.
type Line struct {
	Prefix string
	Node   *Node
}

// Lines draws a tree with box characters, or with plain ASCII.
func Lines(root *Node, ascii bool) []Line {
	strokes := [4]string{"├── ", "└── ", "│   ", "    "}
	if ascii {
		strokes = [4]string{"|-- ", "`-- ", "|   ", "    "}
	}
	var lines []Line
	var draw func(n *Node, first, rest string)
	draw = func(n *Node, first, rest string) {
		lines = append(lines, Line{first, n})
		for i, child := range n.Owns {
			if i == len(n.Owns)-1 {
				draw(child, rest+strokes[1], rest+strokes[3])
			} else {
				draw(child, rest+strokes[0], rest+strokes[2])
			}
		}
	}
	draw(root, "", "")
	return lines
}
