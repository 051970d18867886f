//go:build !race

package natstest

func oneProcessor() (restore func()) { return func() {} }
