package controller

import (
	"github.com/nagi-runtime/nagi/recorder"
	"k8s.io/client-go/tools/record"
)

// The recorders of client-go and of package recorder are event recorders.
var (
	_ EventRecorder = record.EventRecorder(nil)
	_ EventRecorder = (*recorder.Recorder)(nil)
)
