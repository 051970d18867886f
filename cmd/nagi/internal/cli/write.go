package cli

import "github.com/spf13/cobra"

func (t *tool) writeCommands() []*cobra.Command {
	return []*cobra.Command{t.applyCommand(), t.createCommand(), t.deleteCommand(), t.waitCommand(),
		t.diffCommand(), t.editCommand(), t.patchCommand(), t.labelCommand(), t.annotateCommand(), t.validateCommand()}
}
