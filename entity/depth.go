package entity

import (
	"bytes"
	"fmt"
)

// maxDepth bounds how deep objects and arrays of a document are nested. JSON libraries give up at 10,000, and what is
// just below that no record could hold.
const maxDepth = 1000

// checkDepth refuses a document that is nested too deep. It need not be valid.
func checkDepth(document []byte) error {
	if bytes.Count(document, []byte("{"))+bytes.Count(document, []byte("[")) <= maxDepth {
		return nil // nearly always
	}
	depth, inString := 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("it is nested more than %d levels deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
