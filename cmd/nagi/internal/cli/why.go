package cli

import "github.com/spf13/cobra"

func (t *tool) askCommands() []*cobra.Command { return nil }
