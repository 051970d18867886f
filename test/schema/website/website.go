// Package website has the kind that is the example in docs/kinds.md.
package website

import (
	"embed"

	"github.com/nagi-runtime/nagi/entity"
)

// Source are the files of this package, for registry.Options.
//
//go:embed *.go
var Source embed.FS

// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`,description="Where it is served, and how"

// Website is a site that is served.
type Website = entity.Object[Spec, Status]

// Spec is what its owner wants.
type Spec struct {
	// Host is where it is served.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^[a-z0-9.-]+$`
	Host string `json:"host"`
	// Pages is how many there are.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1
	Pages int32 `json:"pages,omitempty"`

	Theme Theme `json:"theme,omitempty"`
	// +kubebuilder:validation:items:MinLength=1
	Aliases []string `json:"aliases,omitempty"` // Aliases lead to Host.
	// Token is shown to nobody.
	Token    string `json:"token,omitempty" nagi:"secret"`
	Password string `json:"password,omitempty"`
}

// Theme is how it looks.
// +kubebuilder:validation:Enum=light;dark
type Theme string

// Status is what the controller has found.
type Status struct {
	Ready bool `json:"ready,omitempty"`
}
