// Package browser opens the live page of nagi ui in a real browser, a headless Chromium, and looks at what a person
// would: with a narrow window and a wide one, by keyboard alone, in the dark, with a screen reader, without scripts.
//
// The page is that of the built program, beside a real server and a real controller. make browser runs the tests; where
// there is no Chromium they fail.
package browser
