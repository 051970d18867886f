package cli

import "github.com/spf13/cobra"

func (t *tool) writeCommands() []*cobra.Command { return nil }
