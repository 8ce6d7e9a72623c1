{{- define "adaptlab.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* Labels of every object; call with (list $ "component"). */ -}}
{{- define "adaptlab.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: adaptlab
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{- define "adaptlab.selector" -}}
app.kubernetes.io/name: adaptlab
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "adaptlab.image" -}}
{{- $image := index . 1 -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default (index . 0).Chart.AppVersion) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{- /* As in docker-compose.yml: no capability, no new privilege, the user of the images. */ -}}
{{- define "adaptlab.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Root with few capabilities, all of which the Pod Security Standard `baseline` allows, so that each slot's trainers
       have a user of their own, without any. */ -}}
{{- define "adaptlab.workerContainer" -}}
{{- if .Values.trainers.separateUsers -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETPCAP, SETUID]
{{- else -}}
{{- include "adaptlab.container" . -}}
{{- end }}
{{- end }}

{{- /* Users of a pod; call with (list $ user). Volumes of root's pods have the group of the images' user. */ -}}
{{- define "adaptlab.pod" -}}
{{- $root := index . 0 -}}
{{- $user := index . 1 -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: {{ ne (int $user) 0 }}
  runAsUser: {{ $user }}
  runAsGroup: {{ $user }}
  fsGroup: {{ $user | default 10001 }}
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A variable from the secret; call with (list $ NAME key). */ -}}
{{- define "adaptlab.secret" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef: {name: {{ (index . 0).Values.existingSecret | quote }}, key: {{ index . 2 }}}
{{- end }}

{{- /* Addresses of database and broker for a part; call with (list $ "api"). */ -}}
{{- define "adaptlab.servers" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $name := include "adaptlab.name" $root -}}
{{- if $root.Values.postgres.bundled }}
{{ include "adaptlab.secret" (list $root "DATABASE_PASSWORD" (printf "%s-database-password" $part)) }}
- name: ADAPTLAB_DATABASE_URL
  value: postgresql+psycopg://adaptlab_{{ $part }}:$(DATABASE_PASSWORD)@{{ $name }}-postgres:5432/adaptlab
{{- else }}
{{ include "adaptlab.secret" (list $root "ADAPTLAB_DATABASE_URL" (printf "%s-database-url" $part)) }}
{{- end }}
{{- if $root.Values.valkey.bundled }}
{{ include "adaptlab.secret" (list $root "BROKER_PASSWORD" (printf "%s-broker-password" $part)) }}
- name: ADAPTLAB_BROKER_URL
  value: redis://adaptlab_{{ $part }}:$(BROKER_PASSWORD)@{{ $name }}-valkey:6379/0
{{- else }}
{{ include "adaptlab.secret" (list $root "ADAPTLAB_BROKER_URL" (printf "%s-broker-url" $part)) }}
{{- end }}
{{- end }}

{{- /* All settings of a part. */ -}}
{{- define "adaptlab.environment" -}}
{{- $root := index . 0 -}}
{{- include "adaptlab.servers" . }}
- {name: ADAPTLAB_DATA_DIR, value: /var/lib/adaptlab}
{{- if $root.Values.models.existingClaim }}
- {name: ADAPTLAB_MODEL_ROOTS, value: models=/models}
{{- end }}
{{- range $name, $value := $root.Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- range $name, $key := $root.Values.secretSettings }}
{{ include "adaptlab.secret" (list $root $name $key) }}
{{- end }}
{{- end }}

{{- define "adaptlab.mounts" -}}
- {name: data, mountPath: /var/lib/adaptlab}
- {name: tmp, mountPath: /tmp}
{{- if .Values.models.existingClaim }}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}

{{- /* Volumes; call with (list $ size). */ -}}
{{- define "adaptlab.volumes" -}}
- name: data
  emptyDir: {sizeLimit: {{ index . 1 | quote }}}
- name: tmp
  emptyDir: {sizeLimit: 2Gi}
{{- with (index . 0).Values.models.existingClaim }}
- name: models
  persistentVolumeClaim: {claimName: {{ . | quote }}, readOnly: true}
{{- end }}
{{- end }}
