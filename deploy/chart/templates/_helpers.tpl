{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
What the templates go by, as YAML: the values with their defaults, and what follows from them.
A release that is upgraded with --reuse-values brings the values of an older chart, so nothing may
depend on values.yaml for a default.
*/}}
{{- define "reigen.job" -}}
{{- $v := .Values -}}
{{- include "reigen.checkMoved" $v -}}
{{- $driver := $v.driver | default dict -}}
{{- $master := $v.master | default dict -}}
{{- $role := ternary "driver" "master" (not (empty $driver)) -}}
{{- $repository := ternary "horovod/horovod" "uber/horovod" (eq $role "driver") -}}
{{- $tag := ternary "0.24.3" "0.12.1-tf1.8.0-py3.5" (eq $role "driver") -}}
{{- $head := ternary (merge (deepCopy $driver) $master) $master (eq $role "driver") -}}
{{- range $key := list "args" "env" "image" -}}
{{- if and $driver (get $master $key) -}}
{{- fail (printf "master.%s and driver are both set: they are names of one thing, so choose one" $key) -}}
{{- end -}}
{{- end -}}
{{- $worker := $v.worker | default dict -}}
{{- $ssh := $v.ssh | default dict -}}
{{- $resources := $v.resources | default dict -}}
{{- $name := $v.nameOverride | default (ternary "horovod" .Chart.Name (has .Chart.Name (list "reigen" "horovod"))) -}}
{{- $port := $ssh.port | default 22 | int -}}
{{- if and (eq (toString $v.useHostNetwork) "true") (gt (add $port (dig "number" 5 $worker | int)) 65535) -}}
{{- fail (printf "ssh.port %d is too high: with useHostNetwork the last worker would listen on port %d" $port (add $port (dig "number" 5 $worker | int))) -}}
{{- end -}}
{{- include "reigen.checkPods" $v -}}
{{- $fullname := printf "%s-%s" .Release.Name $name -}}
{{- if $v.fullnameOverride -}}
{{- $fullname = $v.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $fullname = .Release.Name -}}
{{- end -}}
name: {{ $name | trunc 63 | trimSuffix "-" | quote }}
fullname: {{ include "reigen.checkedName" ($fullname | trunc 63 | trimSuffix "-") | quote }}
chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
role: {{ $role }}
hostNetwork: {{ eq (toString $v.useHostNetwork) "true" }}
hostPID: {{ eq (toString $v.useHostPID) "true" }}
port: {{ $port }}
{{ include "reigen.how" (dict "ssh" $ssh "args" (include "reigen.args" $head.args | fromJsonArray)) }}
headPort: {{ dig "port" 7461 $head | int }}
number: {{ dig "number" 5 $worker | int }}
podManagementPolicy: {{ $worker.podManagementPolicy | default "Parallel" }}
endWithJob: {{ ne (dig "endWithJob" true $worker | toString) "false" }}
account: {{ $v.serviceAccountName | default "" | quote }}
backoffLimit: {{ dig "backoffLimit" 6 $head | int }}
keepsPod: {{ semverCompare ">=1.26-0" .Capabilities.KubeVersion.Version }}
startTimeout: {{ dig "startTimeout" 600 $head | int }}
grace: {{ ternary 30 (int $v.terminationGracePeriodSeconds) (kindIs "invalid" $v.terminationGracePeriodSeconds) }}
rerun: {{ $head.rerun | default "" | toString | quote }}
args: {{ include "reigen.args" $head.args }}
worker: {{ include "reigen.container" (list $worker $repository $tag $resources) | nindent 2 }}
head: {{ include "reigen.container" (list $head $repository $tag $resources) | nindent 2 }}
headEnv: {{ include "reigen.namedEnv" $head.env }}
workerEnv: {{ merge (include "reigen.namedEnv" $worker.env | fromJson) (include "reigen.namedEnv" $head.env | fromJson) | toJson }}
{{- end -}}

{{/* Variables by their names, as JSON; they may be given as in a pod, as a list. */}}
{{- define "reigen.namedEnv" -}}
{{- $env := dict -}}
{{- if kindIs "slice" . -}}
{{- range . -}}
{{- $_ := set $env .name .value -}}
{{- end -}}
{{- end -}}
{{- ternary $env (. | default dict) (kindIs "slice" .) | toJson -}}
{{- end -}}

{{/* What the container of one role has, with the resources of all where it has none of its own. */}}
{{- define "reigen.container" -}}
{{- $role := index . 0 -}}
{{- $resources := $role.resources | default (index . 3) -}}
{{- include "reigen.image" . }}
privileged: {{ eq (toString $role.privileged) "true" }}
slots: {{ $role.slots | default (include "reigen.gpus" $resources) | int }}
resources: {{ toJson $resources }}
{{- end -}}

{{/* Values of the original's first versions, of its forks and of other charts, which files may have:
what takes their place. What is empty asks for nothing. */}}
{{- define "reigen.checkMoved" -}}
{{- if eq (toString .enabled) "false" -}}
{{- fail "enabled is false, and the chart is rendered all the same: for a dependency put `condition: NAME.enabled` beside it into Chart.yaml; NAME is its alias, or reigen" -}}
{{- end -}}
{{- $shm := "volumes, at the top, with an emptyDir of medium Memory, and volumeMounts at /dev/shm" -}}
{{- $gpus := "resources.limits, such as {nvidia.com/gpu: 2}" -}}
{{- $all := dict "image" "worker.image and master.image" "env" "master.env, which the workers get, too" "args" "master.args" "command" "master.args, a command line" "hostNetwork" "useHostNetwork" "hostPID" "useHostPID" "replicas" "worker.number" "replicaCount" "worker.number" "workers" "worker.number" "number" "worker.number" "gpu" $gpus "gpus" $gpus "slots" "worker.slots; without it slots follow from the GPUs" "slotsPerWorker" "worker.slots; without it slots follow from the GPUs" "useSecrets" "ssh.useSecrets" "hostKey" "ssh.hostKey" "hostKeyPub" "ssh.hostKeyPub" "sshPort" "ssh.port" "serviceAccount" "serviceAccountName, an account that exists" "rbac" "worker.endWithJob: with false the chart makes no Role" "podAnnotations" "annotations, of the master's pod" "imagePullPolicy" "worker.image.pullPolicy and master.image.pullPolicy" "persistence" "volumes and volumeMounts" "launcher" "master" "workersCount" "worker.number" "workerCount" "worker.number" "numWorkers" "worker.number" "gpuCount" $gpus "shmSize" $shm "envs" "master.env, which the workers get, too" "extraEnv" "master.env, which the workers get, too" "extraVolumes" "volumes" "extraVolumeMounts" "volumeMounts" "restartPolicy" "master.backoffLimit" -}}
{{- $role := dict "restartPolicy" "master.backoffLimit: how often the job is tried again" "shmSize" $shm "envs" "env" "extraEnv" "env" "gpuCount" $gpus "replicas" "worker.number" "replicaCount" "worker.number" "number" "worker.number; there is one master" "gpu" $gpus "gpus" $gpus "command" "master.args, a command line; the chart runs the workers itself" "args" "master.args; the chart runs the workers itself" "hostNetwork" "useHostNetwork, at the top" "podAnnotations" "annotations, at the top: of the master's pod" "annotations" "annotations, at the top: of the master's pod" "capabilities" "capabilities, at the top: of the master's container" "serviceAccount" "serviceAccountName, at the top: of the master's pod" "serviceAccountName" "serviceAccountName, at the top: of the master's pod" "ssh" "ssh, at the top" "rerun" "master.rerun" "backoffLimit" "master.backoffLimit" -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "imagePullSecrets" "volumes" "volumeMounts" "podSecurityContext" "securityContext" -}}
{{- $_ := set $role $name (printf "%s, at the top: of all pods" $name) -}}
{{- end -}}
{{- $image := dict "name" "repository" "registry" "repository, with the registry in front" "digest" "tag" "pullSecret" "imagePullSecrets, at the top" "pullSecrets" "imagePullSecrets, at the top" "imagePullPolicy" "pullPolicy" -}}
{{- include "reigen.checkPlace" (list "" . $all (list)) -}}
{{- include "reigen.checkPlace" (list "ssh." .ssh (dict "secretName" "ssh.hostKey and ssh.hostKeyPub, or none of them: then the chart makes a key" "existingSecret" "ssh.hostKey and ssh.hostKeyPub, or none of them: then the chart makes a key" "privateKey" "ssh.hostKey" "publicKey" "ssh.hostKeyPub") (list)) -}}
{{- range $which := list "worker" "master" "driver" -}}
{{- $values := get $ $which | default dict -}}
{{- include "reigen.checkPlace" (list (print $which ".") $values $role (ternary (list "number") (list "args" "rerun" "backoffLimit") (eq $which "worker"))) -}}
{{- include "reigen.checkPlace" (list (print $which ".image.") $values.image $image (list)) -}}
{{- end -}}
{{- end -}}

{{/* Refuse the values of one place that a table has, but for some of them. */}}
{{- define "reigen.checkPlace" -}}
{{- $place := index . 0 -}}
{{- $table := index . 2 -}}
{{- $but := index . 3 -}}
{{- range $name, $value := index . 1 -}}
{{- if and $value (hasKey $table $name) (not (has $name $but)) -}}
{{- fail (printf "%s%s: the chart has no such value; give %s" $place $name (get $table $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A name that the Services, the StatefulSet's pods and their labels can all have. */}}
{{- define "reigen.checkedName" -}}
{{- if gt (len .) 52 -}}
{{- fail (printf "the name %q has %d characters, and pods need it to have at most 52: choose a shorter release name, or set fullnameOverride" . (len .)) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .) -}}
{{- fail (printf "the name %q cannot be that of a Service, which begins with a letter, and has small letters, digits and '-': choose another release name, or set fullnameOverride" .) -}}
{{- end -}}
{{- . -}}
{{- end -}}

{{/* The GPUs of one pod: those of the limits, else of the requests; 1 if there are none. */}}
{{- define "reigen.gpus" -}}
{{- $gpus := 0 -}}
{{- range $which := list "requests" "limits" -}}
{{- range $resource, $count := (get $ $which | default dict) -}}
{{- if and (hasSuffix "/gpu" $resource) (gt (int $count) 0) -}}
{{- $gpus = int $count -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- max 1 $gpus -}}
{{- end -}}

{{/* The master's arguments as a list, from {}, a string or a list. */}}
{{- define "reigen.args" -}}
{{- $words := list -}}
{{- if kindIs "slice" . -}}
{{- range . -}}
{{- $words = append $words (include "reigen.scalar" .) -}}
{{- end -}}
{{- else if and . (not (kindIs "map" .)) -}}
{{- $words = list (toString .) -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/* How the pods come together. sshd: by ssh. That is so unless the command is one of Reigen's and
no value speaks of ssh; then the workers call the master. useSecrets: the chart cares for the keys. */}}
{{- define "reigen.how" -}}
{{- $begin := "(^|[;&|({])\\s*([A-Za-z_]\\w*=\\S*\\s+|exec\\s+|time\\s+)*(\\S*/)?" -}}
{{- $line := .args | join " " -}}
{{- $ours := and (regexMatch (print $begin "(reigen|horovodrun)\\s") $line) (not (regexMatch (print $begin "(mpirun|mpiexec|orterun|prterun)\\s") $line)) -}}
{{- $secrets := eq (toString .ssh.useSecrets) "true" -}}
{{- $keys := or .ssh.hostKey .ssh.hostKeyPub -}}
{{- $sshd := or (not $ours) (not (kindIs "invalid" .ssh.useSecrets)) $keys -}}
{{- if not (kindIs "invalid" .ssh.enabled) -}}
{{- $sshd = eq (toString .ssh.enabled) "true" -}}
{{- end -}}
{{- if and (not $sshd) (or $secrets $keys) -}}
{{- fail "ssh.enabled is false, so ssh.useSecrets and ssh.hostKey have no meaning: leave them out, or ssh.enabled" -}}
{{- end -}}
sshd: {{ not (not $sshd) }}
useSecrets: {{ and (not (not $sshd)) (or $secrets (and $ours (kindIs "invalid" .ssh.useSecrets))) }}
{{- end -}}

{{/* A number as it was written: those of a file arrive as floats. */}}
{{- define "reigen.scalar" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}
{{- int64 . -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* A map whose values are to be strings. */}}
{{- define "reigen.words" -}}
{{- $words := dict -}}
{{- range $name, $value := . -}}
{{- $_ := set $words $name (include "reigen.scalar" $value) -}}
{{- end -}}
{{- toYaml $words -}}
{{- end -}}

{{/* Refuse what the API server would refuse when a part of the release is already made. */}}
{{- define "reigen.checkPods" -}}
{{- $volumes := list -}}
{{- range .volumes -}}
{{- if has .name $volumes -}}
{{- fail (printf "volumes: the name %q is there twice" .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- $paths := list "/horovod/generated" "/horovod/state" "/etc/secret-volume" "/reigen/key" "/reigen/run" "/reigen/agent" -}}
{{- range .volumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "volumeMounts: %q is none of volumes (%s)" .name (join ", " $volumes)) -}}
{{- end -}}
{{- $path := trimSuffix "/" .mountPath -}}
{{- if has $path $paths -}}
{{- fail (printf "volumeMounts: mountPath %q is taken already: by the chart, or by another entry" .mountPath) -}}
{{- end -}}
{{- $paths = append $paths $path -}}
{{- end -}}
{{- range $which := list "master" "driver" "worker" -}}
{{- range $name, $value := include "reigen.namedEnv" (get $ $which | default dict).env | fromJson -}}
{{- if regexMatch "^(SSHPORT|USESECRETS|REIGEN_(POD|CHART)_.*)$" $name -}}
{{- fail (printf "%s.env.%s: the chart sets this variable itself" $which $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $which := list "" "master" "driver" "worker" -}}
{{- $resources := get (ternary $ (get $ $which | default dict) (empty $which)) "resources" | default dict -}}
{{- range $name, $wanted := $resources.requests | default dict -}}
{{- $limit := dig "limits" $name nil $resources -}}
{{- if and (contains "/" $name) (ne (toString $wanted) (toString $limit)) (not (kindIs "invalid" $limit)) -}}
{{- fail (printf "%sresources: %s is %v in requests and %v in limits; Kubernetes wants both to be equal" (ternary "" (print $which ".") (empty $which)) $name $wanted $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The resources of a pod. What is not cpu, memory or the like Kubernetes wants as a limit. */}}
{{- define "reigen.resources" -}}
{{- $resources := deepCopy (. | default dict) -}}
{{- range $name, $wanted := (get $resources "requests" | default dict) -}}
{{- if and (contains "/" $name) (not (hasKey (get $resources "limits" | default dict) $name)) -}}
{{- $_ := set $resources "limits" (set (get $resources "limits" | default dict) $name $wanted) -}}
{{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "reigen.image" -}}
{{- $image := (index . 0).image | default dict -}}
{{- $repository := $image.repository | default (index . 1) -}}
{{- $tag := include "reigen.scalar" $image.tag | default (index . 2) -}}
image: {{ printf "%s:%s" $repository $tag | quote }}
pullPolicy: {{ $image.pullPolicy | default "IfNotPresent" }}
{{- end -}}

{{/* The labels that all objects have. */}}
{{- define "reigen.labels" -}}
app: {{ .job.name | quote }}
chart: {{ .job.chart | quote }}
release: {{ .root.Release.Name | quote }}
heritage: {{ .root.Release.Service | quote }}
{{- end -}}

{{- define "reigen.env" -}}
{{- if .job.sshd }}
- name: SSHPORT
  value: {{ .job.port | quote }}
{{- else }}
- name: REIGEN_POD_SERVICE
  value: {{ .job.fullname }}-head
- name: REIGEN_POD_PORT
  value: {{ .job.headPort | quote }}
{{- end }}
{{- if .job.useSecrets }}
- name: USESECRETS
  value: "true"
{{- end }}
{{- if and .job.hostNetwork .job.sshd }}
- name: REIGEN_CHART_PORTS
  value: "true"
{{- end }}
- name: REIGEN_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- include "reigen.variables" .env | nindent 0 }}
{{- end -}}

{{- define "reigen.variables" -}}
{{- range $name, $value := . }}
- name: {{ $name | quote }}
  value: {{ include "reigen.scalar" $value | quote }}
{{- end }}
{{- end -}}

{{/* What the pods of both kinds have in common, but for their service account. */}}
{{- define "reigen.pod" -}}
{{- if .job.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- if .job.hostPID }}
hostPID: true
{{- end }}
terminationGracePeriodSeconds: {{ .job.grace }}
{{- with .root.Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ (kindIs "map" .) | ternary . (dict "name" .) | dig "name" "" | quote }}
{{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- include "reigen.words" . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if .root.Values.affinity }}
affinity: {{- toYaml .root.Values.affinity | nindent 2 }}
{{- else if .job.hostNetwork }}
# A node each, as long as there are enough; the job runs on fewer, too.
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app: {{ .job.name | quote }}
            release: {{ .root.Release.Name | quote }}
{{- end }}
{{- end -}}

{{- define "reigen.volumes" -}}
- name: {{ .job.fullname }}-cm
  configMap:
    name: {{ .job.fullname }}
    items:
    - key: hostfile.config
      path: hostfile
      mode: 0666
{{- if .job.sshd }}
    - key: ssh.setup
      path: ssh.sh
      mode: 0444
{{- end }}
{{- range $key, $path := .scripts }}
    - key: {{ $key }}
      path: {{ $path }}
      mode: 0555
{{- end }}
{{- if .job.useSecrets }}
- name: {{ .job.fullname }}-secret
  secret:
    secretName: {{ .job.fullname }}
    defaultMode: 0700
    items:
    - key: host-key
      path: id_rsa
    - key: host-key-pub
      path: authorized_keys
{{- end }}
{{- if not .job.sshd }}
- name: {{ .job.fullname }}-key
  secret:
    secretName: {{ .job.fullname }}
    defaultMode: 0444
    items:
    - key: key
      path: key
- name: {{ .job.fullname }}-run
  emptyDir: {}
{{- end }}
{{- with .root.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "reigen.mounts" -}}
- name: {{ .job.fullname }}-cm
  mountPath: /horovod/generated
{{- if .job.useSecrets }}
- name: {{ .job.fullname }}-secret
  readOnly: true
  mountPath: /etc/secret-volume
{{- end }}
{{- if not .job.sshd }}
- name: {{ .job.fullname }}-key
  readOnly: true
  mountPath: /reigen/key
- name: {{ .job.fullname }}-run
  mountPath: /reigen/run
{{- end }}
{{- end -}}

{{/* The securityContext of a container, if there is anything to say. */}}
{{- define "reigen.security" -}}
{{- $context := deepCopy (.root.Values.securityContext | default dict) -}}
{{- if .privileged -}}
{{- $_ := set $context "privileged" true -}}
{{- end -}}
{{- with .capabilities -}}
{{- $_ := set $context "capabilities" . -}}
{{- end -}}
{{- with $context -}}
securityContext: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The spec of a worker's pod, with @mark@ for the mark of this spec. */}}
{{- define "reigen.workerSpec" -}}
{{- include "reigen.pod" . | nindent 0 }}
# Who knows the account's token could ask the API server in its name; a worker has nothing to ask.
automountServiceAccountToken: false
volumes:
{{- $scripts := dict "worker.agent" "agent.sh" }}
{{- $check := list "/reigen/agent/reigen-agent" "pod" "ready" }}
{{- if .job.sshd }}
{{- $scripts = dict "ssh.readiness" "check.sh" "worker.run" "run.sh" }}
{{- $check = list "/horovod/generated/check.sh" }}
{{- end }}
{{- include "reigen.volumes" (dict "root" .root "job" .job "scripts" $scripts) | nindent 0 }}
{{- if not .job.sshd }}
- name: {{ .job.fullname }}-agent
  emptyDir: {}
# The master's image has Reigen; that of a worker needs nothing of it.
initContainers:
- name: agent
  image: {{ .job.head.image | quote }}
  imagePullPolicy: {{ .job.head.pullPolicy }}
  {{- with .job.headEnv }}
  env:
  {{- include "reigen.variables" . | nindent 2 }}
  {{- end }}
  {{- include "reigen.security" (dict "root" .root) | nindent 2 }}
  command: [/horovod/generated/agent.sh]
  args: [/reigen/agent]
  volumeMounts:
  {{- include "reigen.mounts" . | nindent 2 }}
  {{- with .root.Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  - name: {{ .job.fullname }}-agent
    mountPath: /reigen/agent
  resources: {{- include "reigen.resources" .job.worker.resources | nindent 4 }}
{{- end }}
containers:
- name: worker
  image: {{ .job.worker.image | quote }}
  imagePullPolicy: {{ .job.worker.pullPolicy }}
  env:
  {{- include "reigen.env" (dict "job" .job "env" .job.workerEnv) | nindent 2 }}
  - name: {{ ternary "REIGEN_CHART_WORKERS" "REIGEN_POD_MARK" .job.sshd }}
    value: "@mark@"
  {{- include "reigen.security" (dict "root" .root "privileged" .job.worker.privileged) | nindent 2 }}
  {{- if and .job.sshd (not .job.hostNetwork) }}
  ports:
  - containerPort: {{ .job.port }}
  {{- end }}
  volumeMounts:
  {{- include "reigen.mounts" . | nindent 2 }}
  {{- with .root.Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if not .job.sshd }}
  - name: {{ .job.fullname }}-agent
    mountPath: /reigen/agent
  command: [/reigen/agent/reigen-agent, pod]
  {{- else }}
  command: [/horovod/generated/run.sh]
  {{- end }}
  {{- if or .job.useSecrets (not .job.sshd) }}
  # Each look is a login, so it is made often only until the first one succeeds.
  startupProbe:
    exec:
      command: {{ toJson $check }}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 86400
  readinessProbe:
    exec:
      command: {{ toJson $check }}
    periodSeconds: 10
    timeoutSeconds: 5
  {{- end }}
  resources: {{- include "reigen.resources" .job.worker.resources | nindent 4 }}
{{- end -}}

{{/* By this the master knows the workers of its own release from those that an upgrade replaces. So
it changes with them, and the job runs again. */}}
{{- define "reigen.workersMark" -}}
{{- $key := dig "hostKey" "" (.root.Values.ssh | default dict) -}}
{{- list .job.chart .job.name .job.podManagementPolicy $key (include "reigen.workerSpec" .) | join "\n" | sha256sum | trunc 12 -}}
{{- end -}}

{{/* "true" if the master's pod has the container wait-workers. */}}
{{- define "reigen.waits" -}}
{{- and .job.sshd (not (empty (or .job.useSecrets .job.args))) -}}
{{- end -}}

{{/* The pod template of the master's Job. It does not change, so the Job can be left as it is,
unless something of the job itself changes. */}}
{{- define "reigen.headTemplate" -}}
metadata:
  labels:
    app: {{ .job.name | quote }}
    release: {{ .root.Release.Name | quote }}
    role: {{ .job.role }}
  {{- if or .root.Values.annotations .job.rerun }}
  annotations:
    {{- with .root.Values.annotations }}
    {{- include "reigen.words" . | nindent 4 }}
    {{- end }}
    {{- with .job.rerun }}
    reigen/rerun: {{ . | quote }}
    {{- end }}
  {{- end }}
spec:
  {{- include "reigen.pod" . | nindent 2 }}
  {{- if .job.account }}
  serviceAccountName: {{ .job.account | quote }}
  {{- else if .job.endWithJob }}
  serviceAccountName: {{ .job.fullname }}
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  restartPolicy: {{ ternary "Never" "OnFailure" .job.keepsPod }}
  volumes:
  {{- $scripts := dict (printf "%s.run" .job.role) "run.sh" }}
  {{- if .job.sshd }}
  {{- $_ := set $scripts (printf "%s.waitWorkerReady" .job.role) "waitWorkersReady.sh" }}
  {{- end }}
  {{- include "reigen.volumes" (dict "root" .root "job" .job "scripts" $scripts) | nindent 2 }}
  - name: {{ .job.fullname }}-state
    emptyDir: {}
  {{- if eq (include "reigen.waits" .) "true" }}
  initContainers:
  - name: wait-workers
    image: {{ .job.head.image | quote }}
    imagePullPolicy: {{ .job.head.pullPolicy }}
    env:
    {{- include "reigen.env" (dict "job" .job "env" .job.headEnv) | nindent 4 }}
    - name: REIGEN_CHART_TIMEOUT
      value: {{ .job.startTimeout | quote }}
    {{- if .job.keepsPod }}
    - name: REIGEN_CHART_AGAIN
      value: {{ .job.backoffLimit | quote }}
    {{- end }}
    - name: REIGEN_CHART_WORKERS
      value: {{ include "reigen.workersMark" . | quote }}
    {{- include "reigen.security" (dict "root" .root) | nindent 4 }}
    command: [/horovod/generated/waitWorkersReady.sh]
    args: [/horovod/generated/hostfile]
    volumeMounts:
    {{- include "reigen.mounts" . | nindent 4 }}
    {{- if .job.keepsPod }}
    - name: {{ .job.fullname }}-state
      mountPath: /horovod/state
    {{- end }}
  {{- end }}
  containers:
  - name: horovod-{{ .job.role }}
    image: {{ .job.head.image | quote }}
    imagePullPolicy: {{ .job.head.pullPolicy }}
    env:
    {{- include "reigen.env" (dict "job" .job "env" .job.headEnv) | nindent 4 }}
    - name: REIGEN_POD_GRACE
      value: {{ .job.grace | quote }}
    {{- if not .job.sshd }}
    - name: REIGEN_POD_HEAD
      value: {{ .job.fullname }}-{{ .job.role }}
    - name: REIGEN_POD_MARK
      value: {{ include "reigen.workersMark" . | quote }}
    - name: REIGEN_POD_START_TIMEOUT
      value: {{ .job.startTimeout | quote }}
    {{- if not (hasKey .job.headEnv "XDG_RUNTIME_DIR") }}
    - name: XDG_RUNTIME_DIR
      value: /reigen/run
    {{- end }}
    {{- end }}
    {{- if or .job.keepsPod .job.endWithJob }}
    - name: {{ ternary "REIGEN_CHART_AGAIN" "REIGEN_CHART_TRIES" .job.keepsPod }}
      value: {{ .job.backoffLimit | quote }}
    {{- end }}
    {{- if .job.endWithJob }}
    - name: REIGEN_CHART_SET
      value: {{ .job.fullname }}
    - name: REIGEN_CHART_ORDER
      value: {{ .job.podManagementPolicy }}
    {{- end }}
    {{- include "reigen.security" (dict "root" .root "privileged" .job.head.privileged "capabilities" .root.Values.capabilities) | nindent 4 }}
    {{- if not .job.hostNetwork }}
    ports:
    - containerPort: {{ ternary .job.port .job.headPort .job.sshd }}
    {{- end }}
    volumeMounts:
    {{- include "reigen.mounts" . | nindent 4 }}
    - name: {{ .job.fullname }}-state
      mountPath: /horovod/state
    {{- with .root.Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    command: [/horovod/generated/run.sh]
    {{- with .job.args }}
    args: {{- toYaml . | nindent 4 }}
    {{- end }}
    resources: {{- include "reigen.resources" .job.head.resources | nindent 6 }}
{{- end -}}

{{/* How the cluster's Job of this name compares: "" (there is none), "other" (it was made for
something else, so it must be replaced), "same", or "finished", which is "same" at its end. */}}
{{- define "reigen.jobState" -}}
{{- $old := lookup "batch/v1" "Job" .root.Release.Namespace .job.fullname | default dict -}}
{{- if $old -}}
{{- $was := dig "metadata" "annotations" "reigen/template" "" $old -}}
{{- $state := ternary "same" "other" (eq $was (include "reigen.headTemplate" . | sha256sum)) -}}
{{- range dig "status" "conditions" list $old -}}
{{- if and (eq $state "same") (has .type (list "Complete" "Failed")) (eq .status "True") -}}
{{- $state = "finished" -}}
{{- end -}}
{{- end -}}
{{- $state -}}
{{- end -}}
{{- end -}}

{{/* "true" where Helm itself applies what is rendered, and can ask the cluster: each namespace has
this ConfigMap. Elsewhere (helm template, Argo CD) a hook of the name of a proper object would be
applied in its place. */}}
{{- define "reigen.applied" -}}
{{- or .Release.IsUpgrade (not (empty (lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt"))) -}}
{{- end -}}

{{/* "true" if the job has ended and its workers have gone with it: an upgrade leaves both so. */}}
{{- define "reigen.finished" -}}
{{- and .job.endWithJob (eq (include "reigen.jobState" .) "finished") -}}
{{- end -}}
