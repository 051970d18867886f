package cli

import "github.com/spf13/cobra"

func (t *tool) writeCommands() []*cobra.Command {
	create := t.createCommand()
	create.AddCommand(t.createKindCommand())
	return []*cobra.Command{t.applyCommand(), create, t.deleteCommand(), t.waitCommand(),
		t.diffCommand(), t.editCommand(), t.patchCommand(), t.labelCommand(), t.annotateCommand(), t.validateCommand()}
}
