package members

import "reflect"

// Pointed returns what a pointer leads to, over any number of pointers; nil if they lead nowhere (type P *P).
func Pointed(t reflect.Type) reflect.Type {
	for seen := map[reflect.Type]bool{}; t.Kind() == reflect.Pointer; t = t.Elem() {
		if seen[t] {
			return nil
		}
		if t.Name() != "" { // only a type with a name can lead back to itself
			seen[t] = true
		}
	}
	return t
}
