package cli

import "github.com/spf13/cobra"

func (t *tool) actCommands() []*cobra.Command { return nil }
