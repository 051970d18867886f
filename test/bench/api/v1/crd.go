package v1

import _ "embed"

// CRD is the custom resource definition, as controller-gen writes it from the types.
//
//go:embed crd.yaml
var CRD []byte
