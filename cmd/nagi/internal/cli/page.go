package cli

import "github.com/spf13/cobra"

func (t *tool) pageCommands() []*cobra.Command { return nil }
