{{/*
What each controller asks of the API server, by resource: "resource" of the core group, or "group/resource". A controller's decisions are
made from the caches it reads (list, watch), and changes of owners need, where OwnerReferencesPermissionEnforcement is on, the right to
delete what is owned, and to update the finalizers of the owner.
*/}}
{{- define "wcm.needs" -}}
deployment-controller:
  apps/deployments: [get, list, watch, update]
  apps/deployments/status: [update]
  apps/deployments/finalizers: [update]
  apps/replicasets: [get, list, watch, create, patch, delete]
  pods: [list, watch]
  events: [create, patch]
replicaset-controller:
  apps/replicasets: [get, list, watch]
  apps/replicasets/status: [update]
  apps/replicasets/finalizers: [update]
  pods: [list, watch, create, patch, delete]
  events: [create, patch]
statefulset-controller:
  apps/statefulsets: [get, list, watch]
  apps/statefulsets/status: [update]
  apps/statefulsets/finalizers: [update]
  apps/controllerrevisions: [get, list, watch, create, patch, delete]
  pods: [list, watch, create, patch, delete]
  pods/finalizers: [update]
  persistentvolumeclaims: [get, list, watch, create, update, delete]
  events: [create, patch]
{{- end }}

{{/* The rules of the controllers that run, each resource once. Who observes reads; with credentials of their own for the rest, the controllers
need of the program's only what fills the caches. */}}
{{- define "wcm.rules" -}}
{{- $needs := include "wcm.needs" . | fromYaml }}
{{- $reading := list "list" "watch" }}
{{- if eq .Values.mode "observe" }}{{ $reading = append $reading "get" }}{{ end }}
{{- $all := and (eq .Values.mode "active") (not .Values.serviceAccountCredentials) }}
{{- $verbs := dict }}
{{- range $controller := .Values.controllers }}
{{- range $resource, $wanted := get $needs $controller }}
{{- range $verb := $wanted }}
{{- if or $all (has $verb $reading) }}
{{- $_ := set $verbs $resource (append (get $verbs $resource | default list) $verb | uniq) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $resource := keys $verbs | sortAlpha }}
- apiGroups: [{{ hasPrefix "apps/" $resource | ternary "apps" "" | quote }}]
  resources: [{{ trimPrefix "apps/" $resource }}]
  verbs: [{{ join ", " (get $verbs $resource) }}]
{{- end }}
{{- end }}

{{- define "wcm.subjects" -}}
{{- if .Values.rbac.subjects }}
{{- range .Values.rbac.subjects }}
- kind: {{ .kind }}
  name: {{ .name | quote }}
  {{- if eq .kind "ServiceAccount" }}
  namespace: {{ .namespace | default $.Release.Namespace }}
  {{- else }}
  apiGroup: rbac.authorization.k8s.io
  {{- end }}
{{- end }}
{{- else }}
- kind: ServiceAccount
  name: {{ include "wcm.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
{{- end }}

{{/* A binding. Takes the root, the kind and the name of the role, the name of the binding, and for a RoleBinding its namespace. */}}
{{- define "wcm.binding" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "wcm.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  {{- include "wcm.subjects" .root | trim | nindent 2 }}
{{ end }}

{{/* A role. Takes the root, the name, the rules, and for a Role its namespace. */}}
{{- define "wcm.role" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "wcm.labels" .root | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
{{ end }}
