package cli

import "github.com/spf13/cobra"

func (t *tool) treeCommands() []*cobra.Command { return nil }
