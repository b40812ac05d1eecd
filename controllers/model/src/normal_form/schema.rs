//! The types below `PodTemplateSpec` in Kubernetes 1.37.2.
//!
//! Written by `templates schema` (e2e/controlplane/templates); a test of e2e compares.

use super::kind::Fields;
use super::kind::Kind::{Boolean, IntOrString, Integer, List, Map, Pointer, Quantity, Raw, Struct, Text, Time};

pub(super) static AFFINITY: Fields = Fields(&[
    ("nodeAffinity", Pointer(&Struct(&NODE_AFFINITY))), ("podAffinity", Pointer(&Struct(&POD_AFFINITY))),
    ("podAntiAffinity", Pointer(&Struct(&POD_ANTI_AFFINITY))),
], &[]);
pub(super) static APP_ARMOR_PROFILE: Fields = Fields(&[("localhostProfile", Pointer(&Text)), ("type", Text)], &["type"]);
pub(super) static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("partition", Integer), ("readOnly", Boolean), ("volumeID", Text),
], &["volumeID"]);
pub(super) static AZURE_DISK_VOLUME_SOURCE: Fields = Fields(&[
    ("cachingMode", Pointer(&Text)), ("diskName", Text), ("diskURI", Text), ("fsType", Pointer(&Text)), ("kind", Pointer(&Text)),
    ("readOnly", Pointer(&Boolean)),
], &["diskName", "diskURI"]);
pub(super) static AZURE_FILE_VOLUME_SOURCE: Fields = Fields(&[
    ("readOnly", Boolean), ("secretName", Text), ("shareName", Text),
], &["secretName", "shareName"]);
pub(super) static CAPABILITIES: Fields = Fields(&[("add", List(&Text)), ("drop", List(&Text))], &[]);
pub(super) static CEPH_FS_VOLUME_SOURCE: Fields = Fields(&[
    ("monitors", List(&Text)), ("path", Text), ("readOnly", Boolean), ("secretFile", Text),
    ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("user", Text),
], &["monitors"]);
pub(super) static CINDER_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("readOnly", Boolean), ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("volumeID", Text),
], &["volumeID"]);
pub(super) static CLUSTER_TRUST_BUNDLE_PROJECTION: Fields = Fields(&[
    ("labelSelector", Pointer(&Struct(&LABEL_SELECTOR))), ("name", Pointer(&Text)), ("optional", Pointer(&Boolean)), ("path", Text),
    ("signerName", Pointer(&Text)), ("user", Pointer(&Integer)),
], &["path"]);
pub(super) static CONFIG_MAP_ENV_SOURCE: Fields = Fields(&[("name", Text), ("optional", Pointer(&Boolean))], &[]);
pub(super) static CONFIG_MAP_KEY_SELECTOR: Fields = Fields(&[("key", Text), ("name", Text), ("optional", Pointer(&Boolean))], &["key"]);
pub(super) static CONFIG_MAP_PROJECTION: Fields = Fields(&[
    ("items", List(&Struct(&KEY_TO_PATH))), ("name", Text), ("optional", Pointer(&Boolean)),
], &[]);
pub(super) static CONFIG_MAP_VOLUME_SOURCE: Fields = Fields(&[
    ("defaultMode", Pointer(&Integer)), ("defaultUser", Pointer(&Integer)), ("items", List(&Struct(&KEY_TO_PATH))), ("name", Text),
    ("optional", Pointer(&Boolean)),
], &[]);
pub(super) static CONTAINER: Fields = Fields(&[
    ("args", List(&Text)), ("command", List(&Text)), ("env", List(&Struct(&ENV_VAR))), ("envFrom", List(&Struct(&ENV_FROM_SOURCE))),
    ("image", Text), ("imagePullPolicy", Text), ("lifecycle", Pointer(&Struct(&LIFECYCLE))), ("livenessProbe", Pointer(&Struct(&PROBE))),
    ("name", Text), ("ports", List(&Struct(&CONTAINER_PORT))), ("readinessProbe", Pointer(&Struct(&PROBE))),
    ("resizePolicy", List(&Struct(&CONTAINER_RESIZE_POLICY))), ("resources", Struct(&RESOURCE_REQUIREMENTS)),
    ("restartPolicy", Pointer(&Text)), ("restartPolicyRules", List(&Struct(&CONTAINER_RESTART_RULE))),
    ("securityContext", Pointer(&Struct(&SECURITY_CONTEXT))), ("startupProbe", Pointer(&Struct(&PROBE))), ("stdin", Boolean),
    ("stdinOnce", Boolean), ("terminationMessagePath", Text), ("terminationMessagePolicy", Text), ("tty", Boolean),
    ("volumeDevices", List(&Struct(&VOLUME_DEVICE))), ("volumeMounts", List(&Struct(&VOLUME_MOUNT))), ("workingDir", Text),
], &["name", "resources"]);
pub(super) static CONTAINER_PORT: Fields = Fields(&[
    ("containerPort", Integer), ("hostIP", Text), ("hostPort", Integer), ("name", Text), ("protocol", Text),
], &["containerPort"]);
pub(super) static CONTAINER_RESIZE_POLICY: Fields = Fields(&[
    ("resourceName", Text), ("restartPolicy", Text),
], &["resourceName", "restartPolicy"]);
pub(super) static CONTAINER_RESTART_RULE: Fields = Fields(&[
    ("action", Text), ("exitCodes", Pointer(&Struct(&CONTAINER_RESTART_RULE_ON_EXIT_CODES))),
], &[]);
pub(super) static CONTAINER_RESTART_RULE_ON_EXIT_CODES: Fields = Fields(&[("operator", Text), ("values", List(&Integer))], &[]);
pub(super) static CSI_VOLUME_SOURCE: Fields = Fields(&[
    ("driver", Text), ("fsType", Pointer(&Text)), ("nodePublishSecretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ("readOnly", Pointer(&Boolean)), ("volumeAttributes", Map(&Text)),
], &["driver"]);
pub(super) static DOWNWARD_API_PROJECTION: Fields = Fields(&[("items", List(&Struct(&DOWNWARD_API_VOLUME_FILE)))], &[]);
pub(super) static DOWNWARD_API_VOLUME_FILE: Fields = Fields(&[
    ("fieldRef", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))), ("mode", Pointer(&Integer)), ("path", Text),
    ("resourceFieldRef", Pointer(&Struct(&RESOURCE_FIELD_SELECTOR))), ("user", Pointer(&Integer)),
], &["path"]);
pub(super) static DOWNWARD_API_VOLUME_SOURCE: Fields = Fields(&[
    ("defaultMode", Pointer(&Integer)), ("defaultUser", Pointer(&Integer)), ("items", List(&Struct(&DOWNWARD_API_VOLUME_FILE))),
], &[]);
pub(super) static EMPTY_DIR_VOLUME_SOURCE: Fields = Fields(&[
    ("medium", Text), ("mode", Pointer(&Integer)), ("sizeLimit", Pointer(&Quantity)),
], &[]);
pub(super) static ENV_FROM_SOURCE: Fields = Fields(&[
    ("configMapRef", Pointer(&Struct(&CONFIG_MAP_ENV_SOURCE))), ("prefix", Text), ("secretRef", Pointer(&Struct(&SECRET_ENV_SOURCE))),
], &[]);
pub(super) static ENV_VAR: Fields = Fields(&[
    ("name", Text), ("value", Text), ("valueFrom", Pointer(&Struct(&ENV_VAR_SOURCE))),
], &["name"]);
pub(super) static ENV_VAR_SOURCE: Fields = Fields(&[
    ("configMapKeyRef", Pointer(&Struct(&CONFIG_MAP_KEY_SELECTOR))), ("fieldRef", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))),
    ("fileKeyRef", Pointer(&Struct(&FILE_KEY_SELECTOR))), ("resourceFieldRef", Pointer(&Struct(&RESOURCE_FIELD_SELECTOR))),
    ("secretKeyRef", Pointer(&Struct(&SECRET_KEY_SELECTOR))),
], &[]);
pub(super) static EPHEMERAL_CONTAINER: Fields = Fields(&[
    ("args", List(&Text)), ("command", List(&Text)), ("env", List(&Struct(&ENV_VAR))), ("envFrom", List(&Struct(&ENV_FROM_SOURCE))),
    ("image", Text), ("imagePullPolicy", Text), ("lifecycle", Pointer(&Struct(&LIFECYCLE))), ("livenessProbe", Pointer(&Struct(&PROBE))),
    ("name", Text), ("ports", List(&Struct(&CONTAINER_PORT))), ("readinessProbe", Pointer(&Struct(&PROBE))),
    ("resizePolicy", List(&Struct(&CONTAINER_RESIZE_POLICY))), ("resources", Struct(&RESOURCE_REQUIREMENTS)),
    ("restartPolicy", Pointer(&Text)), ("restartPolicyRules", List(&Struct(&CONTAINER_RESTART_RULE))),
    ("securityContext", Pointer(&Struct(&SECURITY_CONTEXT))), ("startupProbe", Pointer(&Struct(&PROBE))), ("stdin", Boolean),
    ("stdinOnce", Boolean), ("targetContainerName", Text), ("terminationMessagePath", Text), ("terminationMessagePolicy", Text),
    ("tty", Boolean), ("volumeDevices", List(&Struct(&VOLUME_DEVICE))), ("volumeMounts", List(&Struct(&VOLUME_MOUNT))),
    ("workingDir", Text),
], &["name", "resources"]);
pub(super) static EPHEMERAL_VOLUME_SOURCE: Fields = Fields(&[
    ("volumeClaimTemplate", Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_TEMPLATE))),
], &[]);
pub(super) static EVICTION_RESPONDER: Fields = Fields(&[("name", Text), ("priority", Pointer(&Integer))], &["name", "priority"]);
pub(super) static EXEC_ACTION: Fields = Fields(&[("command", List(&Text))], &[]);
pub(super) static FC_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("lun", Pointer(&Integer)), ("readOnly", Boolean), ("targetWWNs", List(&Text)), ("wwids", List(&Text)),
], &[]);
pub(super) static FILE_KEY_SELECTOR: Fields = Fields(&[
    ("key", Text), ("optional", Pointer(&Boolean)), ("path", Text), ("volumeName", Text),
], &["key", "path", "volumeName"]);
pub(super) static FLEX_VOLUME_SOURCE: Fields = Fields(&[
    ("driver", Text), ("fsType", Text), ("options", Map(&Text)), ("readOnly", Boolean),
    ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))),
], &["driver"]);
pub(super) static FLOCKER_VOLUME_SOURCE: Fields = Fields(&[("datasetName", Text), ("datasetUUID", Text)], &[]);
pub(super) static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("partition", Integer), ("pdName", Text), ("readOnly", Boolean),
], &["pdName"]);
pub(super) static GIT_REPO_VOLUME_SOURCE: Fields = Fields(&[
    ("directory", Text), ("repository", Text), ("revision", Text),
], &["repository"]);
pub(super) static GLUSTERFS_VOLUME_SOURCE: Fields = Fields(&[
    ("endpoints", Text), ("path", Text), ("readOnly", Boolean),
], &["endpoints", "path"]);
pub(super) static GRPC_ACTION: Fields = Fields(&[
    ("mode", Pointer(&Text)), ("port", Integer), ("service", Pointer(&Text)),
], &["port", "service"]);
pub(super) static HOST_ALIAS: Fields = Fields(&[("hostnames", List(&Text)), ("ip", Text)], &["ip"]);
pub(super) static HOST_PATH_VOLUME_SOURCE: Fields = Fields(&[("path", Text), ("type", Pointer(&Text))], &["path"]);
pub(super) static HTTP_GET_ACTION: Fields = Fields(&[
    ("host", Text), ("httpHeaders", List(&Struct(&HTTP_HEADER))), ("path", Text), ("port", IntOrString), ("protocol", Pointer(&Text)),
    ("scheme", Text),
], &["port"]);
pub(super) static HTTP_HEADER: Fields = Fields(&[("name", Text), ("value", Text)], &["name", "value"]);
pub(super) static IMAGE_VOLUME_SOURCE: Fields = Fields(&[("pullPolicy", Text), ("reference", Text)], &[]);
pub(super) static ISCSI_VOLUME_SOURCE: Fields = Fields(&[
    ("chapAuthDiscovery", Boolean), ("chapAuthSession", Boolean), ("fsType", Text), ("initiatorName", Pointer(&Text)), ("iqn", Text),
    ("iscsiInterface", Text), ("lun", Integer), ("portals", List(&Text)), ("readOnly", Boolean),
    ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("targetPortal", Text),
], &["iqn", "lun", "targetPortal"]);
pub(super) static KEY_TO_PATH: Fields = Fields(&[
    ("key", Text), ("mode", Pointer(&Integer)), ("path", Text), ("user", Pointer(&Integer)),
], &["key", "path"]);
pub(super) static LABEL_SELECTOR: Fields = Fields(&[
    ("matchExpressions", List(&Struct(&LABEL_SELECTOR_REQUIREMENT))), ("matchLabels", Map(&Text)),
], &[]);
pub(super) static LABEL_SELECTOR_REQUIREMENT: Fields = Fields(&[
    ("key", Text), ("operator", Text), ("values", List(&Text)),
], &["key", "operator"]);
pub(super) static LIFECYCLE: Fields = Fields(&[
    ("postStart", Pointer(&Struct(&LIFECYCLE_HANDLER))), ("preStop", Pointer(&Struct(&LIFECYCLE_HANDLER))), ("stopSignal", Pointer(&Text)),
], &[]);
pub(super) static LIFECYCLE_HANDLER: Fields = Fields(&[
    ("exec", Pointer(&Struct(&EXEC_ACTION))), ("httpGet", Pointer(&Struct(&HTTP_GET_ACTION))), ("sleep", Pointer(&Struct(&SLEEP_ACTION))),
    ("tcpSocket", Pointer(&Struct(&TCP_SOCKET_ACTION))),
], &[]);
pub(super) static LOCAL_OBJECT_REFERENCE: Fields = Fields(&[("name", Text)], &[]);
pub(super) static MANAGED_FIELDS_ENTRY: Fields = Fields(&[
    ("apiVersion", Text), ("fieldsType", Text), ("fieldsV1", Pointer(&Raw)), ("manager", Text), ("operation", Text), ("subresource", Text),
    ("time", Pointer(&Time)),
], &[]);
pub(super) static NFS_VOLUME_SOURCE: Fields = Fields(&[("path", Text), ("readOnly", Boolean), ("server", Text)], &["path", "server"]);
pub(super) static NODE_AFFINITY: Fields = Fields(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", List(&Struct(&PREFERRED_SCHEDULING_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", Pointer(&Struct(&NODE_SELECTOR))),
], &[]);
pub(super) static NODE_SELECTOR: Fields = Fields(&[("nodeSelectorTerms", List(&Struct(&NODE_SELECTOR_TERM)))], &["nodeSelectorTerms"]);
pub(super) static NODE_SELECTOR_REQUIREMENT: Fields = Fields(&[
    ("key", Text), ("operator", Text), ("values", List(&Text)),
], &["key", "operator"]);
pub(super) static NODE_SELECTOR_TERM: Fields = Fields(&[
    ("matchExpressions", List(&Struct(&NODE_SELECTOR_REQUIREMENT))), ("matchFields", List(&Struct(&NODE_SELECTOR_REQUIREMENT))),
], &[]);
pub(super) static OBJECT_FIELD_SELECTOR: Fields = Fields(&[("apiVersion", Text), ("fieldPath", Text)], &["fieldPath"]);
pub(super) static OBJECT_META: Fields = Fields(&[
    ("annotations", Map(&Text)), ("creationTimestamp", Time), ("deletionGracePeriodSeconds", Pointer(&Integer)),
    ("deletionTimestamp", Pointer(&Time)), ("finalizers", List(&Text)), ("generateName", Text), ("generation", Integer),
    ("labels", Map(&Text)), ("managedFields", List(&Struct(&MANAGED_FIELDS_ENTRY))), ("name", Text), ("namespace", Text),
    ("ownerReferences", List(&Struct(&OWNER_REFERENCE))), ("resourceVersion", Text), ("selfLink", Text), ("uid", Text),
], &[]);
pub(super) static OWNER_REFERENCE: Fields = Fields(&[
    ("apiVersion", Text), ("blockOwnerDeletion", Pointer(&Boolean)), ("controller", Pointer(&Boolean)), ("kind", Text), ("name", Text),
    ("uid", Text),
], &["apiVersion", "kind", "name", "uid"]);
pub(super) static PERSISTENT_VOLUME_CLAIM_SPEC: Fields = Fields(&[
    ("accessModes", List(&Text)), ("dataSource", Pointer(&Struct(&TYPED_LOCAL_OBJECT_REFERENCE))),
    ("dataSourceRef", Pointer(&Struct(&TYPED_OBJECT_REFERENCE))), ("resources", Struct(&VOLUME_RESOURCE_REQUIREMENTS)),
    ("selector", Pointer(&Struct(&LABEL_SELECTOR))), ("storageClassName", Pointer(&Text)), ("volumeAttributesClassName", Pointer(&Text)),
    ("volumeMode", Pointer(&Text)), ("volumeName", Text),
], &["resources"]);
pub(super) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Fields = Fields(&[
    ("metadata", Struct(&OBJECT_META)), ("spec", Struct(&PERSISTENT_VOLUME_CLAIM_SPEC)),
], &["metadata", "spec"]);
pub(super) static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Fields = Fields(&[("claimName", Text), ("readOnly", Boolean)], &["claimName"]);
pub(super) static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Fields = Fields(&[("fsType", Text), ("pdID", Text)], &["pdID"]);
pub(super) static POD_AFFINITY: Fields = Fields(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", List(&Struct(&WEIGHTED_POD_AFFINITY_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", List(&Struct(&POD_AFFINITY_TERM))),
], &[]);
pub(super) static POD_AFFINITY_TERM: Fields = Fields(&[
    ("labelSelector", Pointer(&Struct(&LABEL_SELECTOR))), ("matchLabelKeys", List(&Text)), ("mismatchLabelKeys", List(&Text)),
    ("namespaceSelector", Pointer(&Struct(&LABEL_SELECTOR))), ("namespaces", List(&Text)), ("topologyKey", Text),
], &["topologyKey"]);
pub(super) static POD_ANTI_AFFINITY: Fields = Fields(&[
    ("preferredDuringSchedulingIgnoredDuringExecution", List(&Struct(&WEIGHTED_POD_AFFINITY_TERM))),
    ("requiredDuringSchedulingIgnoredDuringExecution", List(&Struct(&POD_AFFINITY_TERM))),
], &[]);
pub(super) static POD_CERTIFICATE_PROJECTION: Fields = Fields(&[
    ("certificateChainPath", Text), ("credentialBundlePath", Text), ("keyPath", Text), ("keyType", Text),
    ("maxExpirationSeconds", Pointer(&Integer)), ("signerName", Text), ("user", Pointer(&Integer)), ("userAnnotations", Map(&Text)),
], &[]);
pub(super) static POD_DNS_CONFIG: Fields = Fields(&[
    ("nameservers", List(&Text)), ("options", List(&Struct(&POD_DNS_CONFIG_OPTION))), ("searches", List(&Text)),
], &[]);
pub(super) static POD_DNS_CONFIG_OPTION: Fields = Fields(&[("name", Text), ("value", Pointer(&Text))], &[]);
pub(super) static POD_OS: Fields = Fields(&[("name", Text)], &["name"]);
pub(super) static POD_READINESS_GATE: Fields = Fields(&[("conditionType", Text)], &["conditionType"]);
pub(super) static POD_RESOURCE_CLAIM: Fields = Fields(&[
    ("name", Text), ("resourceClaimName", Pointer(&Text)), ("resourceClaimTemplateName", Pointer(&Text)),
], &["name"]);
pub(super) static POD_SCHEDULING_GATE: Fields = Fields(&[("name", Text)], &["name"]);
pub(super) static POD_SCHEDULING_GROUP: Fields = Fields(&[("podGroupName", Pointer(&Text))], &[]);
pub(super) static POD_SECURITY_CONTEXT: Fields = Fields(&[
    ("appArmorProfile", Pointer(&Struct(&APP_ARMOR_PROFILE))), ("fsGroup", Pointer(&Integer)), ("fsGroupChangePolicy", Pointer(&Text)),
    ("runAsGroup", Pointer(&Integer)), ("runAsNonRoot", Pointer(&Boolean)), ("runAsUser", Pointer(&Integer)),
    ("seLinuxChangePolicy", Pointer(&Text)), ("seLinuxOptions", Pointer(&Struct(&SE_LINUX_OPTIONS))),
    ("seccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))), ("supplementalGroups", List(&Integer)),
    ("supplementalGroupsPolicy", Pointer(&Text)), ("sysctls", List(&Struct(&SYSCTL))),
    ("windowsOptions", Pointer(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS))),
], &[]);
pub(super) static POD_SPEC: Fields = Fields(&[
    ("activeDeadlineSeconds", Pointer(&Integer)), ("affinity", Pointer(&Struct(&AFFINITY))),
    ("automountServiceAccountToken", Pointer(&Boolean)), ("containers", List(&Struct(&CONTAINER))),
    ("dnsConfig", Pointer(&Struct(&POD_DNS_CONFIG))), ("dnsPolicy", Text), ("enableServiceLinks", Pointer(&Boolean)),
    ("ephemeralContainers", List(&Struct(&EPHEMERAL_CONTAINER))), ("evictionResponders", List(&Struct(&EVICTION_RESPONDER))),
    ("hostAliases", List(&Struct(&HOST_ALIAS))), ("hostIPC", Boolean), ("hostNetwork", Boolean), ("hostPID", Boolean),
    ("hostUsers", Pointer(&Boolean)), ("hostname", Text), ("hostnameOverride", Pointer(&Text)),
    ("imagePullSecrets", List(&Struct(&LOCAL_OBJECT_REFERENCE))), ("initContainers", List(&Struct(&CONTAINER))), ("nodeName", Text),
    ("nodeSelector", Map(&Text)), ("os", Pointer(&Struct(&POD_OS))), ("overhead", Map(&Quantity)), ("preemptionPolicy", Pointer(&Text)),
    ("priority", Pointer(&Integer)), ("priorityClassName", Text), ("readinessGates", List(&Struct(&POD_READINESS_GATE))),
    ("resourceClaims", List(&Struct(&POD_RESOURCE_CLAIM))), ("resources", Pointer(&Struct(&RESOURCE_REQUIREMENTS))),
    ("restartPolicy", Text), ("runtimeClassName", Pointer(&Text)), ("schedulerName", Text),
    ("schedulingGates", List(&Struct(&POD_SCHEDULING_GATE))), ("schedulingGroup", Pointer(&Struct(&POD_SCHEDULING_GROUP))),
    ("securityContext", Pointer(&Struct(&POD_SECURITY_CONTEXT))), ("serviceAccount", Text), ("serviceAccountName", Text),
    ("setHostnameAsFQDN", Pointer(&Boolean)), ("shareProcessNamespace", Pointer(&Boolean)), ("subdomain", Text),
    ("terminationGracePeriodSeconds", Pointer(&Integer)), ("tolerations", List(&Struct(&TOLERATION))),
    ("topologySpreadConstraints", List(&Struct(&TOPOLOGY_SPREAD_CONSTRAINT))), ("volumes", List(&Struct(&VOLUME))),
], &["containers"]);
pub(super) static POD_TEMPLATE_SPEC: Fields = Fields(&[
    ("metadata", Struct(&OBJECT_META)), ("spec", Struct(&POD_SPEC)),
], &["metadata", "spec"]);
pub(super) static PORTWORX_VOLUME_SOURCE: Fields = Fields(&[("fsType", Text), ("readOnly", Boolean), ("volumeID", Text)], &["volumeID"]);
pub(super) static PREFERRED_SCHEDULING_TERM: Fields = Fields(&[
    ("preference", Struct(&NODE_SELECTOR_TERM)), ("weight", Integer),
], &["preference", "weight"]);
pub(super) static PROBE: Fields = Fields(&[
    ("exec", Pointer(&Struct(&EXEC_ACTION))), ("failureThreshold", Integer), ("grpc", Pointer(&Struct(&GRPC_ACTION))),
    ("httpGet", Pointer(&Struct(&HTTP_GET_ACTION))), ("initialDelaySeconds", Integer), ("periodSeconds", Integer),
    ("successThreshold", Integer), ("tcpSocket", Pointer(&Struct(&TCP_SOCKET_ACTION))),
    ("terminationGracePeriodSeconds", Pointer(&Integer)), ("timeoutSeconds", Integer),
], &[]);
pub(super) static PROJECTED_VOLUME_SOURCE: Fields = Fields(&[
    ("defaultMode", Pointer(&Integer)), ("defaultUser", Pointer(&Integer)), ("sources", List(&Struct(&VOLUME_PROJECTION))),
], &["sources"]);
pub(super) static QUOBYTE_VOLUME_SOURCE: Fields = Fields(&[
    ("group", Text), ("readOnly", Boolean), ("registry", Text), ("tenant", Text), ("user", Text), ("volume", Text),
], &["registry", "volume"]);
pub(super) static RBD_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("image", Text), ("keyring", Text), ("monitors", List(&Text)), ("pool", Text), ("readOnly", Boolean),
    ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("user", Text),
], &["image", "monitors"]);
pub(super) static RESOURCE_CLAIM: Fields = Fields(&[("name", Text), ("request", Text)], &["name"]);
pub(super) static RESOURCE_FIELD_SELECTOR: Fields = Fields(&[
    ("containerName", Text), ("divisor", Quantity), ("resource", Text),
], &["divisor", "resource"]);
pub(super) static RESOURCE_REQUIREMENTS: Fields = Fields(&[
    ("claims", List(&Struct(&RESOURCE_CLAIM))), ("limits", Map(&Quantity)), ("requests", Map(&Quantity)),
], &[]);
pub(super) static SCALE_IO_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("gateway", Text), ("protectionDomain", Text), ("readOnly", Boolean),
    ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("sslEnabled", Boolean), ("storageMode", Text), ("storagePool", Text),
    ("system", Text), ("volumeName", Text),
], &["gateway", "secretRef", "system"]);
pub(super) static SECCOMP_PROFILE: Fields = Fields(&[("localhostProfile", Pointer(&Text)), ("type", Text)], &["type"]);
pub(super) static SECRET_ENV_SOURCE: Fields = Fields(&[("name", Text), ("optional", Pointer(&Boolean))], &[]);
pub(super) static SECRET_KEY_SELECTOR: Fields = Fields(&[("key", Text), ("name", Text), ("optional", Pointer(&Boolean))], &["key"]);
pub(super) static SECRET_PROJECTION: Fields = Fields(&[
    ("items", List(&Struct(&KEY_TO_PATH))), ("name", Text), ("optional", Pointer(&Boolean)),
], &[]);
pub(super) static SECRET_VOLUME_SOURCE: Fields = Fields(&[
    ("defaultMode", Pointer(&Integer)), ("defaultUser", Pointer(&Integer)), ("items", List(&Struct(&KEY_TO_PATH))),
    ("optional", Pointer(&Boolean)), ("secretName", Text),
], &[]);
pub(super) static SECURITY_CONTEXT: Fields = Fields(&[
    ("allowPrivilegeEscalation", Pointer(&Boolean)), ("appArmorProfile", Pointer(&Struct(&APP_ARMOR_PROFILE))),
    ("capabilities", Pointer(&Struct(&CAPABILITIES))), ("privileged", Pointer(&Boolean)), ("procMount", Pointer(&Text)),
    ("readOnlyRootFilesystem", Pointer(&Boolean)), ("runAsGroup", Pointer(&Integer)), ("runAsNonRoot", Pointer(&Boolean)),
    ("runAsUser", Pointer(&Integer)), ("seLinuxOptions", Pointer(&Struct(&SE_LINUX_OPTIONS))),
    ("seccompProfile", Pointer(&Struct(&SECCOMP_PROFILE))), ("windowsOptions", Pointer(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS))),
], &[]);
pub(super) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Fields = Fields(&[
    ("audience", Text), ("expirationSeconds", Pointer(&Integer)), ("path", Text), ("user", Pointer(&Integer)),
], &["path"]);
pub(super) static SE_LINUX_OPTIONS: Fields = Fields(&[("level", Text), ("role", Text), ("type", Text), ("user", Text)], &[]);
pub(super) static SLEEP_ACTION: Fields = Fields(&[("seconds", Integer)], &["seconds"]);
pub(super) static STORAGE_OS_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("readOnly", Boolean), ("secretRef", Pointer(&Struct(&LOCAL_OBJECT_REFERENCE))), ("volumeName", Text),
    ("volumeNamespace", Text),
], &[]);
pub(super) static SYSCTL: Fields = Fields(&[("name", Text), ("value", Text)], &["name", "value"]);
pub(super) static TCP_SOCKET_ACTION: Fields = Fields(&[("host", Text), ("port", IntOrString)], &["port"]);
pub(super) static TOLERATION: Fields = Fields(&[
    ("effect", Text), ("key", Text), ("operator", Text), ("tolerationSeconds", Pointer(&Integer)), ("value", Text),
], &[]);
pub(super) static TOPOLOGY_SPREAD_CONSTRAINT: Fields = Fields(&[
    ("labelSelector", Pointer(&Struct(&LABEL_SELECTOR))), ("matchLabelKeys", List(&Text)), ("maxSkew", Integer),
    ("minDomains", Pointer(&Integer)), ("nodeAffinityPolicy", Pointer(&Text)), ("nodeTaintsPolicy", Pointer(&Text)), ("topologyKey", Text),
    ("whenUnsatisfiable", Text),
], &["maxSkew", "topologyKey", "whenUnsatisfiable"]);
pub(super) static TYPED_LOCAL_OBJECT_REFERENCE: Fields = Fields(&[
    ("apiGroup", Pointer(&Text)), ("kind", Text), ("name", Text),
], &["apiGroup", "kind", "name"]);
pub(super) static TYPED_OBJECT_REFERENCE: Fields = Fields(&[
    ("apiGroup", Pointer(&Text)), ("kind", Text), ("name", Text), ("namespace", Pointer(&Text)),
], &["apiGroup", "kind", "name"]);
pub(super) static VOLUME: Fields = Fields(&[
    ("awsElasticBlockStore", Pointer(&Struct(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE))),
    ("azureDisk", Pointer(&Struct(&AZURE_DISK_VOLUME_SOURCE))), ("azureFile", Pointer(&Struct(&AZURE_FILE_VOLUME_SOURCE))),
    ("cephfs", Pointer(&Struct(&CEPH_FS_VOLUME_SOURCE))), ("cinder", Pointer(&Struct(&CINDER_VOLUME_SOURCE))),
    ("configMap", Pointer(&Struct(&CONFIG_MAP_VOLUME_SOURCE))), ("csi", Pointer(&Struct(&CSI_VOLUME_SOURCE))),
    ("downwardAPI", Pointer(&Struct(&DOWNWARD_API_VOLUME_SOURCE))), ("emptyDir", Pointer(&Struct(&EMPTY_DIR_VOLUME_SOURCE))),
    ("ephemeral", Pointer(&Struct(&EPHEMERAL_VOLUME_SOURCE))), ("fc", Pointer(&Struct(&FC_VOLUME_SOURCE))),
    ("flexVolume", Pointer(&Struct(&FLEX_VOLUME_SOURCE))), ("flocker", Pointer(&Struct(&FLOCKER_VOLUME_SOURCE))),
    ("gcePersistentDisk", Pointer(&Struct(&GCE_PERSISTENT_DISK_VOLUME_SOURCE))), ("gitRepo", Pointer(&Struct(&GIT_REPO_VOLUME_SOURCE))),
    ("glusterfs", Pointer(&Struct(&GLUSTERFS_VOLUME_SOURCE))), ("hostPath", Pointer(&Struct(&HOST_PATH_VOLUME_SOURCE))),
    ("image", Pointer(&Struct(&IMAGE_VOLUME_SOURCE))), ("iscsi", Pointer(&Struct(&ISCSI_VOLUME_SOURCE))), ("name", Text),
    ("nfs", Pointer(&Struct(&NFS_VOLUME_SOURCE))), ("persistentVolumeClaim", Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE))),
    ("photonPersistentDisk", Pointer(&Struct(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE))),
    ("portworxVolume", Pointer(&Struct(&PORTWORX_VOLUME_SOURCE))), ("projected", Pointer(&Struct(&PROJECTED_VOLUME_SOURCE))),
    ("quobyte", Pointer(&Struct(&QUOBYTE_VOLUME_SOURCE))), ("rbd", Pointer(&Struct(&RBD_VOLUME_SOURCE))),
    ("scaleIO", Pointer(&Struct(&SCALE_IO_VOLUME_SOURCE))), ("secret", Pointer(&Struct(&SECRET_VOLUME_SOURCE))),
    ("storageos", Pointer(&Struct(&STORAGE_OS_VOLUME_SOURCE))), ("vsphereVolume", Pointer(&Struct(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE))),
], &["name"]);
pub(super) static VOLUME_DEVICE: Fields = Fields(&[("devicePath", Text), ("name", Text)], &["devicePath", "name"]);
pub(super) static VOLUME_MOUNT: Fields = Fields(&[
    ("bindMountOptions", List(&Text)), ("mountPath", Text), ("mountPropagation", Pointer(&Text)), ("name", Text), ("readOnly", Boolean),
    ("recursiveReadOnly", Pointer(&Text)), ("subPath", Text), ("subPathExpr", Text),
], &["mountPath", "name"]);
pub(super) static VOLUME_PROJECTION: Fields = Fields(&[
    ("clusterTrustBundle", Pointer(&Struct(&CLUSTER_TRUST_BUNDLE_PROJECTION))), ("configMap", Pointer(&Struct(&CONFIG_MAP_PROJECTION))),
    ("downwardAPI", Pointer(&Struct(&DOWNWARD_API_PROJECTION))), ("podCertificate", Pointer(&Struct(&POD_CERTIFICATE_PROJECTION))),
    ("secret", Pointer(&Struct(&SECRET_PROJECTION))), ("serviceAccountToken", Pointer(&Struct(&SERVICE_ACCOUNT_TOKEN_PROJECTION))),
], &[]);
pub(super) static VOLUME_RESOURCE_REQUIREMENTS: Fields = Fields(&[("limits", Map(&Quantity)), ("requests", Map(&Quantity))], &[]);
pub(super) static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Fields = Fields(&[
    ("fsType", Text), ("storagePolicyID", Text), ("storagePolicyName", Text), ("volumePath", Text),
], &["volumePath"]);
pub(super) static WEIGHTED_POD_AFFINITY_TERM: Fields = Fields(&[
    ("podAffinityTerm", Struct(&POD_AFFINITY_TERM)), ("weight", Integer),
], &["podAffinityTerm", "weight"]);
pub(super) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Fields = Fields(&[
    ("gmsaCredentialSpec", Pointer(&Text)), ("gmsaCredentialSpecName", Pointer(&Text)), ("hostProcess", Pointer(&Boolean)),
    ("runAsUserName", Pointer(&Text)),
], &[]);
