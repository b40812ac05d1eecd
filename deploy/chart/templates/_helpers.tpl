{{- define "wcm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "wcm.fullname" -}}
{{- $name := include "wcm.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "wcm.selectorLabels" -}}
app.kubernetes.io/name: {{ include "wcm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wcm.labels" -}}
{{ include "wcm.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: controller-manager
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "wcm.image" -}}
{{- .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "wcm.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "wcm.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* "true" if the chart brings pods, and their service account is who acts in this cluster. */}}
{{- define "wcm.actsHere" -}}
{{- and (ne .Values.workload.kind "External") (not .Values.kubeconfig.secretName) }}
{{- end }}

{{- define "wcm.hostNetwork" -}}
{{- if kindIs "bool" .Values.hostNetwork }}{{ .Values.hostNetwork }}{{ else }}{{ eq .Values.workload.kind "DaemonSet" }}{{ end }}
{{- end }}

{{/* What no schema can say. */}}
{{- define "wcm.validate" -}}
{{- $values := .Values }}
{{- $kind := $values.workload.kind }}
{{- if and (eq $kind "Deployment") (not $values.kubeconfig.secretName) (not $values.bootstrap.acknowledgeSelfDependency) }}
{{- fail "workload.kind=Deployment: in the cluster whose Deployments it is to run, a Deployment cannot start itself once all its pods are gone. Use workload.kind=DaemonSet, or name the kubeconfig of another cluster in kubeconfig.secretName, or set bootstrap.acknowledgeSelfDependency=true" }}
{{- end }}
{{- if ne $kind "Deployment" }}
{{- if $values.podDisruptionBudget.enabled }}
{{- fail "podDisruptionBudget.enabled: only with workload.kind=Deployment; nothing drains a DaemonSet's pods" }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
{{- fail "topologySpreadConstraints: only with workload.kind=Deployment" }}
{{- end }}
{{- end }}
{{- if eq $kind "External" }}
{{- if and $values.rbac.create (not $values.rbac.subjects) }}
{{- fail "rbac.subjects: with workload.kind=External somebody must be named who gets the rights, or rbac.create be false" }}
{{- end }}
{{- range $name := list "serviceMonitor" "podMonitor" "networkPolicy" }}
{{- if get (get $values $name) "enabled" }}
{{- fail (printf "%s.enabled: with workload.kind=External there are no pods that it could find" $name) }}
{{- end }}
{{- end }}
{{- else if $values.rbac.subjects }}
{{- fail "rbac.subjects: only with workload.kind=External; else the pods' service account gets the rights" }}
{{- end }}
{{- if and (eq $values.mode "active") (ne $kind "External") }}
{{- if not $values.leaderElection.enabled }}
{{- fail "leaderElection.enabled=false: the release's pods would work beside each other, at the latest while one takes another's place" }}
{{- end }}
{{- if eq (include "wcm.sharesLease" .) "true" }}
{{- fail "leaderElection.resourceName: kube-system/kube-controller-manager is the lease of all of kube-controller-manager's controllers: while these pods held it, none of those would run" }}
{{- end }}
{{- end }}
{{- if and $values.networkPolicy.enabled (eq (include "wcm.hostNetwork" .) "true") }}
{{- fail "networkPolicy.enabled: network policies do not reach pods on the host's network; set hostNetwork=false" }}
{{- end }}
{{- if and $values.serviceMonitor.enabled $values.podMonitor.enabled }}
{{- fail "serviceMonitor.enabled and podMonitor.enabled: one of them, else everything is scraped twice" }}
{{- end }}
{{- range $argument := $values.extraArgs }}
{{- $flag := first (splitList "=" $argument) }}
{{- with get (include "wcm.ownFlags" $ | fromYaml) $flag }}
{{- fail (printf "extraArgs: %s follows from the value %s" $flag .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The flags that the chart sets, with the values they follow from. */}}
{{- define "wcm.ownFlags" -}}
--kubeconfig: kubeconfig.secretName
--authentication-kubeconfig: kubeconfig.secretName
--authorization-kubeconfig: kubeconfig.secretName
--secure-port: port
--bind-address: bindAddress
--mode: mode
--controllers: controllers
--feature-gates: featureGates
--use-service-account-credentials: serviceAccountCredentials
--leader-elect: leaderElection.enabled
--leader-elect-resource-name: leaderElection.resourceName
--leader-elect-resource-namespace: leaderElection.resourceNamespace
--leader-elect-lease-duration: leaderElection.leaseDuration
--leader-elect-renew-deadline: leaderElection.renewDeadline
--leader-elect-retry-period: leaderElection.retryPeriod
--logging-format: logging.format
--v: logging.verbosity
{{- end }}
