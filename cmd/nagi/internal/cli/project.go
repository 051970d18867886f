package cli

import "github.com/spf13/cobra"

func (t *tool) projectCommands() []*cobra.Command { return nil }
