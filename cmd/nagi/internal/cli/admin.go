package cli

import "github.com/spf13/cobra"

func (t *tool) adminCommands() []*cobra.Command { return nil }
