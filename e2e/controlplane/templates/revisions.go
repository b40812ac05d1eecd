package main

import (
	"encoding/json"
	"fmt"
	_ "unsafe" // for go:linkname

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	// The defaults of the API come with these.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/lru"
)

// What the StatefulSet controller itself calls.

//go:linkname newRevision k8s.io/kubernetes/pkg/controller/statefulset.newRevision
func newRevision(set *apps.StatefulSet, revision int64, collisionCount *int32) (*apps.ControllerRevision, error)

//go:linkname setMatchesLatestExistingRevision k8s.io/kubernetes/pkg/controller/statefulset.setMatchesLatestExistingRevision
func setMatchesLatestExistingRevision(set *apps.StatefulSet, proposed, latest *apps.ControllerRevision, memory *lru.Cache) bool

type revision struct {
	// The template as an API server serves it, defaulted only if it was before.
	Served json.RawMessage `json:"served"`
	// The data of the revision that the template makes, as text: as JSON they would be spelled anew.
	Data string `json:"data"`
	// Hashes for the collision counts 0 and 1, and the name with the first of them.
	Hashes [2]string `json:"hashes"`
	Name   string    `json:"name"`
	// A revision with the patch for its data, being the last one, would be taken for the template's.
	IsSame bool `json:"isSame"`
	// The template once the patch is applied and the defaults are filled in; none if the patch cannot be applied.
	Restored *v1.PodTemplateSpec `json:"restored"`
}

// revisions answers for a patch, which is the data of the last revision, and a template.
func revisions(pair [2]json.RawMessage) (any, error) {
	served, err := reprint(pair[1])
	if err != nil {
		return nil, fmt.Errorf("the template: %w", err)
	}
	// Once more, as the controller reads it: a pointer to no time is served as null, which is read as no pointer.
	if served, err = reprint(served); err != nil {
		return nil, err
	}
	template, err := template(served)
	if err != nil {
		return nil, err
	}
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: apps.StatefulSetSpec{Template: *template}}
	answer := revision{Served: served}
	var proposed *apps.ControllerRevision
	for count := int32(1); count >= 0; count-- {
		if proposed, err = newRevision(set, 1, &count); err != nil {
			return nil, err
		}
		answer.Hashes[count] = proposed.Labels["controller.kubernetes.io/hash"]
	}
	answer.Data, answer.Name = string(proposed.Data.Raw), proposed.Name
	last := &apps.ControllerRevision{Data: runtime.RawExtension{Raw: pair[0]}}
	answer.IsSame = setMatchesLatestExistingRevision(set, proposed, last, lru.New(1))
	if restored, err := statefulset.ApplyRevision(set, last); err == nil {
		legacyscheme.Scheme.Default(restored)
		answer.Restored = &restored.Spec.Template
	}
	return answer, nil
}

// reprint prints a template as an API server does that has read it.
func reprint(text []byte) ([]byte, error) {
	template, err := template(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(template)
}
