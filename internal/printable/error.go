package printable

// Error returns an error whose text is printable and bounded, and which errors.Is and errors.As look through. It is
// err itself where there is nothing to change, and nil for nil.
func Error(err error) error {
	if clean := cleanedError(err); clean != nil {
		return clean
	}
	return err
}

// cleanedError returns nil for an error that needs no cleaning.
func cleanedError(err error) error {
	if err == nil {
		return nil
	}
	text := textOf(err)
	if len(text) <= ErrorLimit && printable(text) {
		return nil
	}
	return &cleaned{text: bounded(text, ErrorLimit), err: err}
}

type cleaned struct {
	text string
	err  error
}

// Error is the text as it may be shown.
func (e *cleaned) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *cleaned) Unwrap() error { return e.err }

// textOf returns the text of an error. A nil pointer of an error type panics in its own method.
func textOf(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "an error that panics when it is asked for its text"
		}
	}()
	return err.Error()
}
