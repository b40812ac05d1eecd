{{- define "wcm.args" -}}
{{- $values := .Values }}
{{- if $values.kubeconfig.secretName }}
- --kubeconfig=/etc/kubernetes/workloads/kubeconfig
- --authentication-kubeconfig=/etc/kubernetes/workloads/kubeconfig
- --authorization-kubeconfig=/etc/kubernetes/workloads/kubeconfig
{{- end }}
- --controllers={{ join "," $values.controllers }}
{{- if ne $values.mode "active" }}
- --mode={{ $values.mode }}
{{- end }}
- --bind-address={{ $values.bindAddress }}
- --secure-port={{ int $values.port }}
{{- with $values.leaderElection }}
- --leader-elect={{ .enabled }}
{{- if .enabled }}
- --leader-elect-resource-name={{ .resourceName }}
- --leader-elect-resource-namespace={{ .resourceNamespace }}
- --leader-elect-lease-duration={{ .leaseDuration }}
- --leader-elect-renew-deadline={{ .renewDeadline }}
- --leader-elect-retry-period={{ .retryPeriod }}
{{- end }}
{{- end }}
{{- if $values.serviceAccountCredentials }}
- --use-service-account-credentials=true
{{- end }}
{{- with $values.featureGates }}
{{- $gates := list }}
{{- range $gate, $on := . }}{{ $gates = append $gates (printf "%s=%t" $gate $on) }}{{ end }}
- --feature-gates={{ join "," $gates }}
{{- end }}
- --logging-format={{ $values.logging.format }}
- --v={{ int $values.logging.verbosity }}
{{- range $values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* Where the API server is, for pods that must not need the cluster's network. */}}
{{- define "wcm.env" -}}
{{- if .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .Values.apiServer.host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ int .Values.apiServer.port | quote }}
{{- end }}
{{- end }}

{{- define "wcm.probe" -}}
{{- $probe := deepCopy .probe }}
{{- $get := dict "path" .path "port" "https-metrics" "scheme" "HTTPS" }}
{{- if not (has .bindAddress (list "0.0.0.0" "::")) }}
{{- $_ := set $get "host" .bindAddress }}
{{- end }}
{{- toYaml (set $probe "httpGet" $get) }}
{{- end }}

{{- define "wcm.tolerations" -}}
{{- if not (kindIs "invalid" .Values.tolerations) }}
{{- with .Values.tolerations }}{{ toYaml . }}{{ end }}
{{- else if eq .Values.workload.kind "DaemonSet" -}}
- key: node-role.kubernetes.io/control-plane
  operator: Exists
  effect: NoSchedule
- key: CriticalAddonsOnly
  operator: Exists
- key: node.cloudprovider.kubernetes.io/uninitialized
  operator: Exists
  effect: NoSchedule
- key: node.kubernetes.io/not-ready
  operator: Exists
  effect: NoSchedule
{{- end }}
{{- end }}

{{- define "wcm.affinity" -}}
{{- if not (kindIs "invalid" .Values.affinity) }}
{{- with .Values.affinity }}{{ toYaml . }}{{ end }}
{{- else if eq .Values.workload.kind "Deployment" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "wcm.selectorLabels" . | nindent 12 }}
{{- else if .Values.workload.controlPlaneNodes -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      # Its value differs: none with kubeadm, "true" with k3s.
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- end }}
{{- end }}

{{/* The pod template of either workload. */}}
{{- define "wcm.podTemplate" -}}
{{- $values := .Values }}
{{- $hostNetwork := eq (include "wcm.hostNetwork" .) "true" }}
{{- $daemon := eq $values.workload.kind "DaemonSet" }}
metadata:
  labels:
    {{- include "wcm.labels" . | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: workloads-controller-manager
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if eq (include "wcm.actsHere" .) "true" }}
  serviceAccountName: {{ include "wcm.serviceAccountName" . }}
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  priorityClassName: {{ ternary "system-node-critical" "system-cluster-critical" $daemon | default $values.priorityClassName | quote }}
  hostNetwork: {{ $hostNetwork }}
  dnsPolicy: {{ $values.dnsPolicy | default (ternary "Default" "ClusterFirst" $hostNetwork) }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "wcm.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with include "wcm.tolerations" . }}
  tolerations:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $ours := dict "labelSelector" (dict "matchLabels" (include "wcm.selectorLabels" $ | fromYaml)) }}
    - {{- merge (deepCopy .) $ours | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - name: workloads-controller-manager
      image: {{ include "wcm.image" . | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        {{- include "wcm.args" . | trim | nindent 8 }}
      {{- with include "wcm.environment" . }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      ports:
        - name: https-metrics
          containerPort: {{ int $values.port }}
          protocol: TCP
      livenessProbe:
        {{- include "wcm.probe" (dict "probe" $values.livenessProbe "path" "/livez" "bindAddress" $values.bindAddress) | nindent 8 }}
      readinessProbe:
        {{- include "wcm.probe" (dict "probe" $values.readinessProbe "path" "/readyz" "bindAddress" $values.bindAddress) | nindent 8 }}
      {{- with $values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.kubeconfig.secretName }}
      volumeMounts:
        - name: kubeconfig
          mountPath: /etc/kubernetes/workloads
          readOnly: true
      {{- end }}
  {{- if $values.kubeconfig.secretName }}
  volumes:
    - name: kubeconfig
      secret:
        secretName: {{ $values.kubeconfig.secretName }}
        items:
          - key: {{ $values.kubeconfig.key }}
            path: kubeconfig
  {{- end }}
{{- end }}

{{- define "wcm.environment" -}}
{{- $env := list (include "wcm.env" . | trim) (empty .Values.extraEnv | ternary "" (toYaml .Values.extraEnv)) }}
{{- without $env "" | join "\n" }}
{{- end }}
