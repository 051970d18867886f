package kube_test

import (
	"context"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
)

// A handle is a source of controller.OwnedBy.
var _ = func(ctx context.Context, deployments *kube.Handle[*appsv1.Deployment]) ([]*appsv1.Deployment, error) {
	return controller.OwnedBy(ctx, deployments)
}
