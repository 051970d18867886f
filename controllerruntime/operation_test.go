package controllerruntime

import "testing"

func TestOperationsHaveThePinnedValuesAndNames(t *testing.T) {
	want := []string{"Put", "Delete", "Purge", "Secondary", "Tertiary", "External", "Resync", "Retry", "Requeue", "Manual"}
	ops := []Operation{
		OperationPut, OperationDelete, OperationPurge, OperationSecondary, OperationTertiary,
		OperationExternal, OperationResync, OperationRetry, OperationRequeue, OperationManual,
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
		{"put then delete", operations(OperationPut), operations(OperationDelete), operations(OperationDelete)},
		{"delete then put", operations(OperationDelete), operations(OperationPut), operations(OperationPut)},
		{"delete then purge", operations(OperationDelete), operations(OperationPurge), operations(OperationPurge)},
		{"purge then put", operations(OperationPurge), operations(OperationPut), operations(OperationPut)},
		{
			"others stay beside the winner",
			operations(OperationPut, OperationSecondary, OperationRetry), operations(OperationDelete, OperationExternal),
			operations(OperationDelete, OperationSecondary, OperationRetry, OperationExternal),
		},
		{
			"no document operation in the newer",
			operations(OperationDelete), operations(OperationResync), operations(OperationDelete, OperationResync),
		},
		{"a mark accumulates", operations(OperationPut) | explicitBit, operations(OperationDelete), operations(OperationDelete) | explicitBit},
	}
	for _, test := range tests {
		if got := union(test.older, test.newer); got != test.want {
			t.Errorf("%s: got %s (%b), want %s (%b)", test.name, got, got, test.want, test.want)
		}
	}
}

func TestUsersNeverSeeInternalMarks(t *testing.T) {
	ops := operations(OperationDelete, OperationSecondary) | explicitBit
	if got := ops.public(); got != operations(OperationDelete, OperationSecondary) {
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
		"Put":        operations(OperationPut),
		"Manual":     operations(OperationManual),
		"Put|Resync": operations(OperationResync, OperationPut),
	} {
		if got := ops.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnknownOperationCountsAsManual(t *testing.T) {
	if got := operations(Operation(31)); got != operations(OperationManual) {
		t.Errorf("got %b", got)
	}
	if got := explicitBit.orManual(); got != operations(OperationManual)|explicitBit {
		t.Errorf("got %b", got)
	}
}
