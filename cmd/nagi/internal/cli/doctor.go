package cli

import "github.com/spf13/cobra"

func (t *tool) doctorCommand() *cobra.Command { return &cobra.Command{Use: "doctor", Hidden: true} }
