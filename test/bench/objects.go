package main

import (
	"fmt"
	"maps"

	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newWebsite makes a primary of about 450 bytes as JSON. sent is when it is written.
func newWebsite(name string, i int, sent int64) *v1.Website {
	return &v1.Website{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "shop", "team": fmt.Sprint("team-", i%40)},
		},
		Spec: v1.WebsiteSpec{
			Host: fmt.Sprintf("shop-%d.example.com", i), Image: "registry.example.com/shop/frontend:v1.27.3",
			Region: "eu-west-1", Stage: "production", Replicas: int32(i % 7),
			Paths: []string{"/", "/cart", "/checkout", "/account"},
			TLS:   true, Contact: "somebody@example.com", Sent: sent,
			Notes: "The people who run the shop look after it, every day.",
		},
	}
}

// statusOf returns the status that a controller writes for a Website.
func statusOf(site *v1.Website) v1.WebsiteStatus {
	return v1.WebsiteStatus{Ready: true, Address: "https://" + site.Spec.Host}
}

// fillConfigMap fills a ConfigMap from a Website, with about 450 bytes without the owner.
func fillConfigMap(c *corev1.ConfigMap, site *v1.Website) {
	c.Labels = withLabels(c.Labels, site.Labels)
	c.Data = map[string]string{
		"host": site.Spec.Host, "image": site.Spec.Image, "region": site.Spec.Region, "stage": site.Spec.Stage,
		"contact": site.Spec.Contact,
		"server": "listen 443 ssl; server_name " + site.Spec.Host +
			"; root /srv/www; index index.html; gzip on; expires 1h;",
		"notes": site.Spec.Notes,
	}
}

func withLabels(labels, more map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, more)
	return labels
}

func newConfigMap(name string, site *v1.Website) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	fillConfigMap(c, site)
	return c
}

// secondaryName returns the name of a primary's i-th secondary.
func secondaryName(primary string, i int) string { return fmt.Sprint(primary, "-", i) }
