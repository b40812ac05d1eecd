package main

// A query of a panel.
type query struct{ expr, legend string }

// A panel: a graph, or one number each of its series.
type panel struct {
	title, about, unit string
	width              uint32
	number             bool
	stacked            bool
	queries            []query
}

// A row of panels; 24 units wide.
type row struct {
	title  string
	panels []panel
}

// Every selector has these in it: SELECTED stands for them.
const selected = `cluster=~"$cluster", job=~"$job", instance=~"$instance"`

// The first rows are what kubernetes-mixin has in "Kubernetes / Controller Manager", the others what only this program tells.
var rows = []row{
	{"", []panel{
		{"Up", "Replicas that are scraped.", "short", 3, true, false, []query{
			{`count(workloads_controller_manager_build_info{SELECTED})`, ""}}},
		{"Leader", "The replica that holds the lease. Nothing without leader election.", "short", 6, true, false, []query{
			{`leader_election_master_status{SELECTED} == 1`, "{{instance}}"}}},
		{"Release", "", "short", 3, true, false, []query{
			{`count by (version) (workloads_controller_manager_build_info{SELECTED})`, "{{version}}"}}},
		{"Below desired", "Deployments and StatefulSets that have fewer available replicas than they want.", "short", 3, true, false, []query{
			{`max(sum by (instance) (workloads_controller_manager_below_desired_objects{SELECTED, resource=~"deployments|statefulsets", for_seconds="0"}))`, ""}}},
		{"Failing", "Objects whose last sync has failed.", "short", 3, true, false, []query{
			{`max(sum by (instance) (workloads_controller_manager_failing_objects{SELECTED}))`, ""}}},
		{"Caches filled", "", "percentunit", 3, true, false, []query{
			{`avg(workloads_controller_manager_cache_synced{SELECTED})`, ""}}},
		{"Health checks", "", "percentunit", 3, true, false, []query{
			{`avg(kubernetes_healthcheck{SELECTED})`, ""}}},
	}},
	{"Why does it wait?", []panel{
		{"Objects that wait, by rule", "deploy/explain.md says what ends each wait.", "short", 12, false, true, []query{
			{`max by (controller, rule) (workloads_controller_manager_waiting_objects{SELECTED}) > 0`, "{{controller}} {{rule}}"}}},
		{"Longest wait, by rule", "", "s", 12, false, false, []query{
			{`max by (controller, rule) (workloads_controller_manager_longest_wait_seconds{SELECTED}) > 0`, "{{controller}} {{rule}}"}}},
		{"Syncs, by outcome", "", "ops", 8, false, true, []query{
			{`sum by (controller, outcome) (rate(workloads_controller_manager_syncs_total{SELECTED}[$__rate_interval]))`, "{{controller}} {{outcome}}"}}},
		{"Writes, by rule", "", "ops", 8, false, true, []query{
			{`sum by (controller, rule) (rate(workloads_controller_manager_writes_total{SELECTED}[$__rate_interval])) > 0`, "{{controller}} {{rule}}"}}},
		{"Writes refused, by reason", "", "ops", 8, false, false, []query{
			{`sum by (controller, resource, reason) (rate(workloads_controller_manager_writes_refused_total{SELECTED}[$__rate_interval]))`, "{{controller}} {{resource}} {{reason}}"}}},
		{"Longest time of failing", "", "s", 12, false, false, []query{
			{`max by (controller) (workloads_controller_manager_longest_failure_seconds{SELECTED})`, "{{controller}}"}}},
		{"Syncs put off: the cache was behind", "", "ops", 12, false, false, []query{
			{`sum(rate(replicaset_controller_stale_sync_skips_total{SELECTED}[$__rate_interval]))`, "replicaset"},
			{`sum(rate(statefulset_controller_stale_sync_skips_total{SELECTED}[$__rate_interval]))`, "statefulset"},
			{`sum(rate(deployment_controller_stale_sync_skips_total{SELECTED}[$__rate_interval]))`, "deployment"}}},
	}},
	{"Replicas", []panel{
		{"Objects below desired, by how many seconds at least", "", "short", 12, false, false, []query{
			{`max by (resource, for_seconds) (workloads_controller_manager_below_desired_objects{SELECTED})`, "{{resource}} {{for_seconds}}"}}},
		{"Longest time below desired", "", "s", 12, false, false, []query{
			{`max by (resource) (workloads_controller_manager_longest_below_desired_seconds{SELECTED})`, "{{resource}}"}}},
	}},
	{"Work queues", []panel{
		{"Add rate", "", "ops", 8, false, false, []query{
			{`sum by (instance, name) (rate(workqueue_adds_total{SELECTED}[$__rate_interval]))`, "{{instance}} {{name}}"}}},
		{"Depth", "", "short", 8, false, false, []query{
			{`sum by (instance, name) (workqueue_depth{SELECTED})`, "{{instance}} {{name}}"}}},
		{"Time in the queue, 99th percentile", "", "s", 8, false, false, []query{
			{`histogram_quantile(0.99, sum by (instance, name, le) (rate(workqueue_queue_duration_seconds_bucket{SELECTED}[$__rate_interval])))`, "{{instance}} {{name}}"}}},
		{"Time of a sync, 99th percentile", "", "s", 8, false, false, []query{
			{`histogram_quantile(0.99, sum by (instance, name, le) (rate(workqueue_work_duration_seconds_bucket{SELECTED}[$__rate_interval])))`, "{{instance}} {{name}}"}}},
		{"Retries", "", "ops", 8, false, false, []query{
			{`sum by (instance, name) (rate(workqueue_retries_total{SELECTED}[$__rate_interval]))`, "{{instance}} {{name}}"}}},
		{"Longest running sync", "", "s", 8, false, false, []query{
			{`max by (instance, name) (workqueue_longest_running_processor_seconds{SELECTED})`, "{{instance}} {{name}}"}}},
	}},
	{"API server", []panel{
		{"Requests", "", "ops", 8, false, true, []query{
			{`sum by (method, code) (rate(rest_client_requests_total{SELECTED}[$__rate_interval]))`, "{{method}} {{code}}"}}},
		{"Time of a request, 99th percentile", "", "s", 8, false, false, []query{
			{`histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{SELECTED}[$__rate_interval])))`, "{{verb}}"}}},
		{"Time spent waiting for --kube-api-qps, 99th percentile", "", "s", 8, false, false, []query{
			{`histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_rate_limiter_duration_seconds_bucket{SELECTED}[$__rate_interval])))`, "{{verb}}"}}},
	}},
	{"Caches", []panel{
		{"Objects", "", "short", 6, false, false, []query{
			{`max by (resource) (workloads_controller_manager_cached_objects{SELECTED})`, "{{resource}}"}}},
		{"Bytes of the objects", "Without what objects share, and without indexes.", "bytes", 6, false, false, []query{
			{`max by (resource) (workloads_controller_manager_cached_bytes{SELECTED})`, "{{resource}}"}}},
		{"Memory for each cached object", "All that the process has, over all that it caches.", "bytes", 6, false, false, []query{
			{`sum by (instance) (process_resident_memory_bytes{SELECTED}) / sum by (instance) (workloads_controller_manager_cached_objects{SELECTED})`, "{{instance}}"}}},
		{"Watches that fail", "For how long nothing but errors has come.", "s", 6, false, false, []query{
			{`max by (instance, resource) (workloads_controller_manager_watch_failing_seconds{SELECTED})`, "{{instance}} {{resource}}"}}},
	}},
	{"Process", []panel{
		{"Memory", "", "bytes", 8, false, false, []query{
			{`process_resident_memory_bytes{SELECTED}`, "{{instance}}"}}},
		{"CPU", "", "short", 8, false, false, []query{
			{`rate(process_cpu_seconds_total{SELECTED}[$__rate_interval])`, "{{instance}}"}}},
		{"Open files", "", "short", 8, false, false, []query{
			{`process_open_fds{SELECTED}`, "{{instance}}"}}},
	}},
}
