package cli

import "fmt"

// isAsNamed refuses where a document is at another revision than its file names.
func (a *applying) isAsNamed(it *item, now *current) error {
	if a.createOnly || it.revision == 0 || it.revision == now.revision {
		return nil
	}
	if !now.exists() {
		return withCode(CodeRefused, fmt.Errorf("it is gone, and the file names revision %d "+
			"(metadata.resourceVersion): to create it anew take that out of the file", it.revision))
	}
	return withCode(CodeRefused, fmt.Errorf("it is at revision %d, and not at %d, which the file names "+
		"(metadata.resourceVersion): look what has changed (nagi diff -f), and get it again, or take the revision out "+
		"of the file to apply the file to what is there", now.revision, it.revision))
}
