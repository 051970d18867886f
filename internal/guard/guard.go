// Package guard runs code of users, which may panic, and looks at values that they pass.
//
// The rule: a panic becomes an error with its stack, and the process lives on.
package guard

import (
	"fmt"
	"reflect"
	"runtime/debug"
)

// Panic is a panic that became an error. Its text has the stack.
type Panic struct {
	Value any
	Stack []byte
}

// Error is what the process would have said at its end.
func (p *Panic) Error() string { return p.Message() + "\n" + string(p.Stack) }

// Message is Error without the stack.
func (p *Panic) Message() string { return fmt.Sprintf("panic: %v", p.Value) }

// Call calls f and turns a panic into an error with a stack, a *Panic.
func Call(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Recovered(r)
		}
	}()
	return f()
}

// Recovered is the error for what recover returned, with the stack; call it in the function that recovers.
func Recovered(value any) *Panic { return &Panic{Value: value, Stack: debug.Stack()} }

// IsNil also sees a nil pointer in an interface, which is what a variable that was never set becomes.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	switch value.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Interface, reflect.Slice:
		return value.IsNil()
	}
	return false
}
