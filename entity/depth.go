package entity

import (
	"bytes"
	"fmt"
)

// maxDepth bounds how deep objects and arrays of a document are nested. JSON libraries give up at 10,000, and what is
// just below that no record could hold.
const maxDepth = 1000

// recordDepth is how much deeper a record may be: it holds a document, and a status.
const recordDepth = maxDepth + 8

// checkDepth refuses a document that is nested too deep. It need not be valid.
func checkDepth(document []byte) error { return checkDepthOf(document, maxDepth) }

func checkDepthOf(value []byte, most int) error {
	if bytes.Count(value, []byte("{"))+bytes.Count(value, []byte("[")) <= most {
		return nil // nearly always
	}
	depth, inString := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return fmt.Errorf("it is nested more than %d levels deep", most)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
