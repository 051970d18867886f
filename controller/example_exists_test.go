package controller_test

import (
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	corev1 "k8s.io/api/core/v1"
)

func ExampleResourceExistsError() {
	err := &controller.ResourceExistsError{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		Key: "default/books"}
	fmt.Println(err)
	// Output: Resource "default/books" already exists and is not managed by this controller: this object of configmaps/v1 names no owner; use another name, or take it over with WithAdopt or AdoptOrFail
}
