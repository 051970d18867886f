package page

import (
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"testing"
)

func source(t *testing.T, pattern string) string {
	t.Helper()
	names, err := fs.Glob(assets, pattern)
	if err != nil || len(names) == 0 {
		t.Fatal(pattern, names, err)
	}
	var all strings.Builder
	for _, name := range names {
		data, err := fs.ReadFile(assets, name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// TestThePolicyAllowsAllThatThePageNeeds: what it does not allow would not work in a browser.
func TestThePolicyAllowsAllThatThePageNeeds(t *testing.T) {
	html := source(t, "assets/*.html")
	for _, not := range []string{` style="`, `<style`, `<script>`, `javascript:`, `http://`, `https://`, `<iframe`, `<img`} {
		if strings.Contains(html, not) {
			t.Errorf("a template has %s", not)
		}
	}
	if found := regexp.MustCompile(`\son[a-z]+="`).FindString(html); found != "" {
		t.Errorf("a template has the handler %s", found)
	}
	for _, not := range []string{"innerHTML", "eval(", "document.write", "http://", "https://", ".style"} {
		if strings.Contains(source(t, "assets/page.js"), not) {
			t.Errorf("the script has %s", not)
		}
	}
	if strings.Contains(source(t, "assets/page.css"), "url(") || strings.Contains(source(t, "assets/page.css"), "@import") {
		t.Error("the style sheet loads something")
	}
}

// TestWhatIsSeenAndTypedIntoHasAName, for who hears the page.
func TestWhatIsSeenAndTypedIntoHasAName(t *testing.T) {
	html := source(t, "assets/*.html")
	for _, element := range regexp.MustCompile(`<(?:svg|section|nav)[^>]*>|<(?:div|pre)[^>]*tabindex[^>]*>`).FindAllString(html, -1) {
		if !strings.Contains(element, "aria-label") {
			t.Errorf("%s has no name", element)
		}
	}
	for _, input := range regexp.MustCompile(`<(?:input|select)[^>]*>`).FindAllString(html, -1) {
		id := regexp.MustCompile(` id="([^"]*)"`).FindStringSubmatch(input)
		switch {
		case strings.Contains(input, `type="hidden"`):
		case id == nil || !strings.Contains(html, `<label for="`+id[1]+`"`):
			t.Errorf("%s has no label", input)
		}
	}
	if found := regexp.MustCompile(`tabindex="[1-9]`).FindString(html); found != "" {
		t.Errorf("a template changes the order of the keyboard: %s", found)
	}
}

// TestTextCanBeRead in both schemes: each colour of texts has a contrast of at least 4.5 to what is behind it.
func TestTextCanBeRead(t *testing.T) {
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(source(t, "assets/page.css"), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes", len(schemes))
	}
	for i, scheme := range schemes {
		colours := map[string]float64{}
		for _, c := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(scheme[1], -1) {
			colours[c[1]] = luminance(t, c[2])
		}
		for _, pair := range [][2]string{
			{"text", "back"}, {"text", "card"}, {"faint", "back"}, {"faint", "card"}, {"link", "back"}, {"link", "card"},
			{"good", "back"}, {"good", "card"}, {"bad", "back"}, {"bad", "card"}, {"warn", "card"}, {"alarm-text", "alarm"},
		} {
			a, b := colours[pair[0]], colours[pair[1]]
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 4.5 {
				t.Errorf("scheme %d: %s on %s has a contrast of %.1f", i, pair[0], pair[1], contrast)
			}
		}
	}
}

// luminance is that of WCAG 2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var r, g, b int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b); err != nil {
		t.Fatal(colour, err)
	}
	linear := func(v int) float64 {
		c := float64(v) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
