// Package guard runs code of users, which may panic, and looks at values that they pass.
//
// The rule: a panic becomes an error with its stack, and the process lives on.
package guard

import (
	"fmt"
	"reflect"
	"runtime/debug"
)

// Call calls f and turns a panic into an error with a stack.
func Call(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

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
