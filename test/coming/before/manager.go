package before

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func Run(ctx context.Context, scheme *runtime.Scheme, dns DNS) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:         scheme,
		LeaderElection: true, LeaderElectionID: "sites.example.com",
		Metrics:                metricsserver.Options{BindAddress: ":8080"},
		HealthProbeBindAddress: ":8081",
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	r := &SiteReconciler{Client: mgr.GetClient(), DNS: dns, Events: mgr.GetEventRecorder("sites")}
	if err := r.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func (r *SiteReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	theme := func(obj client.Object) []string { return []string{obj.(*Site).Spec.Theme} }
	if err := mgr.GetFieldIndexer().IndexField(ctx, &Site{}, "spec.theme", theme); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&Site{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Watches(&Theme{}, handler.EnqueueRequestsFromMapFunc(r.sitesWithTheme)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

func (r *SiteReconciler) sitesWithTheme(ctx context.Context, theme client.Object) []ctrl.Request {
	var sites SiteList
	if err := r.List(ctx, &sites, client.MatchingFields{"spec.theme": theme.GetName()}); err != nil {
		return nil // the event is lost
	}
	var requests []ctrl.Request
	for i := range sites.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&sites.Items[i])})
	}
	return requests
}
