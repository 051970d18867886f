package kube

import "github.com/nagi-runtime/nagi/controller"

// OperationResult says what Apply or CreateOrUpdate did. It is "unchanged" with each error.
type OperationResult = controller.OperationResult

// The results of Apply and CreateOrUpdate.
const (
	OperationResultNone    = controller.OperationResultNone
	OperationResultCreated = controller.OperationResultCreated
	OperationResultUpdated = controller.OperationResultUpdated
)
