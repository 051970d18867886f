package operation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

func TestOperationsHaveThePinnedValuesAndNames(t *testing.T) {
	want := []string{"Put", "Delete", "Purge", "Secondary", "Tertiary", "External", "Resync", "Retry", "Requeue",
		"Manual"}
	ops := []Operation{
		Put, Delete, Purge, Secondary, Tertiary,
		External, Resync, Retry, Requeue, Manual,
	}
	for value, op := range ops {
		if int(op) != value || op.String() != want[value] {
			t.Errorf("operation %d is %d %q, want %q", value, op, op, want[value])
		}
	}
	if got := Operation(10).String(); got != "Unknown" {
		t.Errorf("an unknown operation is called %q", got)
	}
}

func TestLastOfPutDeletePurgeWinsAndOthersAccumulate(t *testing.T) {
	tests := []struct {
		name         string
		older, newer Operations
		want         Operations
	}{
		{"put then delete", Of(Put), Of(Delete), Of(Delete)},
		{"delete then put", Of(Delete), Of(Put), Of(Put)},
		{"delete then purge", Of(Delete), Of(Purge), Of(Purge)},
		{"purge then put", Of(Purge), Of(Put), Of(Put)},
		{
			"others stay beside the winner",
			Of(Put, Secondary, Retry), Of(Delete, External),
			Of(Delete, Secondary, Retry, External),
		},
		{
			"no document operation in the newer",
			Of(Delete), Of(Resync), Of(Delete, Resync),
		},
		{"a mark accumulates", Of(Put) | ByHand, Of(Delete), Of(Delete) | ByHand},
	}
	for _, test := range tests {
		if got := Union(test.older, test.newer); got != test.want {
			t.Errorf("%s: got %s (%b), want %s (%b)", test.name, got, got, test.want, test.want)
		}
	}
}

func TestUsersNeverSeeInternalMarks(t *testing.T) {
	ops := Of(Delete, Secondary) | ByHand
	if got := ops.Public(); got != Of(Delete, Secondary) {
		t.Errorf("public set is %b", got)
	}
	if got := ops.String(); got != "Delete|Secondary" {
		t.Errorf("printed as %q", got)
	}
	for value := 10; value < 256; value++ {
		if ops.Has(Operation(value)) {
			t.Errorf("has the unknown operation %d", value)
		}
	}
}

func TestOperationsPrintTheirNames(t *testing.T) {
	for want, ops := range map[string]Operations{
		"None":       0,
		"Put":        Of(Put),
		"Manual":     Of(Manual),
		"Put|Resync": Of(Resync, Put),
	} {
		if got := ops.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnknownOperationCountsAsManual(t *testing.T) {
	for _, unknown := range []Operation{31, 200} {
		if got := Of(unknown); got != Of(Manual) {
			t.Errorf("%d: got %b", unknown, got)
		}
	}
	if got := ByHand.OrManual(); got != Of(Manual)|ByHand {
		t.Errorf("got %b", got)
	}
}

// TestEachConstantHasItsRow: one that the table forgets would be taken for Manual wherever a set is made of it.
func TestEachConstantHasItsRow(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "operation.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Operation" {
				constants = append(constants, spec.Names[0].Name)
			}
		}
		return true
	})
	var rows []string
	for _, op := range All() {
		rows = append(rows, op.String())
	}
	if !slices.Equal(constants, rows) {
		t.Errorf("the constants are %v, and the table has %v", constants, rows)
	}
}
